/** Batch normalization by the batches of all ranks together. */
import { type Communicator, completedSync, unrecorded } from "../../backend/internal.ts";
import { customGradient } from "../ops/custom/custom_gradient.ts";
import { giveUpReplay, resolved, unobserved } from "../core/calls.ts";
import { noGrad } from "../core/modes/grad_mode.ts";
import { requireValue } from "../core/rules/options.ts";
import {
  type Affine,
  BatchNorm,
  type BatchNormOptions,
  type Moments,
  type NormalizedBatch,
} from "../nn/normalization/batch_norm.ts";
import { Tensor } from "../class/tensor.ts";
import { Group } from "./group.ts";

/** One for all layers of a group: they run in the same order on every rank. */
const communicators = new WeakMap<Group, Communicator>();

function communicatorOf(group: Group): Communicator {
  const known = communicators.get(group);
  if (known) return known;
  const made = group.communicator();
  communicators.set(group, made);
  return made;
}

/** Of a channel over all ranks: how many values, their mean, and the mean of squares around it. */
interface Statistics {
  readonly count: number;
  readonly mean: Float64Array;
  readonly variance: Float64Array;
}

/**
 * Batch normalization of (N, C, ...) by mean and variance over the batches of all ranks, for batches so
 * small that those of one rank say little. Running statistics are the same on all ranks. Each `forward`
 * and each `backward` waits for the device and for the other ranks, so it costs more than
 * `nn.BatchNorm2d`, and a function that `compile` was given runs as it is. While used (`eval`) it is the
 * same as that.
 *
 * @example
 * ```ts
 * import { distributed, Tensor } from "@netcl/netcl";
 * import { assertAlmostEquals } from "@std/assert";
 *
 * using group = distributed.init();
 * const layer = new distributed.SyncBatchNorm(3, group);
 * const y = layer.forward(Tensor.randn([2, 3, 4, 4]).mul(5).add(2));
 * const mean = Tensor.zeros([1]).assign(y.mean().reshape([1]).detach());
 * await group.allReduce([mean], "mean");
 * assertAlmostEquals(await mean.item(), 0, 1e-4);
 * ```
 */
export class SyncBatchNorm extends BatchNorm {
  readonly #communicator: Communicator;

  /**
   * Makes the layer; blocks until all ranks came here.
   *
   * @param channels The length of axis 1.
   * @param group The ranks.
   * @param options Those of `nn.BatchNorm2d`.
   */
  constructor(channels: number, group: Group, options: BatchNormOptions = {}) {
    super(channels, options, [2, 3, 4]);
    requireValue("make a SyncBatchNorm", "group", group, {
      takes: "a group, such as distributed.init() returns",
      accepts: (value) => value instanceof Group,
    });
    this.#communicator = communicatorOf(group);
  }

  /** Normalizes by the batches of all ranks. */
  protected override normalizeBatch(x: Tensor, eps: number, affine?: Affine): NormalizedBatch {
    if (!this.training || this.#communicator.size === 1) {
      return super.normalizeBatch(x, eps, affine);
    }
    giveUpReplay("ranks communicate in a SyncBatchNorm");
    const axes = x.shape.map((_, axis) => axis).filter((axis) => axis !== 1);
    const shape = x.shape.map((length, axis) => axis === 1 ? length : 1);
    const all = noGrad(() => this.#statistics(x.detach(), axes));
    const place = (values: Float64Array) =>
      Tensor.fromHost(Float32Array.from(values), { shape, device: x.device });
    const mean = place(all.mean), variance = place(all.variance);
    const scale = noGrad(() => variance.add(eps).rsqrt().realize());
    const normalize = customGradient(
      (x) => x.sub(mean).mul(scale),
      (g, _inputs, y) => {
        const [sum, along] = this.#sums([g.sum(axes), g.mul(y).sum(axes)]);
        const both = [sum!, along!].map((values) => place(values.map((v) => v / all.count)));
        return [scale.mul(g.sub(both[0]!).sub(y.mul(both[1]!)))];
      },
    );
    const moments: Moments = { mean, rest: mean.zerosLike(), variance };
    return { value: normalize(x), moments, count: all.count };
  }

  /** Merges the moments of all ranks (T. Chan et al., Updating Formulae, 1979), in float64. */
  #statistics(x: Tensor, axes: readonly number[]): Statistics {
    const channels = x.shape[1]!, count = x.size / channels;
    const mean = x.mean(axes, { keepDims: true });
    const squares = x.sub(mean).square().sum(axes);
    const own = [count, ...numbers(mean), ...numbers(squares)];
    const parts = this.#gather(own);
    const total = parts.reduce((sum, part) => sum + part[0]!, 0);
    const means = new Float64Array(channels), variance = new Float64Array(channels);
    for (let c = 0; c < channels; c++) {
      for (const part of parts) means[c]! += part[0]! * part[1 + c]! / total;
      for (const part of parts) {
        const off = part[1 + c]! - means[c]!;
        variance[c]! += (part[1 + channels + c]! + part[0]! * off * off) / total;
      }
    }
    return { count: total, mean: means, variance };
  }

  /** Adds tensors up over all ranks. */
  #sums(tensors: readonly Tensor[]): Float64Array[] {
    const own = tensors.flatMap((tensor) => numbers(tensor)), length = own.length / tensors.length;
    const parts = this.#gather(own);
    return tensors.map((_, k) =>
      Float64Array.from(
        { length },
        (_, c) => parts.reduce((sum, part) => sum + part[k * length + c]!, 0),
      )
    );
  }

  #gather(own: readonly number[]): Float64Array[] {
    const { rank, size } = this.#communicator, all = new Float64Array(own.length * size);
    all.set(own, rank * own.length);
    const bytes = new Uint8Array(all.buffer);
    completedSync("normalize over all ranks", this.#communicator.allGather(bytes));
    return Array.from(
      { length: size },
      (_, r) => all.subarray(r * own.length, (r + 1) * own.length),
    );
  }
}

/** Also within a function that `compile` runs as it is. */
function numbers(tensor: Tensor): number[] {
  const real = resolved(tensor);
  const read = (): ArrayLike<number> => real.cast("float32").toHostSync("float32");
  return Array.from(unobserved(() => unrecorded(read)));
}
