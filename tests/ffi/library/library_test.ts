import { assert, assertEquals, assertThrows } from "@std/assert";
import {
  isOpenCLAvailable,
  libraryPath,
  OpenCLUnavailableError,
  platforms,
  withFaults,
} from "../../../ffi/mod.ts";
import { denoArgs, runChild } from "../child.ts";
import { atTerminal } from "../../at_terminal.ts";
import { plain } from "../../plain.ts";
import { allowedCores } from "../../../ffi/host/libc.ts";
import { findCommand } from "../../suite/needs.ts";
import { hasOpenCL, testOpenCL } from "../fixture.ts";

const isPoCL = hasOpenCL &&
  platforms().some(({ name }) => name === "Portable Computing Language");

const report = `
import { isOpenCLAvailable, platforms } from "@netcl/netcl/ffi";
console.log(isOpenCLAvailable());
try { platforms(); } catch (error) { console.log(error.name + "\\n" + error.message); }
`;

Deno.test("importing opens nothing, and needs no permission", async () => {
  const source = `import { libraryPath } from "@netcl/netcl/ffi"; console.log(libraryPath);`;
  assertEquals(await runChild(source, { permissions: [] }), { code: 0, out: "null", err: "" });
});

Deno.test("without the permission the error says which flag to use", async () => {
  const { out } = await runChild(report, { permissions: [] });
  const [available, name, message] = out.split("\n");
  assertEquals([available, name], ["false", "OpenCLUnavailableError"]);
  assert(message!.includes("--allow-ffi"), message);
});

Deno.test("a library that is not there is named, with what to do", async () => {
  const env = { NETCL_OPENCL_LIBRARY: "/nowhere/libOpenCL.so.7" };
  const { out } = await runChild(report, { env });
  assert(out.startsWith("false\nOpenCLUnavailableError\nCannot find an OpenCL library"), out);
  assert(out.includes("/nowhere/libOpenCL.so.7") && out.includes("NETCL_OPENCL_LIBRARY"), out);
});

testOpenCL("a library without drivers is an error that says what to install", () => {
  withFaults([{ call: "clGetPlatformIDs", status: -1001 }], () => {
    assertEquals(isOpenCLAvailable(), false);
    const error = assertThrows(() => platforms(), OpenCLUnavailableError);
    assert(error.message.startsWith("Cannot find an OpenCL driver"), error.message);
    assert(error.message.includes("OCL_ICD_VENDORS"), error.message);
  });
});

Deno.test("the library is chosen by NETCL_OPENCL_LIBRARY", { ignore: !hasOpenCL }, async () => {
  const source = `
      import { libraryPath, platforms } from "@netcl/netcl/ffi";
      console.log(platforms().length > 0, libraryPath);`;
  const { out } = await runChild(source, { env: { NETCL_OPENCL_LIBRARY: libraryPath! } });
  assertEquals(out, `true ${libraryPath}`);
});

const program = `
import { Context, platforms, Program } from "@netcl/netcl/ffi";
using context = new Context(platforms()[0].devices()[0]);
using program = new Program(context, "kernel void f(global int* x) { x[0] = 1; }").build();
const binary = program.binary(context.devices[0]);
using again = Program.fromBinary(context, context.devices[0], binary).build();
console.log(again.kernelNames.join());
`;

Deno.test("permission for the library's file alone is enough to build and load programs", {
  ignore: !hasOpenCL || Deno.build.os !== "linux",
}, async () => {
  const file = `/usr/lib/${Deno.build.arch}-linux-gnu/libOpenCL.so.1`;
  const permissions = [`--allow-ffi=${file}`, "--allow-import"];
  const { out, err } = await runChild(program, { permissions });
  assertEquals([out, err], ["f", ""]);
});

Deno.test({
  name: "PoCL's threads are pinned, unless the user chose otherwise or it may not be set",
  ignore: !hasOpenCL,
  async fn() {
    const source = `
      import { platforms } from "@netcl/netcl/ffi";
      platforms();
      const { state } = await Deno.permissions.query({ name: "env", variable: "POCL_AFFINITY" });
      console.log(state === "granted" ? Deno.env.get("POCL_AFFINITY") : state);`;
    // PoCL pins to the first cores: where this process may not use those, it is left alone.
    const { cores } = allowedCores() ?? { cores: [] };
    const due = cores.some((core, k) => core !== k) ? "undefined" : "1";
    const chosen = { env: { POCL_AFFINITY: "0" } };
    const silent = { permissions: ["--allow-ffi", "--allow-import"] };
    const runs = await Promise.all([
      runChild(source),
      runChild(source, chosen),
      runChild(source, silent),
    ]);
    assertEquals(runs.map(({ out }) => out), [due, "0", "prompt"]);
  },
});

Deno.test("PoCL's threads stay on the cores that this process was given", {
  ignore: !isPoCL || Deno.build.os !== "linux" || navigator.hardwareConcurrency < 2,
}, async () => {
  const source = `
      import { Buffer, CommandQueue, Context, platforms } from "@netcl/netcl/ffi";
      const pocl = platforms().find(({ name }) => name === "Portable Computing Language");
      const [device] = pocl.devices();
      const context = new Context([device]), queue = new CommandQueue(context, device);
      using buffer = new Buffer(context, 64);
      queue.write(buffer, new Uint8Array(64));
      queue.finishSync();
      const threads = [...Deno.readDirSync("/proc/self/task")].map(({ name }) =>
        /Cpus_allowed_list:\\s*(.*)/.exec(Deno.readTextFileSync("/proc/self/task/" + name + "/status"))[1]);
      console.log([...new Set(threads)].join(" "));`;
  // This process has set the variable for itself.
  const core = `${allowedCores()!.cores.at(-1)}`;
  const confined = ["-u", "POCL_AFFINITY", "taskset", "-c", core];
  const args = [...confined, Deno.execPath(), ...denoArgs(source)];
  const { stdout, stderr } = await new Deno.Command("env", { args }).output();
  const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes).trim();
  assertEquals([text(stdout), text(stderr)], [core, ""]);
});

const hasScript = findCommand("script") !== null;

/** Runs a child on a terminal of its own, and answers its question. */
async function answered(answer: string): Promise<string> {
  const args = [Deno.execPath(), ...denoArgs(report, ["--allow-import"])].filter((arg) =>
    arg !== "--no-prompt"
  );
  const child = atTerminal(args, { env: plain }).spawn();
  const writer = child.stdin.getWriter();
  // Deno drops what was typed before it asked, so the answer is given until it is taken.
  const typing = setInterval(() => void writer.write(new TextEncoder().encode(answer)), 100);
  let out = "", ended = false;
  for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
    out += text;
    if (ended || !/Granted|Denied/.test(out)) continue;
    ended = true;
    clearInterval(typing);
    await writer.close(); // until then script does not end
  }
  clearInterval(typing);
  await child.status;
  return out;
}

Deno.test("on a terminal the permission is asked for, and the answer counts", {
  ignore: !hasOpenCL || !hasScript || Deno.build.os !== "linux",
}, async () => {
  const [yes, no] = await Promise.all([answered("y\n"), answered("n\n")]);
  assert(/\ntrue\r/.test(yes), yes);
  assert(no.includes("run with --allow-ffi"), no);
});
