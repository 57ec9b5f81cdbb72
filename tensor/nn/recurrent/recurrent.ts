/**
 * Recurrent layers: sequences step by step, each step from the state that the one before left.
 *
 * This folder (`recurrent/`) imports `layers/`, `module/`, `ops/` and `core/`. Sequences and states
 * come in and go out.
 */
import { narrowed } from "../../core/autocast.ts";
import { requireTensor } from "../../core/apply.ts";
import { compute } from "../../core/operations.ts";
import { shapeError } from "../../core/rules/errors.ts";
import { enableGrad, isGradEnabled, withoutGrad } from "../../core/modes/grad_mode.ts";
import { checkOptions, type Rules, takes } from "../../core/rules/options.ts";
import { promote } from "../../core/rules/promotion.ts";
import { Tensor } from "../../class/tensor.ts";
import { dropout } from "../layers/dropout.ts";
import { type GateKind, gatesOf } from "./gates.ts";
import { uniform } from "../module/init.ts";
import { Module } from "../module/module.ts";
import { parameter } from "../module/parameter.ts";
import { recurrence } from "./recurrence.ts";
import { requireSizes } from "../module/sizes.ts";

/** Options of {@linkcode LSTM} and {@linkcode GRU}. */
export interface RecurrentOptions {
  /** Layers, each on the output of the one before; default 1. */
  numLayers?: number;
  /** False to leave out all biases; true by default. */
  bias?: boolean;
  /** True for inputs (N, T, features) instead of (T, N, features); default false, as in PyTorch. */
  batchFirst?: boolean;
  /** Probability to drop an element between two layers while training; default 0. */
  dropout?: number;
  /**
   * True to go through the sequence in both directions and give both outputs side by side; false by
   * default.
   */
  bidirectional?: boolean;
}

/** Options of an {@linkcode RNN}. */
export interface RNNOptions extends RecurrentOptions {
  /** The activation; default "tanh". */
  nonlinearity?: "tanh" | "relu";
}

/** Result of a recurrent layer. */
export interface RecurrentResult<State extends Tensor[] = Tensor[]> {
  /** h of the last layer after each step: (T, N, directions * H), or with N first. */
  readonly output: Tensor;
  /**
   * The state after the last step: [h], or [h, c] of an LSTM, each (layers * directions, N, H). Made
   * when it is first asked for.
   */
  readonly state: State;
}

const recurrentRules: Rules<RecurrentOptions> = {
  numLayers: takes.count,
  bias: takes.bool,
  batchFirst: takes.bool,
  dropout: takes.share,
  bidirectional: takes.bool,
};
const rnnRules: Rules<RNNOptions> = {
  ...recurrentRules,
  nonlinearity: takes.oneOf("tanh", "relu"),
};

/** The names of the weights of one direction of one layer. */
export type WeightName = `${"weight" | "bias"}${"Ih" | "Hh"}L${string}`;

const WEIGHT = /^(weight|bias)(Ih|Hh)L(\d+)(Reverse)?$/;

/** Inputs of one direction of one layer; weights and biases as PyTorch has them. */
export interface DirectionInputs {
  readonly kind: GateKind;
  /** True to go from the last step to the first. */
  readonly reverse: boolean;
  /** (T, N, features). */
  readonly x: Tensor;
  readonly weightIh: Tensor;
  readonly weightHh: Tensor;
  /** Null where the layer has no biases. */
  readonly biasIh: Tensor | null;
  readonly biasHh: Tensor | null;
  /** The first state, each (N, H). */
  readonly state: readonly Tensor[];
}

function directionStates(inputs: DirectionInputs): Tensor {
  const { kind, reverse, x, weightIh, weightHh, biasIh, biasHh, state } = inputs;
  const dtype = promote(x.dtype, weightIh.dtype);
  const outer = biasIh?.cast(dtype) ?? null, inner = biasHh?.cast(dtype) ?? null;
  const product = x.cast(dtype).matmul(weightIh.cast(dtype).transpose());
  // A GRU multiplies its second bias by a gate; the others just add both.
  const isApart = kind === "gru";
  const added = outer && inner && !isApart ? outer.add(inner) : outer;
  return recurrence({
    kind,
    reverse,
    input: added ? product.add(added) : product,
    weight: weightHh.cast(dtype),
    bias: isApart ? inner : null,
    state: state.map((s) => s.cast(dtype)),
  });
}

