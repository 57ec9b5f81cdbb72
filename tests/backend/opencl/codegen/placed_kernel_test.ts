/** Texts of kernels with a place for each pointer. */
import { assertEquals } from "@std/assert";
import { addressedSource, placedSource } from "../../../../backend/opencl/codegen/placed_kernel.ts";
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

/** The text that is told addresses. */
function addressed(source: string): string | null {
  const declaration = declarationOf("k", source, "");
  const none = { id: 0, buildOptions: "", cpu: null, batched: null, program: null };
  return addressedSource({ name: "k", source, declaration, ...none });
}

Deno.test("addressedSource takes pointers, numbers and places as words, and keeps the lines", () => {
  assertEquals(
    addressed(`#define T double
kernel __attribute__((reqd_work_group_size(1, 1, 1))) void k(global const float4* x,
  __global T *y, float s, const int n, T d) {
  y[0] = x[0].x * s;
}`),
    `#define T double
typedef struct { ulong at[7]; } netcl_words; kernel __attribute__((reqd_work_group_size(1, 1, 1))) void k(const netcl_words netcl_given
) { global const float4* x = (global const float4*)(netcl_given.at[0] + netcl_given.at[5]); __global T * y = (__global T *)(netcl_given.at[1] + netcl_given.at[6]); float s = as_float((uint)netcl_given.at[2]); const int n = (int)netcl_given.at[3]; T d = as_double(netcl_given.at[4]);
  y[0] = x[0].x * s;
}`,
  );
});

Deno.test("addressedSource leaves texts alone whose pointers are nobody else's, and what it cannot read", () => {
  const texts = {
    "a pointer that is no other's": "kernel void k(global float* restrict x) { x[0] = 1; }",
    "constant memory": "kernel void k(constant float* z, global float* x) { x[0] = z[0]; }",
    "a pointer that is constant": "kernel void k(global float* const x) { x[0] = 1; }",
    "a half": "kernel void k(global float* x, half h) { x[0] = h; }",
    "attributes before it":
      "__attribute__((reqd_work_group_size(1, 1, 1))) kernel void k(global float* x) { x[0] = 1; }",
    "two of its name":
      "#if A\nkernel void k(global float* x) {}\n#else\nkernel void k(global int* x) {}\n#endif",
  };
  for (const [what, text] of Object.entries(texts)) assertEquals(addressed(text), null, what);
});
