import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { sourceExcerpt } from "../../../ffi/kernels/build_log.ts";
import {
  Buffer,
  check,
  KernelBuildError,
  OpenCLError,
  openLibrary,
  Program,
  ProgramInfo,
  setWaitPolicy,
} from "../../../ffi/mod.ts";
import { runProgram } from "../../run_deno.ts";
import { contentOf, context, device, queue, testOpenCL } from "../fixture.ts";

const one = "kernel void one(global int* y) { y[0] = VALUE; }";
const broken = "kernel void f(global float* x) {\n  x[0] = 1;\n  x[1] = nope;\n}";

async function resultOf(program: Program, name = "one"): Promise<number> {
  using buffer = new Buffer(context, 4);
  using kernel = program.kernel(name);
  queue.run(kernel, { global: [1], args: [buffer] }).release();
  const out = await contentOf(buffer, new Int32Array(1));
  return out[0]!;
}

testOpenCL("Program builds with options and lists its kernels", async () => {
  using program = new Program(context, one + "kernel void two(global int* y) {}");
  assertEquals(program.build("-D VALUE=3"), program);
  assertEquals(program.kernelNames.toSorted(), ["one", "two"]);
  assertEquals(program.devices, [device]);
  assertEquals(await resultOf(program), 3);
  const kernels = program.kernels();
  assertEquals(kernels.map(({ name }) => name).toSorted(), ["one", "two"]);
  for (const kernel of kernels) kernel.release();
});

testOpenCL("Program: what a compiler refuses is told by the error alone", async () => {
  const { out, err } = await runProgram(`
    import { Context, platforms, Program } from "./ffi/mod.ts";
    for (const device of platforms().flatMap((platform) => platform.devices())) {
      using context = new Context(device), program = new Program(context, ${
    JSON.stringify(broken)
  });
      try {
        program.build();
      } catch (error) {
        console.log(error.name);
      }
    }
  `);
  assert(out.split("\n").includes("KernelBuildError"), out);
  assertEquals(err, "");
});

testOpenCL("Program: a build error has the log, and the source lines that it names", () => {
  using program = new Program(context, broken);
  const error = assertThrows(() => program.build(), KernelBuildError);
  assertEquals([error.codeName, error.call], ["CL_BUILD_PROGRAM_FAILURE", "clBuildProgram"]);
  assert(error.log.includes("nope"), error.log);
  assert(error.message.includes(">    3 |   x[1] = nope;"), error.message);
  assert(error.message.includes("     2 |   x[0] = 1;"), error.message);
});

testOpenCL("Program: buildAsync does the same without blocking", async () => {
  using program = new Program(context, one), bad = new Program(context, broken);
  await Promise.all([
    program.buildAsync("-D VALUE=4"),
    assertRejects(() => bad.buildAsync(), KernelBuildError),
  ]);
  assertEquals(await resultOf(program), 4);
});

testOpenCL("Program: a build that is given up goes on, and keeps the program", async () => {
  using program = new Program(context, one);
  const references = () => {
    const count = new Uint32Array(1), { REFERENCE_COUNT } = ProgramInfo;
    check(
      openLibrary().clGetProgramInfo(program.unsafeHandle, REFERENCE_COUNT, 4n, count, null),
      "clGetProgramInfo",
    );
    return count[0]!;
  };
  const before = references();
  let building: Promise<unknown> = Promise.resolve(), isBuilt = false;
  const former = setWaitPolicy({
    waitSync() {},
    wait(promise) {
      building = promise.then(() => isBuilt = true);
      return Promise.reject(new Error("given up"));
    },
  });
  try {
    await assertRejects(() => program.buildAsync("-D VALUE=7"), Error, "given up");
  } finally {
    setWaitPolicy(former);
  }
  const during = references();
  // Mesa builds so small a program at once: its caller has nothing to give up.
  for (let turn = 0; turn < 10; turn++) await Promise.resolve();
  assert(isBuilt || during === before + 1, `${during} references`);
  await building;
  assertEquals(references(), before);
  assertEquals(await resultOf(program), 7);
});

testOpenCL("Program: a binary builds to the same program", async () => {
  using program = new Program(context, one).build("-D VALUE=5");
  const binary = program.binary(device);
  assert(binary.length > 100);
  using loaded = Program.fromBinary(context, device, binary).build();
  assertEquals(await resultOf(loaded), 5);
  const damaged = () => {
    using _program = Program.fromBinary(context, device, new Uint8Array(100)).build();
  };
  assertEquals(assertThrows(damaged, OpenCLError).codeName, "CL_INVALID_BINARY");
});

testOpenCL("Program: programs are compiled with headers and linked", async () => {
  using header = new Program(context, "#define VALUE 6\nint helper(int x);");
  using main = new Program(
    context,
    '#include "netcl_test.h"\nkernel void one(global int* y) { y[0] = helper(VALUE); }',
  );
  using helper = new Program(context, "int helper(int x) { return 10 * x; }");
  main.compile("", [{ name: "netcl_test.h", program: header }]);
  helper.compile();
  using linked = Program.link(context, [main, helper]);
  assertEquals(await resultOf(linked), 60);
  using bad = new Program(context, broken);
  assertEquals(assertThrows(() => bad.compile(), KernelBuildError).call, "clCompileProgram");
});

testOpenCL("Program: a missing kernel is named", () => {
  using program = new Program(context, one).build("-D VALUE=0");
  const error = assertThrows(() => program.kernel("three"), OpenCLError);
  assertEquals(error.codeName, "CL_INVALID_KERNEL_NAME");
  assert(error.message.includes('kernel "three"'));
});

testOpenCL("Program: what is not ASCII reaches the compiler whole", async () => {
  using program = new Program(context, `/* größer → */ ${one}`).build("-D VALUE=7");
  assertEquals(await resultOf(program), 7);
});

Deno.test("Program: sourceExcerpt shows each line that the log names once, with its neighbours", () => {
  const source = ["a", "b", "c", "d", "e"].join("\n");
  const log = "<source>:1:5: error: x\n<source>:5:1: error: y\n<source>:5:9: error: z\n" +
    "<source>:3:1: warning: w\n<source>:77:1: error: beyond\nerror: f.cl:1:1: again";
  assertEquals(
    sourceExcerpt(source, log),
    [">    1 | a", "     2 | b", "     4 | d", ">    5 | e"].join("\n"),
  );
});
