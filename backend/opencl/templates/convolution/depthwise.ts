/**
 * Convolutions of one or a few channels each on CPU devices: sums over windows. Positions along a line are
 * lanes; a weight that all of them share is multiplied by as many lines as registers hold, each read
 * once for all taps above each other.
 */
import { neededBy } from "../../../kernel/analysis.ts";
import type { Emitter } from "../../../codegen/emit.ts";
import {
  type ConvolutionLoops,
  convolutionLoops,
} from "../../../kernel/forms/convolution_loops.ts";
import { extent, type LoopKernel } from "../../../kernel/kernel.ts";
import type { Target } from "../../../kernel/target.ts";
import { generatedLoop, type WorkSize } from "../../codegen/generated.ts";
import { VectorBody } from "../../codegen/vectors/vector_body.ts";
import { canVectorize, LANES } from "../../codegen/vectors/vector_types.ts";
import type { ContractionPlan, ContractionTemplate } from "../parts/contraction_shape.ts";
import { hasWideVectors } from "../parts/register_tile.ts";
import { single } from "../parts/template.ts";
import { decomposeInto, emitEpilogue } from "../parts/tile_text.ts";
import { FLOAT } from "../parts/tiling.ts";
import {
  hasMoreTaps,
  type PackedPlane,
  packedPlane,
  packPlane,
  packsPlanes,
  tapLanes,
} from "./packed_plane.ts";

/** With more channels, products of many channels share what they read of an image. */
const MAX_CHANNELS = 3;
/** Lines whose sums are registers, of wide vectors and of others. */
const WIDE_LINES = 8, NARROW_LINES = 4;
/** A plane takes at most this share of local memory, which is the second level of caches. */
const PLANE_SHARE = 1 / 8;
/** Products of a work-item, in vectors, that are worth its start; work-items that keep a device busy. */
const MIN_PRODUCTS = 2000, MIN_ITEMS = 8;

/** Share of a work-item: some lines of some planes. */
interface DepthwiseShare {
  readonly lines: number;
  readonly planes: number;
  /** Lines of a tile. */
  readonly height: number;
  readonly packed: PackedPlane;
}

interface DepthwisePlan extends ContractionPlan {
  readonly loops: ConvolutionLoops;
  readonly share: DepthwiseShare;
}

/** A work-item computes some lines of some planes. */
export const depthwiseConvolution: ContractionTemplate<DepthwisePlan> = {
  name: "depthwise convolution",
  matches: (kernel, target) => {
    if (target.isGpu) return null;
    const loops = convolutionLoops(kernel);
    if (loops === null || !packsPlanes(kernel, loops) || !hasFewChannels(kernel, loops)) {
      return null;
    }
    if (hasMoreTaps(kernel, loops)) return null;
    const share = shareOf(kernel, target, loops);
    return share && { kernel, target, shape: null, loops, share };
  },
  emit: ({ kernel, target, loops, share }) =>
    single(generatedLoop(kernel, target, (e) => writePlanes(e, loops, share))),
  workItems: ({ kernel }) => extent(kernel, kernel.outer),
};

function hasFewChannels(kernel: LoopKernel, { input }: ConvolutionLoops): boolean {
  const { sizes } = kernel, outputs = extent(kernel, kernel.contraction!.m);
  return outputs <= MAX_CHANNELS && (input === null || sizes[input]! <= MAX_CHANNELS);
}

/** The loops over planes of the result. */
function planesOf({ output, image, others }: ConvolutionLoops): number[] {
  return [image, ...others, output].filter((s) => s !== null);
}

function shareOf(
  kernel: LoopKernel,
  target: Target,
  loops: ConvolutionLoops,
): DepthwiseShare | null {
  const { sizes } = kernel, { line, column, input } = loops;
  const all = sizes[line.position]!, count = extent(kernel, planesOf(loops));
  const height = Math.min(hasWideVectors(target) ? WIDE_LINES : NARROW_LINES, all);
  const inputs = input === null ? 1 : sizes[input]!;
  const enough = MIN_ITEMS * target.computeUnits;
  const room = target.localMemory * PLANE_SHARE / FLOAT;
  const tiles = Math.ceil(all / height);
  for (let parts = 1; parts <= tiles; parts++) {
    const lines = Math.ceil(tiles / parts) * height;
    const packed = packedPlane(kernel, loops, lines);
    if (packed.lines * packed.pitch * inputs > room) continue;
    if (count * parts < enough && parts < tiles) continue;
    const products = Math.ceil(sizes[column.position]! / LANES) * lines *
      extent(kernel, kernel.inner);
    const planes = Math.min(
      Math.max(1, Math.floor(count * parts / enough)),
      Math.ceil(MIN_PRODUCTS / Math.max(1, products)),
    );
    return { lines, planes, height, packed };
  }
  return null;
}

