/**
 * Products of AMD's and Intel's matrix units, by the functions that their compilers have for them, and the steps of
 * a ring of local memory in plain OpenCL C: a work-item waits for what it copies.
 *
 * This folder (`units/`) has the text of what GPUs multiply with and how warps exchange values, as helpers by name;
 * it imports the names of units. `prelude.ts` puts those into a program that it calls.
 */
import type { MatrixUnits } from "../../../kernel/target.ts";
import type { MatrixUnitName } from "../../../tile/language/statements.ts";

const HALVES = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable";

/** A helper that adds the product of a work-item's words `a` and `b` to its sums `c`. */
function product(unit: MatrixUnitName, lines: readonly string[]): Record<string, string> {
  const name = unit.toUpperCase(), head = unit.endsWith("_f16") ? [HALVES] : [];
  const parameters = "float* c, const uint* a, const uint* b";
  return { [name]: [...head, `inline void ${name}(${parameters}) {`, ...lines, "}"].join("\n") };
}

/** AMD's, of vectors of `words` words whose elements have the type `T`. */
function amd(
  unit: MatrixUnitName,
  builtin: string,
  { words, sums, T, calls = 1, rest = "" }: {
    readonly words: number;
    readonly sums: number;
    readonly T: "half" | "short";
    readonly calls?: number;
    readonly rest?: string;
  },
): Record<string, string> {
  const operand = (name: string, call: number): string =>
    `as_${T}${2 * words}(vload${words}(${call}, ${name}))`;
  return product(unit, [
    `  float${sums} sum = vload${sums}(0, c);`,
    ...Array.from(
      { length: calls },
      (_, k) =>
        `  sum = __builtin_amdgcn_${builtin}(${operand("a", k)}, ${operand("b", k)}, sum${rest});`,
    ),
    `  vstore${sums}(sum, 0, c);`,
  ]);
}

/** Intel's, of sub-groups of so many work-items. */
function intel(unit: MatrixUnitName, lanes: 8 | 16, type: "f16" | "bf16"): Record<string, string> {
  const left = lanes === 8 ? "as_int8(vload8(0, a))" : "as_short8(convert_ushort8(vload8(0, a)))";
  const call = `intel_sub_group_${type}_${type}_matrix_mad_k16`;
  return product(unit, [
    `  vstore8(${call}(${left}, as_int8(vload8(0, b)), vload8(0, c)), 0, c);`,
  ]);
}

const half = { sums: 8, T: "half" } as const, short = { sums: 8, T: "short" } as const;
const mfma = { words: 2, sums: 4, calls: 2, rest: ", 0, 0, 0" } as const;

/** Reads `count` words at a byte of a ring. */
const load = (count: 1 | 2 | 4): Record<string, string> => {
  const registers = Array.from({ length: count }, (_, k) => `r${k}`), type = count > 1 ? count : "";
  const values = registers.map((r, k) => `${r} = v_${count > 1 ? `.s${k}` : ""};`).join(" ");
  return {
    [`RING_LOAD${count}`]: `#define RING_LOAD${count}(${
      registers.join(", ")
    }, at) { const uint${type} v_ = *(local const uint${type}*)(at); ${values} }`,
  };
};

/** Copies neighbours of which so many bytes exist; the others are zeros. */
const copy = (bytes: 4 | 16): Record<string, string> => {
  const name = `RING_COPY${bytes}`, type = bytes === 16 ? "uint4" : "uint";
  return {
    [name]: `inline void ${name}(local uchar* to, global const void* from, int count) {
  if (count == ${bytes}) *(local ${type}*)to = *(global const ${type}*)from;
  else for (int k = 0; k < ${bytes / 2}; ++k)
    ((local ushort*)to)[k] = 2 * k < count ? ((global const ushort*)from)[k] : (ushort)0;
}`,
  };
};

/** The helpers by name. */
export const matrixHelpers: Readonly<Record<string, string>> = {
  ...amd("wmma_f16", "wmma_f32_16x16x16_f16_w32", { words: 8, ...half }),
  ...amd("wmma_bf16", "wmma_f32_16x16x16_bf16_w32", { words: 8, ...short }),
  ...amd("wmma12_f16", "wmma_f32_16x16x16_f16_w32_gfx12", { words: 4, ...half }),
  ...amd("wmma12_bf16", "wmma_f32_16x16x16_bf16_w32_gfx12", { words: 4, ...short }),
  ...amd("mfma_f16", "mfma_f32_16x16x16f16", { ...mfma, T: "half" }),
  ...amd("mfma_bf16", "mfma_f32_16x16x16bf16_1k", { ...mfma, T: "short" }),
  ...intel("dpas8_f16", 8, "f16"),
  ...intel("dpas8_bf16", 8, "bf16"),
  ...intel("dpas16_f16", 16, "f16"),
  ...intel("dpas16_bf16", 16, "bf16"),
  ...copy(4),
  ...copy(16),
  RING_PUT: "#define RING_PUT(to, v) (*(local uint4*)(to) = (v))",
  ...load(1),
  ...load(2),
  ...load(4),
};

/** Attributes of kernels that use a device's units: they want its smallest sub-groups, as do those of many registers. */
export const matrixAttributes: Readonly<Partial<Record<MatrixUnits, string>>> = {
  dpas8: "__attribute__((intel_reqd_sub_group_size(8)))",
  dpas16: "__attribute__((intel_reqd_sub_group_size(16)))",
};
