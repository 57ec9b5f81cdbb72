/** The programs of `programs.bin.gz`: read, run, compared with what PyTorch gave. */
import { type DType, Tensor } from "../../mod.ts";
import { operationOf } from "./operations.ts";

/** A small program on tensors with its values in PyTorch; see `make_fixtures.py`. */
export interface Program {
  readonly dtype: DType;
  readonly leaves: readonly (readonly [shape: number[], dtype: DType, offset: number])[];
  readonly steps: readonly (readonly [op: string, inputs: number[], parameters: never[]])[];
  readonly values: readonly (readonly [
    step: number,
    shape: number[],
    dtype: DType,
    offset: number,
  ])[];
  readonly gradients: readonly (readonly [leaf: number, offset: number])[];
  /** True where a leaf has NaN or infinities. */
  readonly special: boolean;
}

/** Programs with the numbers that they refer to. */
export interface Fixtures {
  readonly programs: readonly Program[];
  readonly numbers: Float64Array;
}

/** Reads the fixtures, or a file of other programs that `make_fixtures.py` wrote. */
export async function readFixtures(
  path: string | URL = new URL("programs.bin.gz", import.meta.url),
): Promise<Fixtures> {
  const packed = await Deno.readFile(path);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = await new Response(stream).arrayBuffer();
  const length = new DataView(bytes).getUint32(0, true);
  const text = new TextDecoder().decode(new Uint8Array(bytes, 4, length));
  return { programs: JSON.parse(text), numbers: new Float64Array(bytes, 4 + length) };
}

/** The inputs of a program. */
export function leavesOf({ leaves, gradients }: Program, numbers: Float64Array): Tensor[] {
  return leaves.map(([shape, dtype, offset], k) => {
    const values = numbers.slice(offset, offset + sizeOf(shape));
    const isWhole = dtype === "int64" || dtype === "bool" || dtype === "uint8" || dtype === "int32";
    const leaf = isWhole
      ? Tensor.fromHost(Int32Array.from(values), { shape }).cast(dtype).realize()
      : Tensor.fromHost(values, { shape, dtype });
    if (gradients.some(([at]) => at === k)) leaf.requiresGrad = true;
    return leaf;
  });
}

/** The values of all steps, then the gradients; nothing is computed yet. */
export function follow(program: Program, leaves: readonly Tensor[]): Tensor[] {
  const values = [...leaves];
  for (const [op, inputs, parameters] of program.steps) {
    values.push(operationOf(op)(inputs.map((k) => values[k]!), parameters));
  }
  const made = values.slice(leaves.length);
  if (program.gradients.length === 0) return made;
  const last = made.at(-1)!;
  const weights = last.indexLike(last.shape).mul(7).remainder(5).sub(2).cast(last.dtype).div(4);
  last.mul(weights).sum().backward();
  return [...made, ...program.gradients.map(([k]) => leaves[k]!.grad!)];
}

/** The first thing that differs from PyTorch, or null. */
export function difference(
  program: Program,
  found: readonly Tensor[],
  numbers: Float64Array,
): string | null {
  const wanted = [
    ...program.values.map(([, shape, dtype, offset]) => ({ shape, dtype, offset })),
    ...program.gradients.map(([k, offset]) => {
      const [shape, dtype] = program.leaves[k]!;
      return { shape, dtype, offset };
    }),
  ];
  for (const [k, { shape, dtype, offset }] of wanted.entries()) {
    const tensor = found[k]!, step = program.steps[k];
    const what = step ? `${step[0]}(${JSON.stringify(step[2]).slice(1, -1)})` : "the gradient";
    if (`${tensor.shape}` !== `${shape}`) {
      return `${what} has shape [${tensor.shape}], not [${shape}]`;
    }
    const values = numbers.subarray(offset, offset + sizeOf(shape));
    const text = differenceOf(tensor, values, toleranceOf(program, tensor.dtype));
    if (text) return `${what} of ${tensor.dtype} (${dtype} in PyTorch) ${text}`;
  }
  return null;
}

const tolerances: Partial<Record<DType, number>> = {
  float64: 1e-9,
  float32: 3e-5,
  float16: 4e-3,
  bfloat16: 3e-2,
};

/** The largest difference, of the largest number: of the coarsest type that there was on the way. */
function toleranceOf({ leaves, values }: Program, dtype: DType): number {
  const types = [...leaves.map(([, type]) => type), ...values.map(([, , type]) => type), dtype];
  const isFloat = tolerances[dtype] !== undefined;
  return isFloat ? Math.max(...types.map((type) => tolerances[type] ?? 0)) : 0;
}

function differenceOf(t: Tensor, wanted: Float64Array, tolerance: number): string | null {
  const found = [...t.toHostSync() as Iterable<number | bigint>].map(Number);
  const scale = wanted.reduce((a, b) => Number.isFinite(b) ? Math.max(a, Math.abs(b)) : a, 1);
  for (const [i, value] of wanted.entries()) {
    const other = found[i]!;
    if (other === value || Number.isNaN(other) && Number.isNaN(value)) continue;
    if (Math.abs(other - value) <= tolerance * scale) continue;
    return `is ${other} instead of ${value} at ${i}`;
  }
  return null;
}

function sizeOf(shape: readonly number[]): number {
  return shape.reduce((a, b) => a * b, 1);
}

/** A program as text. */
export function describe({ leaves, steps, gradients }: Program): string {
  const given = leaves.map(([shape, dtype]) => `${dtype}[${shape}]`).join(", ");
  const lines = steps.map(([op, inputs, parameters]) =>
    `${op}(${inputs.map((k) => `t${k}`).join(", ")}${
      parameters.length ? "; " + JSON.stringify(parameters).slice(1, -1) : ""
    })`
  );
  return `${given} -> ${lines.join(" -> ")}${gradients.length ? ", backward" : ""}`;
}