/**
 * Base of all recurrent layers; the gates of their steps differ.
 *
 * @internal
 */
export abstract class Recurrent<State extends Tensor[] = Tensor[]>
  extends Module<[x: Tensor, state?: readonly Tensor[]], RecurrentResult<State>> {
  /** (gates * H, inputSize): what the first layer makes of the input. */
  declare weightIhL0: Tensor;
  /** (gates * H, H): what it makes of h. */
  declare weightHhL0: Tensor;
  /** (gates * H), unless there are no biases. */
  declare biasIhL0?: Tensor;
  /** (gates * H), unless there are no biases. */
  declare biasHhL0?: Tensor;
  /** The weights of other layers and directions: `weightIhL1`, `biasHhL0Reverse`. */
  [weights: WeightName]: Tensor | undefined;
  readonly #kind: GateKind;
  readonly #inputSize: number;
  readonly #hiddenSize: number;
  readonly #options: RecurrentOptions;

  /** Makes the layer. */
  protected constructor(
    kind: GateKind,
    inputSize: number,
    hiddenSize: number,
    options: RecurrentOptions,
  ) {
    super();
    requireSizes(new.target.name, { inputSize, hiddenSize });
    this.#kind = kind;
    this.#inputSize = inputSize;
    this.#hiddenSize = hiddenSize;
    this.#options = options;
    for (let layer = 0; layer < this.#layers; layer++) {
      for (const suffix of this.#directions) this.#makeWeights(layer, suffix);
    }
  }

  get #layers(): number {
    return this.#options.numLayers ?? 1;
  }

  /** The endings of the weights' names. */
  get #directions(): readonly ("" | "Reverse")[] {
    return this.#options.bidirectional ? ["", "Reverse"] : [""];
  }

  #makeWeights(layer: number, suffix: "" | "Reverse"): void {
    const rows = gatesOf[this.#kind].count * this.#hiddenSize;
    const bound = this.#hiddenSize > 0 ? 1 / Math.sqrt(this.#hiddenSize) : 0;
    const make = (...shape: number[]): Tensor =>
      parameter(uniform(shape, { low: -bound, high: bound }));
    const features = layer === 0 ? this.#inputSize : this.#directions.length * this.#hiddenSize;
    this[`weightIhL${layer}${suffix}`] = make(rows, features);
    this[`weightHhL${layer}${suffix}`] = make(rows, this.#hiddenSize);
    if (this.#options.bias === false) return;
    this[`biasIhL${layer}${suffix}`] = make(rows);
    this[`biasHhL${layer}${suffix}`] = make(rows);
  }

  /** PyTorch's names: `weightIhL1Reverse` is `weight_ih_l1_reverse`. */
  protected override stateName(property: string): string {
    const [, kind, of, layer, reverse] = WEIGHT.exec(property) ?? [];
    if (kind === undefined) return super.stateName(property);
    return `${kind}_${of!.toLowerCase()}_l${layer}${reverse ? "_reverse" : ""}`;
  }

  /**
   * Goes through sequences.
   *
   * @param x (T, N, inputSize), (N, T, inputSize) with `batchFirst`, or (T, inputSize) of one sequence.
   * @param state The state to begin with, [h] or [h, c] of an LSTM: each (layers * directions, N, H),
   * without N for one sequence. Default zeros.
   * @throws {ShapeError} When a shape does not fit, or there are no steps.
   */
  forward(x: Tensor, state?: readonly Tensor[]): RecurrentResult<State> {
    this.#checkInput(x);
    const isBatch = x.ndim === 3, batchFirst = this.#options.batchFirst === true;
    const steps = !isBatch ? x.unsqueeze(1) : batchFirst ? x.transpose(0, 1) : x;
    const first = this.#firstState(steps, isBatch, state);
    const { output, ends } = this.#run(steps, first);
    const inOrder = !isBatch ? output.squeeze(1) : batchFirst ? output.transpose(0, 1) : output;
    return resultOf(inOrder, () => lastStates(ends, isBatch) as State);
  }

  /** All layers: inputs (T, N, features), states (layers * directions, N, H). */
  #run(x: Tensor, first: readonly Tensor[]): { output: Tensor; ends: End[] } {
    const ends: End[] = [];
    let input = x;
    for (let layer = 0; layer < this.#layers; layer++) {
      const outputs = this.#directions.map((suffix) => {
        const before = first.map((s) => s.slice(ends.length));
        const states = this.#direction(layer, suffix, input, before);
        ends.push({ states, at: suffix === "" ? -1 : 0 });
        return states.slice(0);
      });
      input = outputs.length === 1 ? outputs[0]! : Tensor.concat(outputs, -1);
      const isInner = layer + 1 < this.#layers;
      if (isInner && this.training) input = dropout(input, this.#options.dropout ?? 0);
    }
    return { output: input, ends };
  }

  /** One direction of one layer: its states after each step, (states, T, N, H). */
  #direction(layer: number, suffix: "" | "Reverse", x: Tensor, state: Tensor[]): Tensor {
    const [input, weightIh] = narrowed(x, this[`weightIhL${layer}${suffix}`]!);
    return compute(directionStates, {
      kind: this.#kind,
      reverse: suffix !== "",
      x: input,
      weightIh,
      weightHh: this[`weightHhL${layer}${suffix}`]!,
      biasIh: this[`biasIhL${layer}${suffix}`] ?? null,
      biasHh: this[`biasHhL${layer}${suffix}`] ?? null,
      state,
    });
  }

  #checkInput(x: Tensor): void {
    const name = this.constructor.name;
    requireTensor(`run ${name}`, x);
    const isKnown = (x.ndim === 2 || x.ndim === 3) && x.shape.at(-1) === this.#inputSize;
    const steps = x.shape[x.ndim === 3 && this.#options.batchFirst ? 1 : 0]!;
    if (isKnown && steps > 0) return;
    const order = this.#options.batchFirst ? "[N, T, features]" : "[T, N, features]";
    throw shapeError(name)`
      Cannot run ${name} on a tensor of shape ${x.shape}: pass ${order}, or [T, features], with at
      least one step and ${this.#inputSize} features`;
  }

  #firstState(x: Tensor, isBatch: boolean, state?: readonly Tensor[]): readonly Tensor[] {
    const name = this.constructor.name, { states } = gatesOf[this.#kind];
    const shape = [this.#layers * this.#directions.length, x.shape[1]!, this.#hiddenSize];
    if (state === undefined) {
      return Array.from({ length: states }, () => x.zerosLike(shape));
    }
    const due = isBatch ? shape : [shape[0]!, shape[2]!];
    if (!Array.isArray(state) || state.length !== states) {
      throw new TypeError(
        `Cannot run ${name} with ${
          Array.isArray(state) ? `a state of ${state.length} tensors` : "a state that is no array"
        }: pass ${states === 2 ? "[h, c]" : "[h]"}`,
      );
    }
    for (const s of state) {
      requireTensor(`run ${name} with a state`, s);
      if (`${s.shape}` === `${due}`) continue;
      throw shapeError(name)`
        Cannot run ${name} with a state of shape ${s.shape}: it must be ${due}`;
    }
    return isBatch ? state : state.map((s: Tensor) => s.unsqueeze(1));
  }
}

