/** Transforms of Winograd's F(2x2, 3x3), and its weights, which a kernel of its own makes. */
import type { ConvolutionLoops } from "../../../kernel/forms/convolution_loops.ts";
import { extent, type LoopKernel } from "../../../kernel/kernel.ts";
import { primitive } from "../../language/elements.ts";
import {
  add,
  div,
  type E,
  int,
  lanes,
  mod,
  mul,
  type Place,
  withExpressions,
} from "../../language/expression.ts";
import type { TileKernel } from "../../language/statements.ts";
import { fadd, float, fmul, load } from "../../language/values.ts";
import { vectorUnit } from "../../units.ts";
import { LANES } from "../attention/lane_products.ts";
import { KernelValues, type NameOf } from "../kernel_values.ts";
import { transposedBox } from "./box.ts";
import { PackedBox } from "./packed_box.ts";
import { countsOf } from "./lane_mapping.ts";

/** Products of a tile of two by two results: four by four elements of the image. */
export const TAPS = 16;
export const SIDE = 4;

/** The loops of a convolution of many channels. */
export interface WinogradLoops extends ConvolutionLoops {
  readonly output: number;
  readonly input: number;
}

/** Share of a work-item: tiles of two by two results. */
export interface WinogradShare {
  /** Rows of tiles, tiles of a row, images. */
  readonly rows: number;
  readonly width: number;
  readonly images: number;
  /** Lanes for the tiles of an image: whole vectors. */
  readonly lanes: number;
  /** Channels of the result: whole vectors. */
  readonly channels: number;
  /** The sums in registers: channels, and vectors of tiles. */
  readonly tile: { readonly channels: number; readonly vectors: number };
}

/** Floats of the transformed weights of a vector of channels: those of a tap are lines of a cache apart. */
export const weightBlock = (terms: number): number => TAPS * tapBlock(terms);
export const tapBlock = (terms: number): number => terms * LANES + LANES;

type Square = readonly (readonly E[])[];

/** Transforms a square along its columns, then along its rows. */
export function alongBoth(square: Square, transform: (line: readonly E[]) => readonly E[]): E[][] {
  const columns = square[0]!.map((_, k) => transform(square.map((row) => row[k]!)));
  return columns[0]!.map((_, r) => [...transform(columns.map((column) => column[r]!))]);
}

export const difference = (a: E, b: E): E => primitive("sub", [a, b], "float32");

/** Three taps at the four points. */
function ofTaps([a, b, c]: readonly E[]): readonly E[] {
  const ends = fadd(a!, c!), half = float(0.5);
  return [a!, fmul(half, fadd(ends, b!)), fmul(half, difference(ends, b!)), c!];
}

/** Four elements of an image at the points. */
export const ofImage = ([a, b, c, d]: readonly E[]): readonly E[] => [
  difference(a!, c!),
  fadd(b!, c!),
  difference(c!, b!),
  difference(b!, d!),
];

/** Two results of the products at the points. */
export const ofSums = ([a, b, c, d]: readonly E[]): readonly E[] => [
  fadd(fadd(a!, b!), c!),
  difference(difference(b!, c!), d!),
];

/** The transformed weights of a convolution: for each tap and summed channel a vector of channels. */
export function winogradWeights(
  kernel: LoopKernel,
  { line, column, output, input, others }: WinogradLoops,
  nameOf: NameOf,
): TileKernel {
  return withExpressions(() => {
    const values = new KernelValues(kernel, vectorUnit(LANES), nameOf, false, true);
    const { p } = values, { sizes } = kernel;
    const { a } = kernel.contraction!, terms = sizes[input]!;
    const vectors = Math.ceil(sizes[output]! / LANES), around = div(p.group, vectors);
    const lane = mul(mod(p.group, vectors), LANES);
    const box = new PackedBox(
      values,
      transposedBox(kernel, a, countsOf(kernel, [[output, LANES]]), output)!,
    );
    const at = new Map([
      ...values.decomposed(others, around, (s) => int(sizes[s]!)),
      ...[output, input, line.tap, column.tap].map((s) => [s, int(0)] as const),
      [output, lane] as const,
    ]);
    box.pack(at);
    const to = scratchOf(kernel), first = mul(p.group, weightBlock(terms));
    p.loop(int(terms), (term) => {
      const taps = [0, 1, 2].map((r) =>
        [0, 1, 2].map((s) => {
          const own = new Map([...at, [input, term], [line.tap, int(r)], [column.tap, int(s)]]);
          return p.let(load(box.place, add(box.index(own), lanes(LANES))));
        })
      );
      alongBoth(taps, (each) => ofTaps(each).map((e) => p.let(e))).flat().forEach((value, tap) =>
        p.store(to, add(first, tap * tapBlock(terms), mul(term, LANES)), value)
      );
    }, 1);
    return p.finish("winograd weights", vectors * extent(kernel, others));
  });
}

/** The buffer of transformed weights, behind the outputs. */
export const scratchOf = ({ outputs }: LoopKernel): Place => ({
  space: "global",
  buffer: `o${outputs.length}`,
  element: "float32",
});
