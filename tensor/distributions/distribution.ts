/**
 * Distributions as objects, with PyTorch's names: numbers drawn, logarithms of densities, entropies.
 *
 * This folder (`distributions/`) imports operations of `ops/`, `linalg/` and `core/`.
 */
import { broadcastShapes, type Shape } from "../../backend/internal.ts";
import { requireTensor, sameDevice } from "../core/apply.ts";
import type { TensorLike } from "../core/arguments.ts";
import { withoutGrad } from "../core/modes/grad_mode.ts";
import { shapeError } from "../core/rules/errors.ts";
import { checkedShape } from "../ops/creation/tensor_options.ts";
import { Tensor } from "../class/tensor.ts";

/** A distribution, or one for each element of its parameters. */
export abstract class Distribution {
  /** The shape of the parameters: as many distributions. */
  readonly batchShape: Shape;
  /** The shape of what one distribution draws; [] for numbers. */
  readonly eventShape: Shape;

  /** A distribution of such shapes. */
  constructor(batchShape: Shape, eventShape: Shape = []) {
    this.batchShape = batchShape;
    this.eventShape = eventShape;
  }

  /** The mean of each distribution; NaN where there is none. */
  abstract get mean(): Tensor;

  /** The variance of each distribution; NaN where there is none. */
  abstract get variance(): Tensor;

  /** The standard deviation of each distribution. */
  get stddev(): Tensor {
    return this.variance.sqrt();
  }

  /**
   * The logarithm of the density, or of the probability of whole numbers, at a value that broadcasts with
   * the parameters; -Infinity where it cannot be.
   *
   * @throws {TypeError} When it is no tensor.
   */
  logProb(value: Tensor): Tensor {
    requireTensor("logProb", value);
    return this.logDensity(value);
  }

  /** The most likely value of each distribution; NaN where there is none. */
  get mode(): Tensor {
    throw new Error(`Cannot take the mode of ${this.constructor.name}: it has no formula`);
  }

  /**
   * The share of what is drawn that is at most a value.
   *
   * @throws {Error} When there is no formula.
   */
  cdf(value: Tensor): Tensor {
    requireTensor("cdf", value);
    return this.shareBelow(value);
  }

  /**
   * The value of which a share of what is drawn is at most: the inverse of {@linkcode Distribution.cdf}.
   *
   * @throws {Error} When there is no formula.
   */
  icdf(share: Tensor): Tensor {
    requireTensor("icdf", share);
    return this.valueAbove(share);
  }

  /** The entropy of each distribution, in nats. */
  entropy(): Tensor {
    throw new Error(`Cannot take the entropy of ${this.constructor.name}: it has no formula`);
  }

  /**
   * Draws numbers, without a gradient.
   *
   * @param shape Leading axes: so many draws of each distribution.
   */
  sample(shape: Shape = []): Tensor {
    const lead = checkedShape("sample", shape);
    return withoutGrad(() => this.draw([...lead, ...this.batchShape, ...this.eventShape]).detach());
  }

  /**
   * Draws numbers through which gradients go to the parameters.
   *
   * @param shape Leading axes: so many draws of each distribution.
   * @throws {Error} When there is no such way to draw them.
   */
  rsample(shape: Shape = []): Tensor {
    if (!this.hasRsample) {
      throw new Error(
        `Cannot rsample ${this.constructor.name}: its numbers do not change smoothly with the ` +
          `parameters here; use sample() and logProb(), the gradient of the score`,
      );
    }
    return this.draw([...checkedShape("rsample", shape), ...this.batchShape, ...this.eventShape]);
  }

  /** True where {@linkcode Distribution.rsample} is there. */
  get hasRsample(): boolean {
    return false;
  }

  /** Draws numbers of the whole shape. */
  protected abstract draw(shape: Shape): Tensor;

  /** The logarithm of the density at a value. */
  protected abstract logDensity(value: Tensor): Tensor;

  /** The share of what is drawn that is at most a value. */
  protected shareBelow(_value: Tensor): Tensor {
    throw new Error(`Cannot take the cdf of ${this.constructor.name}: it has no formula`);
  }

  /** The value of which a share is at most. */
  protected valueAbove(_share: Tensor): Tensor {
    throw new Error(`Cannot take the icdf of ${this.constructor.name}: it has no formula`);
  }
}

/** Parameters as tensors of one shape, type and device; numbers alone are of the current device. */
export function parametersOf<const T extends readonly TensorLike[]>(
  op: string,
  ...given: T
): { -readonly [K in keyof T]: Tensor } {
  const tensors = given.filter((value) => typeof value !== "number") as Tensor[];
  for (const tensor of tensors) requireTensor(op, tensor, " or a number");
  if (tensors.length > 0) sameDevice(op, tensors);
  const shape = tensors.reduce<Shape | null>((s, t) => s && broadcastShapes(s, t.shape), []);
  if (shape === null) {
    throw shapeError(op)`
      Cannot ${op} with parameters of shapes ${tensors.map((t) => t.shape)}: they do not broadcast`;
  }
  const [first] = tensors;
  return given.map((value) => {
    if (typeof value !== "number") return (value as Tensor).expand([...shape]);
    return first ? first.fullLike(value, shape) : Tensor.full(shape, value);
  }) as { -readonly [K in keyof T]: Tensor };
}

/** Options of tensors that are drawn for parameters. */
export function like({ device, dtype }: Tensor): Pick<Tensor, "device" | "dtype"> {
  return { device, dtype };
}

/** `x` where a value is possible, else -Infinity. */
export function within(isPossible: Tensor, x: Tensor): Tensor {
  return isPossible.where(x, -Infinity);
}