/** The states of one direction of one layer, and at which step it ended. */
interface End {
  readonly states: Tensor;
  readonly at: number;
}

/** The state after the last step, each (layers * directions, N, H). */
function lastStates(ends: readonly End[], isBatch: boolean): Tensor[] {
  return Array.from({ length: ends[0]!.states.shape[0]! }, (_, k) => {
    const state = Tensor.stack(ends.map(({ states, at }) => states.slice(k, at)));
    return isBatch ? state : state.squeeze(1);
  });
}

/** The state is made when it is asked for: one that is not would keep all steps until collected. */
function resultOf<State extends Tensor[]>(
  output: Tensor,
  last: () => State,
): RecurrentResult<State> {
  const mode = isGradEnabled() ? enableGrad : withoutGrad;
  let state: State | null = null;
  return {
    output,
    get state(): State {
      return state ??= mode(last);
    },
  };
}

/**
 * Long short-term memory (S. Hochreiter, J. Schmidhuber 1997; with forget gates, F. Gers 2000). Its
 * parameters are those of PyTorch: `weightIhL0` (4 * H, inputSize), `weightHhL0` (4 * H, H), `biasIhL0`
 * and `biasHhL0` (4 * H), rows in the order input, forget, cell, output; `...L1` those of the next
 * layer, `...L0Reverse` those of the other direction.
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const lstm = new nn.LSTM(8, 16, { numLayers: 2, batchFirst: true });
 * const { output, state: [h, c] } = lstm.forward(Tensor.randn([3, 5, 8]));
 * assertEquals(output.shape, [3, 5, 16]);
 * assertEquals([h.shape, c.shape], [[2, 3, 16], [2, 3, 16]]);
 * assertEquals(lstm.stateDict()["weight_ih_l1"]!.shape, [64, 16]);
 * ```
 */
