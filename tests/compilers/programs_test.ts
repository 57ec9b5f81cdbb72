/** Every way to write kernels for GPUs is among the programs that compilers of AMD and Intel are given. */
import { assert, assertEquals } from "@std/assert";
import { planKernel } from "../../backend/opencl/templates/generate.ts";
import { attentions, contractions, loops, specials } from "../../backend/opencl/templates/lists.ts";
import { withPaperDevice } from "../backend/paper_device.ts";
import { testOpenCL } from "../opencl.ts";
import { testsIn } from "../runtimes/check.ts";
import { programs } from "./programs.ts";
import { foreign } from "./vendors.ts";

/** Templates that no GPU of AMD or Intel is planned with: those of CPUs, and those of NVIDIA's GPUs. */
const ofCPUs = [
  ...["channel-lane convolution", "depthwise convolution", "depthwise weight gradient"],
  ...["direct convolution", "inner-product gemm", "lanes attention", "merge argsort"],
  ...["range scatter", "recurrence", "register-tiled gemm", "short rows", "strip scatter"],
  ...["transposed squares", "vectors", "weight-gradient convolution", "windows side by side"],
  "Winograd convolution",
];
const ofNVIDIA = ["attention to filled keys", "mma attention", "warpgroup gemm"];
/** Kernels that the library has as texts, and CPUs alone are given. */
const textsOfCPUs = [
  ...["fourier_vectors", "qr_factor", "triangular_solve", "tridiagonal_form", "tridiagonal_merge"],
  "tridiagonal_sweeps",
];

/** The functions that call such kernels, or make them. */
const makers = "callDeviceKernel|callBlocks|MatrixKernel|elementKernel";

/** The names of those kernels: strings in snake_case, where the sources have no others. */
async function namesOfTexts(): Promise<string[]> {
  const names: string[] = [], nameless: string[] = [];
  for (const path of testsIn("tensor", /\.ts$/)) {
    const text = await Deno.readTextFile(path);
    const isMaker = new RegExp(`export (function|interface) (${makers})\\b`).test(text);
    if (isMaker || !new RegExp(`\\b(${makers})\\b`).test(text)) continue;
    const found = [...text.matchAll(/["`]([a-z]+(?:_[a-z]+)+)(?:_\$|["`])/g)];
    if (found.length === 0) nameless.push(path);
    names.push(...found.map(([, name]) => name!));
  }
  assertEquals(nameless, [], "files whose kernels have no names in snake_case");
  return names;
}

const unique = (names: Iterable<string>): string[] => [...new Set(names)].sort();

testOpenCL("programs reach all templates and texts that GPUs of AMD and Intel have", async () => {
  const templates: string[] = [], texts: string[] = [];
  const { device } = foreign.gfx1100!, beyond = new Set<string>();
  let shared = 0;
  for (const run of programs.values()) {
    withPaperDevice(device, () => {}, run, {
      custom: ({ kernel: { name }, local }) => {
        texts.push(name.replace(/_\d+$/, ""));
        const items = (local ?? []).reduce((a, b) => a * b, 1);
        if (items > device.limits!.maxWorkGroupSize!) beyond.add(`${name}: ${items} work-items`);
      },
      planned: (kernel, target) => {
        const members = kernel.kind === "horizontal" ? kernel.members : [kernel];
        if (members.length > 1) shared++;
        templates.push(...members.map((member) => planKernel(member, target).name));
      },
    });
  }
  const all = [...contractions, ...loops, ...attentions, ...specials].map(({ name }) => name);
  assertEquals([...unique(templates), ...ofCPUs, ...ofNVIDIA].sort(), all.sort());
  assertEquals([...unique(texts), ...textsOfCPUs].sort(), unique(await namesOfTexts()));
  assertEquals([...beyond], [], "groups that the device does not take");
  assert(shared > 0, "no kernels share a launch");
});
