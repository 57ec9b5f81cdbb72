/**
 * A channel of an image as convolutions without many channels read it: its lines are packed side by side into
 * local memory, with zeros around, so that a tap of 16 neighbouring positions is one vector.
 */
import { existingElements, type ImageAxis } from "../../../kernel/forms/convolution_loops.ts";
import type { LoopKernel } from "../../../kernel/kernel.ts";
import type { Emitter } from "../../../codegen/emit.ts";
import { LANES } from "../../codegen/vectors/vector_types.ts";
import { step, without } from "../parts/tile_text.ts";

/** Steps between positions that vectors are made for. */
const MAX_STRIDE = 2;
/** Taps of a line are written one by one. */
const MAX_TAPS = 16;

/** The two axes of an image. */
export interface PlaneAxes {
  readonly line: ImageAxis;
  readonly column: ImageAxis;
}

/** Place of a plane's lines among those packed. */
export interface PackedPlane {
  /** Lines, for so many positions. */
  readonly lines: number;
  /** Floats from line to line. */
  readonly pitch: number;
}

/** True for contractions of single precision whose vectors of an image can be packed. */
export function packsPlanes(kernel: LoopKernel, { line, column }: PlaneAxes): boolean {
  const { dtype, a, b } = kernel.contraction!, { sizes } = kernel;
  const isFloat = dtype === "float32" && a.dtype === dtype && b.dtype === dtype;
  return isFloat && column.step === 1 && column.stride <= MAX_STRIDE &&
    sizes[line.tap]! <= MAX_TAPS && sizes[column.tap]! <= MAX_TAPS;
}

/** True where a convolution and the gradient of a weight change places: both are sums over windows. */
export function hasMoreTaps({ sizes }: LoopKernel, { line, column }: PlaneAxes): boolean {
  const count = (a: number, b: number): number => sizes[a]! * sizes[b]!;
  return count(line.tap, column.tap) > count(line.position, column.position);
}

/** The plane for the positions of some lines: whole vectors of them. */
export function packedPlane(
  { sizes }: LoopKernel,
  { line, column }: PlaneAxes,
  lines: number,
): PackedPlane {
  const span = ({ tap, stride, dilation }: ImageAxis, count: number): number =>
    (count - 1) * stride + (sizes[tap]! - 1) * dilation + 1;
  const along = Math.ceil(sizes[column.position]! / LANES) * LANES;
  // A vector of every second element is taken of two whole ones.
  const pitch = Math.ceil((span(column, along) + column.stride - 1) / LANES) * LANES;
  return { lines: span(line, lines), pitch };
}

/**
 * Packs the plane whose first position's line is `first`, for each iteration of `input`.
 *
 * @param input The loop over planes that are packed one behind the other; null for one.
 */
export function packPlane(
  emitter: Emitter,
  { line, column }: PlaneAxes,
  { lines, pitch }: PackedPlane,
  input: number | null,
): void {
  const { kernel } = emitter, { b } = kernel.contraction!;
  const around = [line.position, line.tap, column.position, column.tap];
  const start = without(emitter, b.index, input === null ? around : [...around, input]);
  const moved = `first * ${step(emitter, b.index, line.position)}`;
  const apart = input === null ? "0" : step(emitter, b.index, input);
  const [top, bottom] = existingElements(kernel, line);
  const [low, high] = existingElements(kernel, column);
  const planes = input === null ? 1 : kernel.sizes[input]!;
  emitter.open(`for (int c = 0; c < ${planes}; ++c) {`);
  emitter.open(`for (int r = 0; r < ${lines}; ++r) {`);
  emitter.line(`const int at = (int)first * ${line.stride} + r;`);
  emitter.line(`const bool isInside = at >= ${top} && at < ${bottom};`);
  const from = `a${b.input} + ${start} + ${moved} + c * ${apart} + r * ${emitter.index(line.step)}`;
  const to = `packed + (c * ${lines} + r) * ${pitch}`;
  emitter.line(`pack_row(${to}, ${from}, ${pitch}, ${low}, isInside ? ${high} : ${low});`);
  emitter.close();
  emitter.close();
}

/** The element of a tap that 16 positions see, from the packed element `at` on. */
export function tapLanes({ stride }: ImageAxis, at: string): string {
  if (stride === 1) return `vload16(0, ${at})`;
  return `(float16)(vload16(0, ${at}).even, vload16(1, ${at}).even)`;
}
