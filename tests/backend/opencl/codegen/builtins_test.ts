/** The functions of OpenCL C whose declarations a program brings, so that the driver reads no others. */
import { assert, assertEquals } from "@std/assert";
import { accepts, type PrimitiveName, primitives } from "../../../../backend/graph/primitives.ts";
import {
  declarationsOf,
  declared,
  WITHOUT_HEADER,
} from "../../../../backend/opencl/codegen/builtins.ts";
import { portableHelpers, preludeFor } from "../../../../backend/opencl/codegen/prelude.ts";
import { renderScalar } from "../../../../backend/opencl/codegen/scalar_primitives.ts";
import { buildOptions, driverOf } from "../../../../backend/opencl/runtime/driver.ts";
import { Program } from "../../../../ffi/mod.ts";
import { manager } from "../../../../mod.ts";
import { ignoreOn, testOpenCL } from "../../../opencl.ts";
import { programsOf } from "../fixture.ts";

const types = { float64: "double", float32: "float", int64: "long", int32: "int" } as const;

/** A kernel for each scalar function and type that it takes. */
function primitiveKernels(): string {
  return (Object.keys(primitives) as PrimitiveName[]).flatMap((name) =>
    (Object.keys(types) as (keyof typeof types)[]).flatMap((dtype) => {
      if (!accepts(name, dtype)) return [];
      const text = renderScalar(name, ["c", "a[1]", "a[2]"], dtype, dtype);
      const T = types[dtype], first = name === "where" ? "int" : T;
      return `kernel void k_${name}_${dtype}(global ${T}* a) { ${first} c = a[0]; a[3] = ${text}; }`;
    })
  ).join("\n");
}

function readsHeader(): boolean {
  return !ignoreOn("cl") && driverOf(manager.default("cl").clDevice!).readsHeader;
}

/** A test for drivers that read `opencl-c.h` before each program. */
function testHeader(name: string, fn: (build: (text: string) => void) => void): void {
  Deno.test(name, { ignore: !readsHeader() }, () => {
    const { context, clDevice } = manager.default("cl");
    fn((text) => new Program(context!, text).build(buildOptions(driverOf(clDevice!))).release());
  });
}

testHeader("scalar functions find declared what they call", (build) => {
  const text = primitiveKernels();
  build(`${preludeFor(text, true)}\n${text}`);
});

testHeader("helper functions find declared what they call", (build) => {
  const text = `// double ${portableHelpers.map((name) => `${name}()`).join(" ")}\n`;
  build(`${preludeFor(text, true)}\nkernel void k(global int* a) { a[0] = 1; }`);
});

Deno.test("a function is declared as the driver's header has it, for every type and width", {
  ignore: !readsHeader(),
}, () => {
  const { context, clDevice } = manager.default("cl");
  const ofWidth = ["", "2", "4", "8", "16"].flatMap((n) => [
    ...n === "" ? [] : [`vload${n}`, `vstore${n}`],
    ...["vload_half", "vstore_half"].map((name) => name + n),
    ...["int", "uchar", "float", "ulong"].map((T) => `convert_${T}${n}`),
  ]);
  const names = [...declared, ...ofWidth];
  const called = names.map((name) => `${name}()`).join(" ");
  const text = declarationsOf(`char short ushort double ${called}`);
  for (const name of names) assert(text.includes(` ${name}(`), name);
  const kernel = "kernel void k(global int* a) { a[0] = min(get_local_id(0), 3ul); }";
  // Another result or other attributes of the same function would be an error, another type ambiguous.
  using program = new Program(context!, `${text}\n${kernel}`)
    .build(buildOptions(driverOf(clDevice!)).replace(WITHOUT_HEADER, ""));
  assertEquals(program.kernelNames, ["k"]);
});

testOpenCL("a kernel that calls a function which is not declared is built all the same", () => {
  assertEquals(declarationsOf("a[0] = native_exp(a[1]);"), "");
  using programs = programsOf(null);
  const source = "(global float* a) { a[0] = native_exp(a[1]); }";
  programs.build([{ source, label: "rough" }]);
  assertEquals(programs.has(source), true);
});

Deno.test("types and widths that a text cannot have are not declared", () => {
  const lines = declarationsOf("kernel void k(global float* a) { a[0] = exp(min(1, 2)); }");
  assertEquals(lines.split("\n").filter((line) => line.includes("exp")), [
    "float __attribute__((overloadable, const)) exp(float);",
  ]);
  assert(!/double|uchar|\d\(/.test(lines), lines);
  // The halves of a vector are vectors, whose type stands nowhere.
  assert(declarationsOf("float8 v; exp(v.lo);").includes(" exp(float4);"));
});

Deno.test("lanes are loaded and stored in types and address spaces that a text can have", () => {
  const vectors = "float16 v = vload16(0, a); vstore16(v, 0, b);";
  const prelude = preludeFor(
    `kernel void k(global float* a, global float* b) { ${vectors} }`,
    true,
  );
  assert(prelude.includes("load_lanes(global const float*"), prelude);
  assert(prelude.includes("store_lanes(float16 v, private float*"), prelude);
  // Declarations of each type that is named would follow, and of what is defined here.
  assert(!/char|short|load_lanes\(local|[^#]* vload16\(size_t/.test(prelude), prelude);
  const bytes = preludeFor("{ local uchar* a; vload16(0, a); }", true);
  assert(bytes.includes("load_lanes(local const uchar*"), bytes);
});
