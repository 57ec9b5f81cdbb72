/** Tables of a convolution's tiles: offsets in bytes, and what of a tile another one has. */
import { type AffineExpr, coefficient } from "../../../kernel/affine.ts";
import type { LoopKernel } from "../../../kernel/kernel.ts";
import { offsetsOf } from "../products/contraction_plan.ts";
import { TILE } from "./transforms.ts";
import type { WindowLoops } from "./windows.ts";

/** Positions of tiles along an axis: the last one overlaps the one before where they do not fit. */
interface TileAxis {
  readonly begins: readonly number[];
  /** Positions of the last tile that the one before has, too. */
  readonly overlap: number;
}

function tileAxis(length: number): TileAxis {
  const count = Math.ceil(length / TILE), overlap = count * TILE - length;
  const begins = Array.from({ length: count }, (_, k) => Math.min(k * TILE, length - TILE));
  return { begins, overlap };
}

/** Skipped lines of a tile of which nothing is new: all. */
const WHOLE_TILE = TILE;

/** All tiles of all images. */
export class Tiling {
  readonly count: number;
  /** Tiles of an image: they follow each other. */
  readonly imageTiles: number;
  /** Rows of each tile that another one has, and 8 times as many columns. */
  readonly skips: Int32Array;
  readonly #kernel: LoopKernel;
  readonly #images: readonly number[];
  readonly #loops: WindowLoops;
  readonly #axes: readonly [y: TileAxis, x: TileAxis];
  readonly #length: number;

  /** Tables are as long as the next multiple of `multiple`: tiles behind the last are that one again. */
  constructor(
    kernel: LoopKernel,
    images: readonly number[],
    loops: WindowLoops,
    multiple: number,
  ) {
    this.#kernel = kernel;
    this.#images = images;
    this.#loops = loops;
    this.#axes = [tileAxis(kernel.sizes[loops.y]!), tileAxis(kernel.sizes[loops.x]!)];
    const [y, x] = this.#axes;
    const all = images.reduce((product, s) => product * kernel.sizes[s]!, 1);
    this.imageTiles = y.begins.length * x.begins.length;
    this.count = all * this.imageTiles;
    this.#length = Math.ceil(this.count / multiple) * multiple;
    const skip = ({ begins, overlap }: TileAxis, k: number): number =>
      k === begins.length - 1 ? overlap : 0;
    this.skips = this.#table(
      new Int32Array(all),
      (_, ky, kx) => skip(y, ky) + 8 * skip(x, kx),
    ).fill(WHOLE_TILE, this.count);
  }

  /** Offset of each tile in bytes, behind the offset of the whole. */
  offsets(index: AffineExpr): Int32Array {
    const [y, x] = this.#axes, { y: sy, x: sx } = this.#loops;
    const [rowStep, step] = [coefficient(index, sy), coefficient(index, sx)];
    return this.#table(
      offsetsOf(this.#kernel, index, this.#images),
      (image, ky, kx) => image + 4 * (rowStep * y.begins[ky]! + step * x.begins[kx]!),
    );
  }

  #table(
    images: Int32Array,
    entry: (image: number, y: number, x: number) => number,
  ): Int32Array<ArrayBuffer> {
    const [y, x] = this.#axes, table = new Int32Array(this.#length);
    let at = 0;
    for (const image of images) {
      for (const ky of y.begins.keys()) {
        for (const kx of x.begins.keys()) table[at++] = entry(image, ky, kx);
      }
    }
    return table.fill(table[this.count - 1] ?? 0, this.count);
  }
}
