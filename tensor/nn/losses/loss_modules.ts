/** Losses as modules, each a function with the options that it was made with. */
import type { CrossEntropyOptions } from "../../core/arguments.ts";
import type { Tensor } from "../../core/mod.ts";
import { checkOptions, type Rules } from "../../core/rules/options.ts";
import { crossEntropyRules } from "../../ops/losses.ts";
import { Module } from "../module/module.ts";
import { buffer } from "../module/parameter.ts";
import { ctc, type CTCOptions, ctcRules, type Lengths } from "./ctc.ts";
import {
  type BCEOptions,
  bceWithLogits,
  bceWithLogitsRules,
  crossEntropy,
  huber,
  type HuberOptions,
  huberRules,
  l1,
  type LossOptions,
  lossRules,
  mse,
} from "./losses.ts";
import {
  cosineEmbedding,
  type CosineEmbeddingOptions,
  embeddingRules,
  triplet,
  type TripletOptions,
  tripletRules,
} from "./metric_losses.ts";
import {
  bce,
  type BCEProbabilityOptions,
  bceRules,
  klDiv,
  type KLDivOptions,
  klDivRules,
  nll,
  type NLLOptions,
  nllRules,
  smoothL1,
  type SmoothL1Options,
  smoothRules,
} from "./probability_losses.ts";

/**
 * A loss whose options are numbers and names.
 *
 * @internal
 */
export abstract class Loss<Options extends object, Inputs extends unknown[] = [Tensor, Tensor]>
  extends Module<Inputs> {
  /** The options that it was made with. */
  readonly options: Options;
  readonly #compute: (...inputs: [...Inputs, Options]) => Tensor;

  /** A loss that computes a function with options, which are checked now. */
  constructor(
    compute: (...inputs: [...Inputs, Options]) => Tensor,
    options: Options,
    rules: Rules<Options>,
  ) {
    super();
    checkOptions(`make a ${new.target.name}`, options, rules);
    this.options = options;
    this.#compute = compute;
  }

  /** The loss; the function that it is of says which shapes and types the inputs have. */
  forward(...inputs: Inputs): Tensor {
    return this.#compute(...inputs, this.options);
  }
}

/**
 * A loss of outputs and targets with the weights of classes or elements, which move with the module.
 *
 * @internal
 */
