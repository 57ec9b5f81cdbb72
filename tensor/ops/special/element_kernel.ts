/**
 * Kernels of one element, for what takes loops of unknown length: series, continued fractions, rejection.
 *
 * This folder (`special/`) has the functions of the namespace `special`, and samplers of whole numbers.
 * It imports `custom/`, `creation/`, `elementwise/` and `core/`.
 */
import { broadcastShapes, type Shape } from "../../../backend/internal.ts";
import { sameDevice } from "../../core/apply.ts";
import { shapeError } from "../../core/rules/errors.ts";
import type { Tensor } from "../../core/mod.ts";
import { callMatrixKernel, type MatrixKernel } from "../custom/matrix_kernel.ts";

/** Elements that a work-group computes. */
const BLOCK = 256;

/** A kernel on paper: what is computed of the elements, as in {@linkcode MatrixKernel}. */
export interface ElementKernel {
  readonly name: string;
  /** Inputs by name, with the numbers that each has for an element. */
  readonly inputs: Readonly<Record<string, number>>;
  /** Results, one number each. */
  readonly outputs: readonly string[];
  /** Whole numbers of the call. */
  readonly numbers: readonly string[];
  /** Statements for element `i`. */
  readonly text: string;
}

/** The same as a kernel of matrices: a block of elements is one. */
export function elementKernel(kernel: ElementKernel): MatrixKernel {
  const { name, inputs, outputs, numbers, text } = kernel;
  return {
    name,
    inputs: Object.fromEntries(Object.entries(inputs).map(([key, width]) => [key, `n*${width}`])),
    outputs: Object.fromEntries(outputs.map((key) => [key, "n"])),
    numbers: ["n", ...numbers],
    text: `  each(i, 0, n) {\n${text}  }\n`,
  };
}

/**
 * Calls a kernel, which has no gradient.
 *
 * @param op The operation, for messages.
 * @param inputs Tensors that broadcast to one shape; where the kernel takes several numbers for an element,
 * a last axis of theirs.
 */
export function callElementKernel(
  op: string,
  kernel: MatrixKernel,
  inputs: readonly Tensor[],
  numbers: readonly number[] = [],
): Tensor[] {
  sameDevice(op, inputs);
  const widths = Object.values(kernel.inputs).map((size) => Number(size.slice(2)));
  const shape = shapeOf(op, inputs, widths), size = shape.reduce((a, b) => a * b, 1);
  const blocks = Math.ceil(size / BLOCK), rest = blocks * BLOCK - size;
  const laid = inputs.map((input, k) => {
    const width = widths[k]!;
    const wide = input.expand(width === 1 ? shape : [...shape, width]).reshape([size * width]);
    // Ones: a number that all functions take.
    return wide.pad([[0, rest * width]], 1).reshape([blocks, BLOCK * width]);
  });
  const outputs = Object.keys(kernel.outputs).map((): Shape => [blocks, BLOCK]);
  const found = callMatrixKernel(kernel, laid, outputs, [BLOCK, ...numbers], BLOCK);
  return found.map((y) => y.reshape([blocks * BLOCK]).slice([0, size]).reshape(shape));
}

function shapeOf(op: string, inputs: readonly Tensor[], widths: readonly number[]): Shape {
  const shapes = inputs.map(({ shape }, k) => widths[k] === 1 ? shape : shape.slice(0, -1));
  const common = shapes.reduce<Shape | null>((a, b) => a && broadcastShapes(a, b), []);
  if (common !== null) return common;
  throw shapeError(op)`Cannot ${op} of shapes ${shapes}: they do not broadcast`;
}
