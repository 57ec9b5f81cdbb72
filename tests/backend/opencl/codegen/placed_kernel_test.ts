/** Texts of kernels with a place for each pointer. */
import { assertEquals } from "@std/assert";
import { placedSource } from "../../../../backend/opencl/codegen/placed_kernel.ts";
import { declarationOf } from "../../../../backend/graph/kernel_declaration.ts";

function placed(source: string): string | null {
  const declaration = declarationOf("k", source, "");
  const none = { id: 0, buildOptions: "", cpu: null, batched: null, program: null };
  return placedSource({ name: "k", source, declaration, ...none });
}

Deno.test("placedSource moves each pointer by its bytes, and keeps the lines", () => {
  assertEquals(
    placed(`// kernel void k(
kernel void k(global const float4* restrict x, __global T *y, constant int* z, float s) {
  y[0] = x[0].x * s; /* } */
}`),
    `// kernel void k(
kernel void k(global const float4* restrict x, __global T *y, constant int* z, float s, int netcl_at0, int netcl_at1, int netcl_at2) { x = (global const float4*)((global const char*)x + netcl_at0); y = (__global T *)((global char*)y + netcl_at1); z = (constant int*)((constant char*)z + netcl_at2);
  y[0] = x[0].x * s; /* } */
}`,
  );
});

Deno.test("placedSource leaves texts alone that it may not change", () => {
  const texts = {
    "a pointer that is constant": "kernel void k(global float* const x) { x[0] = 1; }",
    "an array": "kernel void k(global float x[]) { x[0] = 1; }",
    "a macro for the address space": "#define G global\nkernel void k(G float* x) { x[0] = 1; }",
    "a kernel that others call":
      "kernel void k(global float* x) { x[0] = 1; }\nkernel void all(global float* x) { k(x); }",
    "two of its name":
      "#if A\nkernel void k(global float* x) {}\n#else\nkernel void k(global int* x) {}\n#endif",
    "attributes behind it":
      "kernel void k(global float* x) __attribute__((reqd_work_group_size(1, 1, 1))) {}",
    "no pointer": "kernel void k(int n) {}",
  };
  for (const [what, text] of Object.entries(texts)) assertEquals(placed(text), null, what);
});