function writePlanes(emitter: Emitter, loops: ConvolutionLoops, share: DepthwiseShare): WorkSize {
  const { kernel } = emitter, { sizes } = kernel, { line, input } = loops;
  const { lines, planes, packed } = share, around = planesOf(loops), count = extent(kernel, around);
  const inputs = input === null ? 1 : sizes[input]!;
  emitter.line(`local float packed[${inputs * packed.lines * packed.pitch + LANES}];`);
  emitter.line(`local float weights[${extent(kernel, kernel.inner)}];`);
  emitter.line(`const Index first = (Index)get_global_id(0) * ${lines};`);
  const begin = `(Index)get_global_id(1) * ${planes}`;
  emitter.open(
    `for (Index plane = ${begin}; plane < min(${begin} + ${planes}, (Index)${count}); ++plane) {`,
  );
  decomposeInto(emitter, around, "plane", "i");
  packPlane(emitter, loops, packed, input);
  packWeights(emitter, loops);
  const end = sizes[line.position]!;
  emitter.open(
    `for (Index top = 0; top < min((Index)${lines}, ${end} - first); top += ${share.height}) {`,
  );
  emitter.open(`for (Index k = 0; k < ${sizes[loops.column.position]}; k += ${LANES}) {`);
  sumTile(emitter, loops, share);
  for (let r = 0; r < share.height; r++) storeLine(emitter, loops, r);
  for (let open = 0; open < 3; open++) emitter.close();
  return { global: [Math.ceil(end / lines), Math.ceil(count / planes)], local: [1, 1] };
}

/** Copies the weights of a plane, tap by tap. */
function packWeights(emitter: Emitter, { line, column, input }: ConvolutionLoops): void {
  const { kernel } = emitter, { a } = kernel.contraction!;
  const taps = [input, line.tap, column.tap].filter((s) => s !== null);
  for (const s of taps) {
    emitter.open(`for (Index i${s} = 0; i${s} < ${kernel.sizes[s]}; ++i${s}) {`);
  }
  const at = taps.reduce((text, s) => `(${text}) * ${kernel.sizes[s]} + i${s}`, "0");
  emitter.line(`weights[${at}] = a${a.input}[${emitter.affine(a.index)}];`);
  for (const _ of taps) emitter.close();
}

/** Adds up `c0`, `c1`, ...: 16 positions of each line of a tile. */
function sumTile(emitter: Emitter, loops: ConvolutionLoops, share: DepthwiseShare): void {
  const { sizes } = emitter.kernel, { line, column, input } = loops;
  const { height, packed: { lines, pitch } } = share;
  const down = sizes[line.tap]!, across = sizes[column.tap]!;
  emitter.line(`float16 ${range(height).map((r) => `c${r} = 0`).join(", ")};`);
  emitter.open(`for (int c = 0; c < ${input === null ? 1 : sizes[input]}; ++c) {`);
  emitter.open(`for (int s = 0; s < ${across}; ++s) {`);
  emitter.line(
    `local const float* from = packed + (c * ${lines} + top * ${line.stride}) * ${pitch} + ` +
      `k * ${column.stride} + s * ${column.dilation};`,
  );
  for (const t of range(down)) {
    const weight = `weights[(c * ${down} + ${t}) * ${across} + s]`;
    emitter.line(`const float16 w${t} = (float16)(${weight});`);
  }
  const rows = (height - 1) * line.stride + (down - 1) * line.dilation + 1;
  for (const y of range(rows)) {
    const seen = range(height).flatMap((r) => {
      const t = (y - r * line.stride) / line.dilation;
      return Number.isInteger(t) && t >= 0 && t < down ? [`c${r} = fma(w${t}, x, c${r});`] : [];
    });
    if (seen.length === 0) continue;
    const lanes = tapLanes(column, `from + ${y * pitch}`);
    emitter.line(`{ const float16 x = ${lanes}; ${seen.join(" ")} }`);
  }
  emitter.close();
  emitter.close();
}

/** Stores 16 positions of the tile's line `r`, with what is done to each. */
function storeLine(emitter: Emitter, { line, column }: ConvolutionLoops, r: number): void {
  const { kernel } = emitter, { sizes } = kernel;
  const width = sizes[column.position]!, end = sizes[line.position]!;
  const ids = neededBy(kernel, kernel.outputs.map((o) => o.expr));
  emitter.open(r === 0 ? "{" : `if (first + top + ${r} < ${end}) {`);
  emitter.line(`const Index i${line.position} = first + top + ${r};`);
  if (canVectorize(kernel, column.position)) {
    const body = new VectorBody(emitter, column.position);
    const left = width % LANES === 0 ? "" : `${width} - k`;
    emitter.line(`const Index i${column.position} = k;`);
    body.declareScalars(ids);
    body.declareVectors(ids, { left, contracted: `c${r}` });
    kernel.outputs.forEach((_, o) => body.store(o, { left }));
  } else {
    emitter.line(`float lanes[${LANES}];`);
    emitter.line(`vstore16(c${r}, 0, lanes);`);
    emitter.open(`for (int p = 0; p < min(${LANES}, ${width} - (int)k); ++p) {`);
    emitter.line(`const Index i${column.position} = k + p;`);
    emitter.line("const float acc = lanes[p];");
    emitEpilogue(emitter);
    emitter.close();
  }
  emitter.close();
}

function range(count: number): number[] {
  return Array.from({ length: count }, (_, k) => k);
}
