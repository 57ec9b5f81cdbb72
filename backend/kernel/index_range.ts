/**
 * Range of a kernel's indices. A kernel counts in 32 bits where they suffice, which is
 * faster, and in 64 bits elsewhere.
 */
import { type AffineExpr, rangeOf } from "./affine.ts";
import { blockBytes } from "../formats/block_format.ts";
import { formatTable } from "../formats/block_formats.ts";
import { extent, type Load, type LoopKernel, type SpecialKernel } from "./kernel.ts";
import { gateCounts } from "../graph/op.ts";
import { sizeOf } from "../graph/shape.ts";
import { allIndices } from "./collapse.ts";

/**
 * The first number that 32 bits are not trusted with. Loops run beyond the last element by a vector,
 * a tile, a work-group or the rows of a work-item, which are all shorter than 2^20.
 */
export const NARROW_END: number = 2 ** 31 - 2 ** 20;

/** True where an index, a size or a number of iterations may reach `end`. */
export function needsWideIndices(
  kernel: LoopKernel | SpecialKernel,
  end: number = NARROW_END,
): boolean {
  return (kernel.kind === "special" ? specialReach(kernel) : loopReach(kernel)) >= end;
}

/** The largest number that a kernel counts or adds up to. */
function loopReach(kernel: LoopKernel): number {
  const { outer, inner, sizes, chunk } = kernel;
  const reaches = [
    ...sizes,
    extent(kernel, outer),
    extent(kernel, inner),
    ...allIndices(kernel).map((index) => reachOf(index, sizes)),
    ...loadsOf(kernel).map(({ packed }) =>
      packed ? packed.blocks * blockBytes(formatTable[packed.format]) : 0
    ),
  ];
  if (chunk) {
    // The last part is counted as if it were as long as the others.
    const others = extent(kernel, inner) / sizes[chunk.symbol]!;
    reaches.push(sizes[chunk.part]! * chunk.length * others);
  }
  return largest(reaches);
}

/** The largest number on the way to an index's values: its terms are added up one by one. */
function reachOf(index: AffineExpr, sizes: readonly number[]): number {
  const [low, high] = rangeOf({ ...index, offset: 0 }, sizes);
  return largest([high - low + Math.abs(index.offset), ...index.terms.map(([, c]) => Math.abs(c))]);
}

const largest = (numbers: readonly number[]): number => numbers.reduce((a, b) => Math.max(a, b), 0);

function loadsOf({ loads, contraction: c }: LoopKernel): readonly Load[] {
  return c ? [...loads, c.a, c.b] : loads;
}

function specialReach(kernel: SpecialKernel): number {
  if ("rows" in kernel) return kernel.rows * kernel.length;
  const { size } = kernel.output;
  switch (kernel.op) {
    case "recurrence": {
      const { steps, batch, features, gates } = kernel;
      return largest([size, (steps + 1) * batch * features * gateCounts[gates].blocks]);
    }
    case "scatter": {
      const { shape, sourceShape, indexStrides } = kernel;
      // How far indices are read, over the coordinates of result and source.
      const indices = indexStrides.map((c, k) => c * Math.max(shape[k]!, sourceShape[k]!));
      return largest([size, sizeOf(sourceShape), indices.reduce((a, b) => a + b, 0)]);
    }
  }
}
