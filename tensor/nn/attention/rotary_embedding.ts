import { type DeviceHandle, manager } from "../../../backend/internal.ts";
import { aTensor, requireTensor } from "../../core/apply.ts";
import { shapeError } from "../../core/rules/errors.ts";
import { checkOptions, checkValue, type Rules, takes } from "../../core/rules/options.ts";
import { requireInteger } from "../../core/rules/promotion.ts";
import { withoutGrad } from "../../core/modes/grad_mode.ts";
import { calledByUser } from "../../core/modes/temporaries.ts";
import { Tensor } from "../../class/tensor.ts";
import { Module } from "../module/module.ts";
import { requireSizes } from "../module/sizes.ts";

/** Options of a {@linkcode RotaryEmbedding}. */
export interface RotaryEmbeddingOptions {
  /** The longest wave is so many positions times 2 pi, nearly; default 10000. */
  base?: number;
  /** True to rotate neighbours (0 with 1), as GPT-J; else halves (0 with E / 2), as Llama. */
  interleaved?: boolean;
}

const rules: Rules<RotaryEmbeddingOptions> = { base: takes.positive, interleaved: takes.bool };

/**
 * The waves of each device, for all layers alike. From doubles of the host: a device's `exp` is off in
 * its last digits, and at position 4,000 that is 3e-4 of a turn.
 */
const wavesOf = new WeakMap<DeviceHandle, Map<string, Tensor>>();

function wavesFor(
  half: number,
  base: number,
  options: { device: DeviceHandle; dtype: "float32" | "float64" },
): Tensor {
  const waves = Float64Array.from({ length: half }, (_, k) => base ** (-k / half));
  return withoutGrad(() => calledByUser(() => Tensor.fromHost(waves, options).realize()));
}

/**
 * Rotary position embedding (J. Su et al., RoFormer, 2021): pairs of features are rotated by angles that
 * grow with the position, so that the product of a query and a key depends on how far they are apart.
 * It has no parameters.
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertAlmostEquals } from "@std/assert";
 *
 * const rotary = new nn.RotaryEmbedding(8);
 * const [q, k] = [Tensor.randn([1, 8]), Tensor.randn([1, 8])];
 * const product = (i: number, j: number) =>
 *   rotary.forward(q, i).mul(rotary.forward(k, j)).sum().item();
 * assertAlmostEquals(await product(3, 5), await product(13, 15), 1e-4);
 * ```
 */
export class RotaryEmbedding extends Module<[x: Tensor, start?: number | Tensor]> {
  readonly #features: number;
  readonly #base: number;
  readonly #interleaved: boolean;

  /**
   * Makes the layer.
   *
   * @param features E, features of a head; even.
   * @param options The base of the wave lengths, which features are pairs.
   * @throws {RangeError} When the features are not even.
   */
  constructor(features: number, options: RotaryEmbeddingOptions = {}) {
    super();
    requireSizes("RotaryEmbedding", { features });
    checkOptions("make a RotaryEmbedding", options, rules);
    if (features % 2 !== 0) {
      throw new RangeError(
        `Cannot make a RotaryEmbedding of ${features} features: pass an even number`,
      );
    }
    this.#features = features;
    this.#base = options.base ?? 10_000;
    this.#interleaved = options.interleaved ?? false;
    // Now, and not within a step that is recorded.
    if (features > 0) this.#wavesOn(manager.active, "float32");
  }

  /**
   * Rotates queries or keys.
   *
   * @param x (..., L, E).
   * @param start The position of the first one, default 0: a number, a tensor of one, or a tensor of
   * all L positions. A tensor, such as {@linkcode KeyValueCache.position}, needs no new kernel for
   * another position.
   * @returns A tensor of the same shape and type.
   * @throws {ShapeError} When the last axis does not have `features` elements, or the positions are
   * not as many as there are.
   * @throws {DTypeError} When positions are no integers.
   */
  forward(x: Tensor, start: number | Tensor = 0): Tensor {
    requireTensor("run RotaryEmbedding", x);
    if (x.ndim < 2 || x.shape.at(-1) !== this.#features) {
      throw shapeError("RotaryEmbedding")`
        Cannot run RotaryEmbedding on a tensor of shape ${x.shape}: pass
        (..., L, ${this.#features})`;
    }
    const angles = this.#angles(x, this.#positions(x, start));
    const [cos, sin] = [angles.cos(), angles.sin()];
    const wide = x.cast(x.dtype === "float64" ? "float64" : "float32");
    const [a, b] = this.#pairs(wide);
    const rotated = [a.mul(cos).sub(b.mul(sin)), b.mul(cos).add(a.mul(sin))];
    const joined = this.#interleaved
      ? Tensor.stack(rotated, -1).reshape(x.shape)
      : Tensor.concat(rotated, -1);
    return joined.cast(x.dtype);
  }

  /** The positions of the rows, (L) or one before all rows. */
  #positions(x: Tensor, start: number | Tensor): Tensor {
    const length = x.shape.at(-2)!;
    if (typeof start === "number") {
      checkValue("run RotaryEmbedding", "start", start, takes.integer);
      return x.indexLike([length]).add(start);
    }
    checkValue("run RotaryEmbedding", "start", start, aTensor());
    requireInteger("run RotaryEmbedding", "positions", start.dtype);
    if (start.size === 1 && start.ndim <= 1) return x.indexLike([length]).add(start.reshape([1]));
    if (start.ndim === 1 && start.size === length) return start;
    throw shapeError("RotaryEmbedding")`
      Cannot run RotaryEmbedding with positions of shape ${start.shape}: pass one, or ${length}`;
  }

  /** (L, E / 2). */
  #angles(x: Tensor, positions: Tensor): Tensor {
    const dtype = x.dtype === "float64" ? "float64" : "float32";
    return positions.cast(dtype).unsqueeze(1).mul(this.#wavesOn(x.device, dtype));
  }

  /** Rotation of each pair from one position to the next, (E / 2). */
  #wavesOn(device: DeviceHandle, dtype: "float32" | "float64"): Tensor {
    const key = `${this.#features} ${this.#base} ${dtype}`;
    const known = wavesOf.get(device) ?? new Map<string, Tensor>();
    wavesOf.set(device, known);
    const waves = known.get(key) ?? wavesFor(this.#features / 2, this.#base, { device, dtype });
    known.set(key, waves);
    return waves;
  }

  /** The first and the second of each pair, (..., L, E / 2). */
  #pairs(x: Tensor): [Tensor, Tensor] {
    const half = this.#features / 2;
    if (!this.#interleaved) return x.split(half, -1) as [Tensor, Tensor];
    const pairs = x.reshape([...x.shape.slice(0, -1), half, 2]);
    const pick = (k: number): Tensor => pairs.slice(...x.shape.map(() => null), k);
    return [pick(0), pick(1)];
  }
}
