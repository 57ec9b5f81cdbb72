/** The weights of Winograd's F(2x2, 3x3), and the terms that its texts share. `winograd.ts` says what it is. */
import type { Dialect, Emitter } from "../../../codegen/emit.ts";
import type { ConvolutionLoops } from "../../../kernel/forms/convolution_loops.ts";
import { extent } from "../../../kernel/kernel.ts";
import type { WorkSize } from "../../codegen/generated.ts";
import { LANES } from "../../codegen/vectors/vector_types.ts";
import { decomposeInto } from "../parts/tile_text.ts";
import { type TransposedLanes, transposedTerm, transposeLanes } from "../parts/transposed_lanes.ts";

/** Products of a tile of two by two results: four by four elements of the image. */
export const TAPS = 16;
export const SIDE = 4;

/** The loops of a convolution of many channels. */
export interface WinogradLoops extends ConvolutionLoops {
  readonly output: number;
  readonly input: number;
  readonly transposed: TransposedLanes;
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

/** Half the sum of three texts, and half their sum with the second one negative. */
const halves = (a: string, b: string, c: string): [string, string] => [
  `0.5f * (${a} + ${c} + ${b})`,
  `0.5f * (${a} + ${c} - ${b})`,
];

/** Floats of a tap's weights for the channels of a register tile; blocks are a cache's line apart. */
export function weightBlock(
  terms: number,
  { channels }: Pick<WinogradShare["tile"], "channels">,
): number {
  return terms * channels + LANES;
}

/** Writes the transformed weights: for each tap and summed channel, the channels of a register tile. */
export function writeWeights(
  emitter: Emitter,
  dialect: Dialect,
  { line, column, output, input, others, transposed }: WinogradLoops,
  { tile }: WinogradShare,
): WorkSize {
  const { kernel } = emitter, terms = kernel.sizes[input]!;
  const vectors = Math.ceil(kernel.sizes[output]! / LANES);
  emitter.line(`local float16 transposed[${transposed.terms}];`);
  decomposeInto(emitter, others, "(Index)get_global_id(1)", "i");
  emitter.line(`const Index lane = (Index)get_global_id(0) * ${LANES};`);
  transposeLanes(emitter, dialect, transposed, "lane", (term) => `transposed[${term}]`);
  const place = `(Index)(get_global_id(1) * ${vectors} + get_global_id(0))`;
  const scratch = `o${kernel.outputs.length}`;
  const floats = weightBlock(terms, tile) * TAPS * LANES / tile.channels;
  emitter.line(`global float* to = ${scratch} + ${place} * ${floats};`);
  emitter.open(`for (Index i${input} = 0; i${input} < ${terms}; ++i${input}) {`);
  emitter.line("float16 g[3][3], h[3][4];");
  for (let r = 0; r < 3; r++) {
    for (let s = 0; s < 3; s++) {
      const at = `const Index i${line.tap} = ${r}, i${column.tap} = ${s};`;
      emitter.line(`{ ${at} g[${r}][${s}] = transposed[${transposedTerm(emitter, transposed)}]; }`);
    }
  }
  for (let r = 0; r < 3; r++) {
    const [sum, difference] = halves(`g[${r}][0]`, `g[${r}][1]`, `g[${r}][2]`);
    emitter.line(`h[${r}][0] = g[${r}][0]; h[${r}][1] = ${sum};`);
    emitter.line(`h[${r}][2] = ${difference}; h[${r}][3] = g[${r}][2];`);
  }
  for (let s = 0; s < SIDE; s++) {
    const [sum, difference] = halves(`h[0][${s}]`, `h[1][${s}]`, `h[2][${s}]`);
    [`h[0][${s}]`, sum, difference, `h[2][${s}]`].forEach((text, r) =>
      storeWeights(emitter, text, r * SIDE + s, terms, tile)
    );
  }
  emitter.close();
  return { global: [vectors, extent(kernel, others)], local: [1, 1] };
}

/** Stores the 16 channels of a tap, as blocks of those of a register tile. */
function storeWeights(
  emitter: Emitter,
  text: string,
  tap: number,
  terms: number,
  { channels }: WinogradShare["tile"],
): void {
  const input = emitter.kernel.contraction!.k[0]!;
  emitter.open("{");
  emitter.line(`const float16 u = ${text};`);
  for (let block = 0; block < LANES / channels; block++) {
    const start = (block * TAPS + tap) * weightBlock(terms, { channels });
    const at = `to + ${start} + i${input} * ${channels}`;
    const part = channels === LANES ? "u" : block === 0 ? "u.lo" : "u.hi";
    emitter.line(`vstore${channels}(${part}, 0, ${at});`);
  }
  emitter.close();
}
