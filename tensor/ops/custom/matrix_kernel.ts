/**
 * Kernels that work on a matrix a work-group, for both backends from one text.
 *
 * A text is C without pointers: `T` is the element type, `each(i, from, to) { ... }` divides a loop
 * among the work-items of the group, `pairs(i, from, to, j, from, to) { ... }` the pairs of two loops,
 * `sync;` waits for all of them, and whatever else stands there is done by every work-item alike. A
 * `fold(i, from, to) { ... }` is a loop of each work-item in whatever order: it adds to variables, or takes
 * extremes with them by `fmax` and `fmin`. Numbers in it are whole ones, since 0.5 would be a double. On the
 * built-in backend, rounds of `each`, `pairs` and `fold` lie in the lanes of vectors (`cpu/wasm/matrix`):
 * neighbours should read and write neighbours, as on a GPU. `EPS`, `PI`, `LEAST` and
 * `LARGEST` are numbers of the type: the last two its least positive and its largest one.
 */
import {
  type DeviceHandle,
  type DType,
  type MatrixProgram,
  type MatrixScript,
  matrixScript,
  parseMatrixText,
  type Shape,
  vectorText,
} from "../../../backend/internal.ts";
import { full } from "../creation/sequences.ts";
import { kernelOperation } from "./raw_kernel.ts";
import type { Tensor } from "../../core/mod.ts";

/** The types of elements that matrices of kernels have. */
export type RealType = "float32" | "float64";

/** A kernel on paper. */
export interface MatrixKernel {
  readonly name: string;
  /**
   * Inputs by name, with the elements of one matrix as an expression of the numbers; those that begin
   * with `shared ` are the same for all matrices.
   */
  readonly inputs: Readonly<Record<string, string>>;
  /** Outputs likewise; those that begin with `int ` hold whole numbers. */
  readonly outputs: Readonly<Record<string, string>>;
  /** Whole numbers of the call. */
  readonly numbers: readonly string[];
  readonly text: string;
}

/** Work-items a group; few rows keep a wide group waiting at its barriers. */
function groupSize(device: DeviceHandle, rows: number): number {
  // A processor runs a group in one thread, where barriers are loops over its work-items.
  if (device.backend === "cpu" || device.deviceType === "cpu") return 1;
  return rows <= 32 ? 32 : rows <= 64 ? 64 : rows <= 128 ? 128 : 256;
}

const cTypes = { float32: "float", float64: "double" } as const;
/** Twice the largest relative error of a rounding, as PyTorch's `finfo.eps`. */
export const epsilon: Readonly<Record<RealType, number>> = {
  float32: 2 ** -23,
  float64: 2 ** -52,
};

/** Numbers that texts have by name. */
const constants: Readonly<Record<RealType, Readonly<Record<string, number>>>> = {
  float32: {
    EPS: epsilon.float32,
    PI: Math.PI,
    LEAST: 2 ** -149,
    LARGEST: (2 - 2 ** -23) * 2 ** 127,
  },
  float64: {
    EPS: epsilon.float64,
    PI: Math.PI,
    LEAST: Number.MIN_VALUE,
    LARGEST: Number.MAX_VALUE,
  },
};

/** The name of a parameter as the text has it. */
function nameOf(key: string): string {
  return key.slice(key.lastIndexOf(" ") + 1);
}

function isWhole(key: string): boolean {
  return key.startsWith("int ");
}

function isShared(key: string): boolean {
  return key.startsWith("shared ");
}

/** The elements of one matrix, of the expressions in {@linkcode MatrixKernel}: products of numbers. */
function elements(expression: string, values: Readonly<Record<string, number>>): number {
  return expression.split("*").map((part) => values[part.trim()] ?? Number(part))
    .reduce((product, part) => product * part, 1);
}

/** The loops of a text, whose rounds work-items share. */
const loops = `#define fold(i, from, to) for (int i = (from); i < (to); i++)
#define each(i, from, to) \\
  for (int i = (from) + (int)get_local_id(0); i < (to); i += (int)get_local_size(0))
#define pairs(i, f, t, j, g, u) \\
  for (int i##j = (int)get_local_id(0), i, j; \\
    i##j < ((t) - (f)) * ((u) - (g)) && (i = (f) + i##j / ((u) - (g)), j = (g) + i##j % ((u) - (g)), 1); \\
    i##j += (int)get_local_size(0))
#define sync barrier(CLK_GLOBAL_MEM_FENCE)`;