export class LSTM extends Recurrent<[h: Tensor, c: Tensor]> {
  /**
   * Makes the layer.
   *
   * @param inputSize Features of a step of the input.
   * @param hiddenSize H, features of h and c.
   * @param options Layers, directions, dropout, biases, the place of the batch.
   */
  constructor(inputSize: number, hiddenSize: number, options: RecurrentOptions = {}) {
    checkOptions("make a LSTM", options, recurrentRules);
    super("lstm", inputSize, hiddenSize, options);
  }
}

/**
 * Gated recurrent units (K. Cho et al. 2014). Parameters are named as those of {@linkcode LSTM}, with
 * 3 * H rows in the order reset, update, new.
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const gru = new nn.GRU(8, 16, { bidirectional: true });
 * const { output, state: [h] } = gru.forward(Tensor.randn([5, 3, 8]));
 * assertEquals([output.shape, h.shape], [[5, 3, 32], [2, 3, 16]]);
 * ```
 */
export class GRU extends Recurrent<[h: Tensor]> {
  /**
   * Makes the layer.
   *
   * @param inputSize Features of a step of the input.
   * @param hiddenSize H, features of h.
   * @param options Layers, directions, dropout, biases, the place of the batch.
   */
  constructor(inputSize: number, hiddenSize: number, options: RecurrentOptions = {}) {
    checkOptions("make a GRU", options, recurrentRules);
    super("gru", inputSize, hiddenSize, options);
  }
}

/**
 * The plain recurrent layer `h' = tanh(x Wᵀ + h Vᵀ + b)` (J. Elman 1990). Parameters are named as
 * those of {@linkcode LSTM}, with H rows.
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const rnn = new nn.RNN(8, 16, { nonlinearity: "relu" });
 * assertEquals(rnn.forward(Tensor.randn([5, 8])).output.shape, [5, 16]);
 * ```
 */
export class RNN extends Recurrent<[h: Tensor]> {
  /**
   * Makes the layer.
   *
   * @param inputSize Features of a step of the input.
   * @param hiddenSize H, features of h.
   * @param options The activation, layers, directions, dropout, biases, the place of the batch.
   */
  constructor(inputSize: number, hiddenSize: number, options: RNNOptions = {}) {
    checkOptions("make a RNN", options, rnnRules);
    super(options.nonlinearity ?? "tanh", inputSize, hiddenSize, options);
  }
}
