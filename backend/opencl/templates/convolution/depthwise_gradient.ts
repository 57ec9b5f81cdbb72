/**
 * The gradient of the weight of a depthwise convolution on CPU devices: for each tap, the sum over positions
 * of what came back times what the tap sees there. Positions along a line are lanes, taps are registers.
 */
import { coefficient } from "../../../kernel/affine.ts";
import type { Dialect, Emitter } from "../../../codegen/emit.ts";
import { openLoop } from "../../../codegen/loops.ts";
import {
  type WeightGradientLoops,
  weightGradientLoops,
} from "../../../kernel/forms/convolution_loops.ts";
import { extent, type LoopKernel } from "../../../kernel/kernel.ts";
import type { Target } from "../../../kernel/target.ts";
import { generatedLoop, type WorkSize } from "../../codegen/generated.ts";
import { LANES } from "../../codegen/vectors/vector_types.ts";
import type { ContractionPlan, ContractionTemplate } from "../parts/contraction_shape.ts";
import { single } from "../parts/template.ts";
import { decomposeInto, emitEpilogue, step, without } from "../parts/tile_text.ts";
import { divisors, FLOAT } from "../parts/tiling.ts";
import {
  hasMoreTaps,
  type PackedPlane,
  packedPlane,
  packPlane,
  packsPlanes,
  tapLanes,
} from "./packed_plane.ts";

/** Taps whose sums are registers. */
const MAX_SUMS = 24;
/** A plane takes at most this share of local memory, which is the second level of caches. */
const PLANE_SHARE = 1 / 8;
/** With more rows, a product shares what it reads of an image among them. */
const MAX_ROWS = 3;

interface GradientPlan extends ContractionPlan {
  readonly loops: WeightGradientLoops;
  /** Lines of positions that are packed at a time, and lines of taps that are summed at a time. */
  readonly lines: number;
  readonly taps: number;
  readonly packed: PackedPlane;
}

/** A work-item sums all taps of a channel. */
export const depthwiseGradient: ContractionTemplate<GradientPlan> = {
  name: "depthwise weight gradient",
  matches: (kernel, target) => {
    if (target.isGpu) return null;
    const loops = weightGradientLoops(kernel);
    return loops && planOf(kernel, target, loops);
  },
  emit: (plan) =>
    single(generatedLoop(plan.kernel, plan.target, (e, dialect) => writeTaps(e, dialect, plan))),
  workItems: ({ kernel, loops }) => extent(kernel, loops.others),
};

function planOf(
  kernel: LoopKernel,
  target: Target,
  loops: WeightGradientLoops,
): GradientPlan | null {
  const { sizes, contraction } = kernel, { line, column } = loops, { m, a } = contraction!;
  if (!packsPlanes(kernel, loops) || extent(kernel, m) > MAX_ROWS) return null;
  if (coefficient(a.index, column.position) !== 1 || hasMoreTaps(kernel, loops)) return null;
  const across = sizes[column.tap]!;
  const taps = divisors(sizes[line.tap]!).find((count) => count * across <= MAX_SUMS)!;
  for (const lines of divisors(sizes[line.position]!)) {
    const packed = packedPlane(kernel, loops, lines);
    if (packed.lines * packed.pitch * FLOAT > target.localMemory * PLANE_SHARE) continue;
    return { kernel, target, shape: null, loops, lines, taps, packed };
  }
  return null;
}

function writeTaps(emitter: Emitter, dialect: Dialect, plan: GradientPlan): WorkSize {
  const { kernel } = emitter,
    { loops, lines, packed } = plan,
    { line, column, image, others } = loops;
  const count = kernel.sizes[line.tap]! * kernel.sizes[column.tap]!;
  emitter.line(`local float packed[${packed.lines * packed.pitch + LANES}];`);
  emitter.line(`local float16 sums[${count}];`);
  decomposeInto(emitter, others, "(Index)get_global_id(0)", "i");
  emitter.line(`for (int t = 0; t < ${count}; ++t) sums[t] = 0;`);
  if (image !== null) openLoop(emitter, dialect, image);
  emitter.open(
    `for (Index first = 0; first < ${kernel.sizes[line.position]}; first += ${lines}) {`,
  );
  packPlane(emitter, loops, packed, null);
  emitter.open(`for (int tap = 0; tap < ${kernel.sizes[line.tap]}; tap += ${plan.taps}) {`);
  sumLines(emitter, plan);
  emitter.close();
  emitter.close();
  if (image !== null) emitter.close();
  storeTaps(emitter, dialect, loops);
  return { global: [extent(kernel, others)], local: [1] };
}

/** Adds the products of what is packed to the sums of some lines of taps. */
function sumLines(emitter: Emitter, { loops, lines, taps, packed }: GradientPlan): void {
  const { kernel } = emitter, { sizes } = kernel, { a } = kernel.contraction!;
  const { line, column } = loops, across = sizes[column.tap]!, width = sizes[column.position]!;
  const names = Array.from({ length: taps * across }, (_, t) => `c${t}`);
  emitter.line(`float16 ${names.map((name) => `${name} = 0`).join(", ")};`);
  const start = without(emitter, a.index, [line.position, column.position]);
  emitter.line(
    `global const float* of = a${a.input} + ${start} + first * ${
      step(emitter, a.index, line.position)
    };`,
  );
  emitter.open(`for (int l = 0; l < ${lines}; ++l) {`);
  emitter.open(`for (int k = 0; k < ${width}; k += ${LANES}) {`);
  const isWhole = width % LANES === 0;
  const pointer = `of + l * ${step(emitter, a.index, line.position)} + k`;
  const lanes = isWhole ? `vload16(0, ${pointer})` : `load_part_float(${pointer}, ${width} - k)`;
  emitter.line(`const float16 g = ${lanes};`);
  // Lanes behind the end would multiply what other taps see by 0, which makes NaN of infinities.
  if (!isWhole) emitter.line(`const int16 counts = lanes16() < ${width} - k;`);
  emitter.line(
    `local const float* seen = packed + (l * ${line.stride} + tap * ${line.dilation}) * ${packed.pitch} + ` +
      `k * ${column.stride};`,
  );
  names.forEach((name, t) => {
    const at = Math.floor(t / across) * line.dilation * packed.pitch + t % across * column.dilation;
    const x = tapLanes(column, `seen + ${at}`);
    const held = isWhole ? x : `as_float16(as_int16(${x}) & counts)`;
    emitter.line(`${name} = fma(${held}, g, ${name});`);
  });
  emitter.close();
  emitter.close();
  names.forEach((name, t) => emitter.line(`sums[tap * ${across} + ${t}] += ${name};`));
}

/** Stores the sum of each tap's lanes, with what is done to it. */
function storeTaps(
  emitter: Emitter,
  dialect: Dialect,
  { line, column }: WeightGradientLoops,
): void {
  openLoop(emitter, dialect, line.tap);
  openLoop(emitter, dialect, column.tap);
  const at = `i${line.tap} * ${emitter.kernel.sizes[column.tap]} + i${column.tap}`;
  emitter.line(`const float acc = sum_float16(sums[${at}]);`);
  emitEpilogue(emitter);
  emitter.close();
  emitter.close();
}
