/** The plain evaluator of kernels whose loops carry state or scatter. */
import { dtypes, type TypedArray } from "../../graph/dtype.ts";
import type { SpecialKernel } from "../../kernel/kernel.ts";
import { sizeOf, stridesOf } from "../../graph/shape.ts";
import { combinerOf, scatterCombiner } from "../../graph/reductions.ts";
import { readElement, writeElement } from "./elements.ts";
import type { CheckIndex } from "../script/runner.ts";
import { runRecurrence } from "./reference_recurrence.ts";
import { applyPrimitive, constantValue, type Value } from "./reference_primitives.ts";

/** Computes the output from the inputs. */
export function runSpecial(
  kernel: SpecialKernel,
  inputs: readonly TypedArray[],
  output: TypedArray,
  check: CheckIndex,
): void {
  switch (kernel.op) {
    case "scan":
      return scan(kernel, inputs[0]!, output);
    case "argsort":
      return argsort(kernel, inputs[0]!, output);
    case "scatter":
      return scatter(kernel, inputs, output, check);
    case "recurrence":
      return runRecurrence(kernel, inputs as Float32Array[], output as Float32Array);
  }
}

function scan(kernel: SpecialKernel & { op: "scan" }, input: TypedArray, output: TypedArray): void {
  const { dtype } = kernel.output, join = combinerOf(kernel.fn);
  for (let row = 0; row < kernel.rows; row++) {
    let joined: Value | null = kernel.fn === "sum" ? constantValue(0, dtype) : null;
    for (let k = 0; k < kernel.length; k++) {
      const at = row * kernel.length + k;
      const element = readElement(input, kernel.inputs[0]!, at);
      joined = joined === null ? element : applyPrimitive(join, [joined, element], dtype, dtype);
      writeElement(output, dtype, at, joined);
    }
  }
}

function argsort(
  kernel: SpecialKernel & { op: "argsort" },
  input: TypedArray,
  output: TypedArray,
): void {
  const { rows, length, count, descending } = kernel;
  for (let row = 0; row < rows; row++) {
    const at = (k: number): Value => readElement(input, kernel.inputs[0]!, row * length + k);
    const order = Array.from({ length }, (_, k) => k);
    const sign = descending ? -1 : 1;
    order.sort((i, j) => sign * compareNumbers(at(i), at(j)) || i - j);
    order.slice(0, count).forEach((k, place) => {
      writeElement(
        output,
        kernel.output.dtype,
        row * count + place,
        constantValue(k, kernel.output.dtype),
      );
    });
  }
}

/** NaN is the largest. */
function compareNumbers(a: Value, b: Value): number {
  if (Number.isNaN(a) || Number.isNaN(b)) return Number(Number.isNaN(a)) - Number(Number.isNaN(b));
  return Number(a > b) - Number(a < b);
}

/** The coordinates of an element, counted in row-major order. */
function coordinates(index: number, shape: readonly number[]): number[] {
  return stridesOf(shape).map((stride, k) => Math.floor(index / stride) % shape[k]!);
}

function dot(a: readonly number[], b: readonly number[]): number {
  return a.reduce((sum, x, k) => sum + x * b[k]!, 0);
}

function scatter(
  kernel: SpecialKernel & { op: "scatter" },
  [base, indices, source]: readonly TypedArray[],
  output: TypedArray,
  check: CheckIndex,
): void {
  const { shape, sourceShape, indexStrides, axis } = kernel, join = scatterCombiner(kernel.mode);
  const { dtype } = kernel.output;
  const nbytes = kernel.output.size * dtypes[dtype].bytes;
  if (kernel.mode !== "write") bytesOf(output, nbytes).set(bytesOf(base!, nbytes));
  for (let k = 0; k < sizeOf(sourceShape); k++) {
    const place = coordinates(k, sourceShape);
    const index = Number(indices![dot(place, indexStrides)]);
    place[axis] = check(index, shape[axis]!, kernel.opName);
    const at = dot(place, stridesOf(shape));
    const value = readElement(source!, dtype, k);
    const former = readElement(output, dtype, at);
    const joined = join === null ? value : applyPrimitive(join, [former, value], dtype, dtype);
    writeElement(output, dtype, at, joined);
  }
}

function bytesOf({ buffer, byteOffset }: TypedArray, nbytes: number): Uint8Array {
  return new Uint8Array(buffer, byteOffset, nbytes);
}