/** The text for groups of work-items; for one alone, whose rounds lie in vectors, that of the program. */
function openclSource(
  { name, inputs, outputs, numbers, text }: MatrixKernel,
  dtype: RealType,
  local: number,
  program: MatrixProgram,
): string {
  const T = cTypes[dtype];
  const pointers = [
    ...Object.keys(inputs).map((input) => `global const T* restrict ${nameOf(input)}`),
    ...Object.keys(outputs).map((output) =>
      `global ${isWhole(output) ? "int" : "T"}* restrict ${nameOf(output)}`
    ),
    ...numbers.map((number) => `int ${number}`),
  ];
  const own = Object.entries({ ...inputs, ...outputs }).filter(([key]) => !isShared(key));
  const starts = own.map(([key, size]) =>
    `${nameOf(key)} += get_group_id(0) * (${size.replace(/\w+/, "(size_t)$&")});`
  );
  const named = Object.entries(constants[dtype]).map(([name, value]) =>
    `#define ${name} ((T)${value}${dtype === "float32" ? "f" : ""})`
  );
  return `${dtype === "float64" ? "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n" : ""}
${local === 1 ? "" : loops}
${named.join("\n")}
kernel void ${name}(${pointers.join(", ")}) {
  ${starts.join("\n  ")}
${local === 1 ? vectorText(program) : text.replace(/\bT\* (?=\w+ =)/g, "global T* ")}}
`.replace(/\bT\b/g, T);
}

/** The kernel as data, which the built-in backend runs. */
function programOf(
  { name, inputs, outputs, numbers, text }: MatrixKernel,
  dtype: RealType,
): MatrixProgram {
  const arrays = Object.entries({ ...inputs, ...outputs }).map(([key, size]) => ({
    name: nameOf(key),
    isWhole: isWhole(key),
    isShared: isShared(key),
    size: (values: Readonly<Record<string, number>>) => elements(size, values),
  }));
  return { name, dtype, arrays, numbers, constants: constants[dtype], body: parseMatrixText(text) };
}

/** A kernel for a type and a size of groups. */
function compiled(kernel: MatrixKernel, dtype: RealType, local: number) {
  const sizes = Object.values({ ...kernel.inputs, ...kernel.outputs });
  const program = programOf(kernel, dtype);
  let script: MatrixScript | null = null;
  let shapes: readonly Shape[] = [];
  const call = kernelOperation(
    kernel.name,
    {
      source: openclSource(kernel, dtype, local, program),
      output: (..._inputs: Tensor[]) =>
        Object.keys(kernel.outputs).map((key, k) => ({
          shape: shapes[k]!,
          dtype: (isWhole(key) ? "int32" : dtype) as DType,
        })),
      global: ([first], _outputs, numbers) => [
        local * first!.size / elements(sizes[0]!, byName(kernel, numbers)),
      ],
      local: [local],
      cpu: (inputs, outputs, numbers) => {
        const arrays = [...inputs, ...outputs] as Float64Array[];
        const steps = sizes.map((size) => elements(size, byName(kernel, numbers)));
        const isOne = Object.keys({ ...kernel.inputs, ...kernel.outputs }).map(isShared);
        const body = script ??= matrixScript(program);
        const count = arrays[0]!.length / steps[0]!;
        for (let k = 0; k < count; k++) {
          body(
            ...arrays.map((array, at) =>
              isOne[at] ? array : array.subarray(k * steps[at]!, (k + 1) * steps[at]!)
            ),
            ...numbers,
          );
        }
      },
    },
    Object.keys(kernel.inputs).map((key) => !isShared(key)),
    program,
  );
  return (inputs: Tensor[], outputs: readonly Shape[], numbers: readonly number[]): Tensor[] => {
    shapes = outputs;
    return call(...inputs, ...numbers) as Tensor[];
  };
}

function byName({ numbers }: MatrixKernel, values: readonly number[]): Record<string, number> {
  return Object.fromEntries(numbers.map((name, k) => [name, values[k]!]));
}

const known = new WeakMap<MatrixKernel, Map<string, ReturnType<typeof compiled>>>();

/**
 * Calls a kernel.
 *
 * @param kernel The kernel.
 * @param inputs Its matrices, with the same leading axes.
 * @param outputs The shapes of its results; without matrices they are zeros.
 * @param numbers Its numbers.
 * @param rows The rows that `each` mostly divides.
 */
export function callMatrixKernel(
  kernel: MatrixKernel,
  inputs: Tensor[],
  outputs: readonly Shape[],
  numbers: readonly number[],
  rows: number,
): Tensor[] {
  const [first] = inputs, { device } = first!, dtype = first!.dtype as RealType;
  if (inputs.some(({ size }) => size === 0)) {
    return Object.keys(kernel.outputs).map((key, k) =>
      full("make", outputs[k]!, 0, { device, dtype: isWhole(key) ? "int32" : dtype })
    );
  }
  const local = groupSize(device, rows), key = `${dtype} ${local}`;
  let kinds = known.get(kernel);
  if (!kinds) known.set(kernel, kinds = new Map());
  let call = kinds.get(key);
  if (!call) kinds.set(key, call = compiled(kernel, dtype, local));
  return call(inputs, outputs, numbers);
}