export abstract class WeightedLoss<Options extends { weight?: Tensor }>
  extends Module<[input: Tensor, target: Tensor]> {
  /** The weights, or null. */
  weight: Tensor | null;
  readonly #options: Omit<Options, "weight">;
  readonly #compute: (input: Tensor, target: Tensor, options: Options) => Tensor;

  /** A loss that computes a function with options, which are checked now. */
  constructor(
    compute: (input: Tensor, target: Tensor, options: Options) => Tensor,
    options: Options,
    rules: Rules<Options>,
  ) {
    super();
    checkOptions(`make a ${new.target.name}`, options, rules);
    const { weight = null, ...others } = options;
    this.weight = weight && buffer(weight, { persistent: false });
    this.#options = others;
    this.#compute = compute;
  }

  /** The loss; the function that it is of says which shapes and types the inputs have. */
  forward(input: Tensor, target: Tensor): Tensor {
    const { weight } = this;
    const options = weight ? { ...this.#options, weight } : this.#options;
    return this.#compute(input, target, options as Options);
  }
}

/** The cross-entropy of classes as a module; see {@linkcode crossEntropy}. */
export class CrossEntropyLoss extends WeightedLoss<CrossEntropyOptions> {
  /**
   * Makes the loss.
   *
   * @param options Weights of the classes, label smoothing, what to ignore, the reduction.
   */
  constructor(options: CrossEntropyOptions = {}) {
    super(crossEntropy, options, crossEntropyRules);
  }
}

/** The negative log-likelihood as a module; see {@linkcode nll}. */
export class NLLLoss extends WeightedLoss<NLLOptions> {
  /**
   * Makes the loss.
   *
   * @param options Weights of the classes, what to ignore, the reduction.
   */
  constructor(options: NLLOptions = {}) {
    super(nll, options, nllRules);
  }
}

/** The cross-entropy of probabilities of yes-or-no answers as a module; see {@linkcode bce}. */
export class BCELoss extends WeightedLoss<BCEProbabilityOptions> {
  /**
   * Makes the loss.
   *
   * @param options Factors of the losses, the reduction.
   */
  constructor(options: BCEProbabilityOptions = {}) {
    super(bce, options, bceRules);
  }
}

/** The cross-entropy of yes-or-no answers from logits as a module; see {@linkcode bceWithLogits}. */
export class BCEWithLogitsLoss extends Module<[logits: Tensor, target: Tensor]> {
  /** Weight of positives, or null; it moves with the module. */
  positiveWeight: Tensor | null;
  readonly #options: LossOptions;

  /**
   * Makes the loss.
   *
   * @param options The weight of positives, the reduction.
   */
  constructor(options: BCEOptions = {}) {
    super();
    checkOptions("make a BCEWithLogitsLoss", options, bceWithLogitsRules);
    const { positiveWeight = null, ...others } = options;
    this.positiveWeight = positiveWeight && buffer(positiveWeight, { persistent: false });
    this.#options = others;
  }

  /** The cross-entropy of yes-or-no answers. */
  forward(logits: Tensor, target: Tensor): Tensor {
    const { positiveWeight } = this;
    const options = positiveWeight ? { ...this.#options, positiveWeight } : this.#options;
    return bceWithLogits(logits, target, options);
  }
}

/** The mean squared difference as a module; see {@linkcode mse}. */
export class MSELoss extends Loss<LossOptions> {
  /**
   * Makes the loss.
   *
   * @param options The reduction.
   */
  constructor(options: LossOptions = {}) {
    super(mse, options, lossRules);
  }
}

/** The mean absolute difference as a module; see {@linkcode l1}. */
export class L1Loss extends Loss<LossOptions> {
  /**
   * Makes the loss.
   *
   * @param options The reduction.
   */
  constructor(options: LossOptions = {}) {
    super(l1, options, lossRules);
  }
}

/** Half the squared difference, or a line, as a module; see {@linkcode huber}. */
export class HuberLoss extends Loss<HuberOptions> {
  /**
   * Makes the loss.
   *
   * @param options Delta, the reduction.
   */
  constructor(options: HuberOptions = {}) {
    super(huber, options, huberRules);
  }
}

/** Huber's loss divided by its threshold as a module; see {@linkcode smoothL1}. */
export class SmoothL1Loss extends Loss<SmoothL1Options> {
  /**
   * Makes the loss.
   *
   * @param options Beta, the reduction.
   */
  constructor(options: SmoothL1Options = {}) {
    super(smoothL1, options, smoothRules);
  }
}

/** The Kullback-Leibler divergence as a module; see {@linkcode klDiv}. */
export class KLDivLoss extends Loss<KLDivOptions> {
  /**
   * Makes the loss.
   *
   * @param options The kind of the target, the reduction.
   */
  constructor(options: KLDivOptions = {}) {
    super(klDiv, options, klDivRules);
  }
}

/** The loss of pairs that are alike or not as a module; see {@linkcode cosineEmbedding}. */
export class CosineEmbeddingLoss
  extends Loss<CosineEmbeddingOptions, [a: Tensor, b: Tensor, target: Tensor]> {
  /**
   * Makes the loss.
   *
   * @param options The margin, the reduction.
   */
  constructor(options: CosineEmbeddingOptions = {}) {
    super(cosineEmbedding, options, embeddingRules);
  }
}

/** The loss of an anchor, a like and an unlike vector as a module; see {@linkcode triplet}. */
export class TripletMarginLoss
  extends Loss<TripletOptions, [anchor: Tensor, positive: Tensor, negative: Tensor]> {
  /**
   * Makes the loss.
   *
   * @param options The margin, the norm, the reduction.
   */
  constructor(options: TripletOptions = {}) {
    super(triplet, options, tripletRules);
  }
}

/** The loss of sequences that are not aligned with their labels as a module; see {@linkcode ctc}. */
export class CTCLoss extends Loss<CTCOptions, [
  logProbabilities: Tensor,
  targets: Tensor,
  inputLengths: Lengths,
  targetLengths: Lengths,
]> {
  /**
   * Makes the loss.
   *
   * @param options The blank, what becomes of infinite losses, the reduction.
   */
  constructor(options: CTCOptions = {}) {
    super(ctc, options, ctcRules);
  }
}
