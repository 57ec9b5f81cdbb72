import { assert, assertEquals } from "@std/assert";
import { generated, namedKernel } from "../../../../backend/opencl/codegen/generated.ts";
import { generateShared } from "../../../../backend/opencl/codegen/shared_launch.ts";
import { Program } from "../../../../ffi/mod.ts";
import { openCLDevice, testOpenCL } from "../../../opencl.ts";

const ofGroups = (...local: number[]) =>
  generated({
    inputs: [],
    outputs: ["float32"],
    parameters: [],
    checksIndices: false,
    isWide: false,
    global: local,
    local,
    body: "  o0[get_global_id(0)] = 1.0f;",
  });

Deno.test("generated tells a compiler the size of groups that need all registers", () => {
  assert(!namedKernel("k", ofGroups(256).source).includes("work_group_size"));
  assert(!namedKernel("k", ofGroups(16, 16).source).includes("work_group_size"));
  assertEquals(
    namedKernel("k", ofGroups(288).source).split("(global")[0],
    "kernel __attribute__((reqd_work_group_size(288, 1, 1))) void k",
  );
  const large = ofGroups(16, 32);
  assert(namedKernel("k", large.source).includes("reqd_work_group_size(16, 32, 1)"));
  const rows = ofGroups(512);
  assert(namedKernel("k", generateShared([rows, rows], true).source).includes("(512, 1, 1)"));
});

testOpenCL("generated texts of large groups compile, and are launched in these alone", () => {
  const { context } = openCLDevice.queue!;
  const program = new Program(context, namedKernel("k", ofGroups(512).source)).build();
  try {
    const kernel = program.kernel("k");
    assertEquals(kernel.compileWorkGroupSize(), [512, 1, 1]);
    kernel.release();
  } finally {
    program.release();
  }
});
