/**
 * The peak of memory in a training step of each model of bench/, compiled and plain, beside PyTorch's (eager,
 * which `python3` has, on the same GPU).
 *
 *     deno run -A bench/peak_memory.ts [--device gpu] [--only gpt,llama] [--steps 20]
 *
 * For each model it prints the bytes that tensors held at most in so many steps behind the first twenty, what
 * was reserved of the driver, and the ratio to PyTorch's (`max_memory_allocated`); without PyTorch or CUDA,
 * netcl's alone. Each is a process of its own: what one model leaves behind does not count for the next.
 */
import { fileURLToPath } from "node:url";
import { argumentsOrExit, flagValues } from "./arguments.ts";
import { type DeviceClass, modelsOn, type Work } from "./works.ts";

const peer = (file: string): string => fileURLToPath(new URL(`peers/${file}`, import.meta.url));

/** The last line that a command prints, or null where it fails or is not there. */
function lastLine(command: string, args: string[]): string | null {
  try {
    const env = { NO_COLOR: "1", OMP_NUM_THREADS: String(navigator.hardwareConcurrency) };
    const options: Deno.CommandOptions = { args, env, stderr: "null" };
    const { success, stdout } = new Deno.Command(command, options).outputSync();
    return success ? new TextDecoder().decode(stdout).trim().split("\n").at(-1)! : null;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}

const inMiB = (bytes: number): string => (bytes / 2 ** 20).toFixed(bytes < 2 ** 27 ? 1 : 0);

/** Measures a model and prints it. @throws {Error} Where netcl's own process fails. */
function measure({ kind, size }: Work, device: string, steps: string): void {
  const work = [kind, String(size), steps];
  const torch = device === "gpu"
    ? lastLine("python3", [peer("torch_peer.py"), device, "peak", ...work])
    : null;
  const beside = torch === null ? "" : `, PyTorch ${inMiB(Number(torch))}`;
  const forms = ["compiled", "plain"].map((form) => {
    const args = ["run", "-A", "--no-check", peer("netcl.ts"), device, "peak", ...work];
    const line = lastLine(Deno.execPath(), form === "plain" ? args : [...args, form]);
    if (line === null) throw new Error(`${args.join(" ")} failed: run it to see why`);
    const [held, reserved] = JSON.parse(line) as [number, number];
    const ratio = torch === null ? "" : `, ${(held / Number(torch)).toFixed(2)} of it`;
    return `${form} ${inMiB(held)}${ratio} (reserved ${inMiB(reserved)})`;
  });
  console.log(`${kind} ${size}, MiB: ${forms.join("; ")}${beside}`);
}

const { device, only, steps } = argumentsOrExit((args) =>
  flagValues(args, {
    device: { type: "string", default: "gpu" },
    only: { type: "string", default: "" },
    steps: { type: "string", default: "20" },
  })
);
if (!(Number(steps) >= 1)) {
  throw new TypeError(`--steps takes a number of at least 1, not "${steps}"`);
}
const prefixes = only.split(",");
for (const work of modelsOn(device as DeviceClass)) {
  if (prefixes.some((prefix) => work.kind.startsWith(prefix))) measure(work, device, steps);
}
