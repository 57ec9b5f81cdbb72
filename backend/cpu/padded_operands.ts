/**
 * Contractions whose operands are padded as they are read, as those of convolutions on OpenCL: such an
 * operand is copied first, with its zeros, since products of matrices read what is in memory. Where the
 * padded elements are windows of an image the copy is the padded image, whose windows overlap.
 */
import type { BufferHandle, HostBuffer } from "../../memory/mod.ts";
import { dtypes } from "../graph/dtype.ts";
import {
  type AffineExpr,
  coefficient,
  linearize,
  rangeOf,
  scale,
  symbol,
} from "../kernel/affine.ts";
import type { Contraction, Load, LoopKernel } from "../kernel/kernel.ts";
import { pack } from "./blas/gemm_plan.ts";
import type { HostBlock, Runner } from "./script/runner.ts";

/** An operand that is copied, and how. */
interface Copied {
  readonly input: number;
  readonly runner: Runner;
  readonly nbytes: number;
}

/** True where an operand is padded as it is read. */
export function hasPaddedOperands({ contraction }: LoopKernel): boolean {
  return contraction !== null && contraction.a.bounds.length + contraction.b.bounds.length > 0;
}

/**
 * A runner of such a kernel.
 *
 * @param kernel What is to be computed.
 * @param runnerOf The runners of the copies, and of the same kernel without padding.
 * @param allocate Where the copies lie.
 */
export function withPaddedOperands(
  kernel: LoopKernel,
  runnerOf: (kernel: LoopKernel) => Runner,
  allocate: (nbytes: number) => BufferHandle<HostBuffer>,
): Runner {
  const { batch, m, n, k, a, b } = kernel.contraction!, copies: Copied[] = [];
  const copied = (load: Load, rows: readonly number[]): Load => {
    if (load.bounds.length === 0) return load;
    const moving = batch.filter((s) => coefficient(load.index, s) !== 0);
    const image = paddedImage(kernel, load);
    const whole = pack(kernel, load, [...moving, ...rows, ...k], load.dtype);
    // The image, unless the operand reads few of its positions.
    const { kernel: copy, size, load: operand } = image && image.size <= whole.size ? image : whole;
    const nbytes = size * dtypes[load.dtype].bytes;
    copies.push({ input: load.input, runner: runnerOf(copy), nbytes });
    return { ...operand, input: kernel.inputs.length + copies.length - 1 };
  };
  const plain: Contraction = { ...kernel.contraction!, a: copied(a, m), b: copied(b, n) };
  const inputs = [...kernel.inputs, ...copies.map(({ input }) => kernel.inputs[input]!)];
  const runner = runnerOf({ ...kernel, inputs, contraction: plain });
  return {
    source: [...copies.map(({ runner: { source } }) => source), runner.source].join("\n"),
    run: (given, outputs) => {
      const blocks: BufferHandle<HostBuffer>[] = [];
      try {
        for (const { input, runner: copy, nbytes } of copies) {
          const block = allocate(nbytes);
          blocks.push(block);
          copy.run([given[input]!], [block]);
        }
        const places: HostBlock[] = [...given, ...blocks];
        runner.run(places, outputs);
      } finally {
        for (const block of blocks) block.release();
      }
    },
  };
}

/** An axis of a padded image: positions from `low` on, in steps of `stride` elements of the operand. */
interface Axis {
  readonly position: AffineExpr;
  readonly low: number;
  readonly extent: number;
  readonly stride: number;
  /** Length without padding, in positions; null: the axis is not padded. */
  readonly bound: number | null;
}

/** A copy of all positions that the bounds are about, once each; null where they are no axes. */
function paddedImage(kernel: LoopKernel, load: Load): ReturnType<typeof pack> | null {
  const axes = imageAxes(kernel, load);
  if (axes === null) return null;
  const first = kernel.sizes.length, sizes = [...kernel.sizes, ...axes.map(({ extent }) => extent)];
  const symbols = axes.map((_, k) => first + k);
  const positions = axes.map(({ low }, k) => scale(symbol(symbols[k]!), 1, low));
  const strides = axes.map(({ stride }) => stride);
  // Where all positions are 0.
  const base = load.index.offset -
    axes.reduce((sum, { position, stride }) => sum + position.offset * stride, 0);
  const read: Load = {
    ...load,
    index: scale(linearize(positions, strides), 1, base),
    bounds: axes.flatMap(({ bound }, k) =>
      bound === null ? [] : [{ index: positions[k]!, size: bound }]
    ),
  };
  const packed = pack({ ...kernel, sizes }, read, symbols, load.dtype);
  const places = axes.map(({ position, low }) => scale(position, 1, -low));
  const steps = symbols.map((id) => coefficient(packed.load.index, id));
  return { ...packed, load: { ...packed.load, index: linearize(places, steps) } };
}

/** The axes of an image, as they lie in memory; null where a bound is about no axis of its own. */
function imageAxes({ sizes }: LoopKernel, { index, bounds }: Load): Axis[] | null {
  const axes: Axis[] = [], padded = new Set<number>();
  for (const { index: position, size: bound } of bounds) {
    const [low, high] = rangeOf(position, sizes), [first] = position.terms;
    const stride = first ? coefficient(index, first[0]) / first[1] : 0;
    for (const [id, step] of position.terms) {
      if (padded.has(id) || coefficient(index, id) !== stride * step) return null;
      padded.add(id);
    }
    if (!Number.isInteger(stride)) return null;
    axes.push({ position, low, extent: high - low + 1, stride, bound });
  }
  for (const [id, stride] of index.terms) {
    if (padded.has(id)) continue;
    axes.push({ position: symbol(id), low: 0, extent: sizes[id]!, stride, bound: null });
  }
  return axes.sort((a, b) => Math.abs(b.stride) - Math.abs(a.stride));
}
