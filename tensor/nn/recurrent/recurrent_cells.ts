/** One step of recurrent layers, for loops of one's own. */
import { narrowed } from "../../core/autocast.ts";
import { requireTensor } from "../../core/apply.ts";
import { shapeError } from "../../core/rules/errors.ts";
import { checkOptions, type Rules, takes } from "../../core/rules/options.ts";
import { promote } from "../../core/rules/promotion.ts";
import type { Tensor } from "../../core/mod.ts";
import { type GateKind, gatesOf } from "./gates.ts";
import { uniform } from "../module/init.ts";
import { nameFrom, type StateNames } from "../module/members.ts";
import { Module } from "../module/module.ts";
import { parameter } from "../module/parameter.ts";
import { requireSizes } from "../module/sizes.ts";

/** Options of an {@linkcode RNNCell}. */
export interface RNNCellOptions {
  /** False to leave out both biases; true by default. */
  bias?: boolean;
  /** The activation; default "tanh". */
  nonlinearity?: "tanh" | "relu";
}

const cellRules: Rules<{ bias?: boolean }> = { bias: takes.bool };
const rnnCellRules: Rules<RNNCellOptions> = {
  ...cellRules,
  nonlinearity: takes.oneOf("tanh", "relu"),
};

const names: StateNames = {
  weightIh: "weight_ih",
  weightHh: "weight_hh",
  biasIh: "bias_ih",
  biasHh: "bias_hh",
};

/**
 * Base of all cells: their weights, and a step.
 *
 * @internal
 */
export abstract class RecurrentCell<State, Output>
  extends Module<[x: Tensor, state?: State], Output> {
  /** (gates * H, inputSize). */
  weightIh: Tensor;
  /** (gates * H, H). */
  weightHh: Tensor;
  /** (gates * H), or null. */
  biasIh: Tensor | null;
  /** (gates * H), or null. */
  biasHh: Tensor | null;
  readonly #kind: GateKind;

  /** Makes the cell. */
  protected constructor(kind: GateKind, inputSize: number, hiddenSize: number, bias: boolean) {
    super();
    requireSizes(new.target.name, { inputSize, hiddenSize });
    const rows = gatesOf[kind].count * hiddenSize;
    const bound = hiddenSize > 0 ? 1 / Math.sqrt(hiddenSize) : 0;
    const make = (...shape: number[]): Tensor =>
      parameter(uniform(shape, { low: -bound, high: bound }));
    this.weightIh = make(rows, inputSize);
    this.weightHh = make(rows, hiddenSize);
    this.biasIh = bias ? make(rows) : null;
    this.biasHh = bias ? make(rows) : null;
    this.#kind = kind;
  }

  /** PyTorch's names. */
  protected override stateName(property: string): string {
    return nameFrom(names, property) ?? super.stateName(property);
  }

  /** The next state, from (N, inputSize) or (inputSize), and tensors (N, H) or (H). */
  protected step(x: Tensor, state?: readonly Tensor[]): Tensor[] {
    const name = this.constructor.name;
    requireTensor(`run ${name}`, x);
    const [features, hidden] = [this.weightIh.shape[1]!, this.weightHh.shape[1]!];
    if ((x.ndim !== 1 && x.ndim !== 2) || x.shape.at(-1) !== features) {
      throw shapeError(name)`
        Cannot run ${name} on a tensor of shape ${x.shape}: pass [N, ${features}] or [${features}]`;
    }
    const shape = [...x.shape.slice(0, -1), hidden];
    const { states, step } = gatesOf[this.#kind];
    const before = state ?? Array.from({ length: states }, () => x.zerosLike(shape));
    this.#checkState(before, states, shape);
    const rows = before.map((s) => s.reshape([-1, hidden]));
    const next = step({
      input: product(x.reshape([-1, features]), this.weightIh, this.biasIh),
      hidden: product(rows[0]!, this.weightHh, this.biasHh),
      features: hidden,
      state: (k) => rows[k]!,
    });
    return next.map((s) => s.reshape(shape));
  }

  #checkState(state: readonly Tensor[], states: number, shape: readonly number[]): void {
    const name = this.constructor.name;
    if (!Array.isArray(state) || state.length !== states) {
      throw new TypeError(`Cannot run ${name} with such a state: pass [h, c]`);
    }
    for (const s of state) {
      requireTensor(`run ${name} with a state`, s);
      if (`${s.shape}` === `${shape}`) continue;
      throw shapeError(name)`
        Cannot run ${name} with a state of shape ${s.shape}: it must be ${shape}`;
    }
  }
}

function product(x: Tensor, weight: Tensor, bias: Tensor | null): Tensor {
  const [a, b] = narrowed(x, weight);
  const dtype = promote(a.dtype, b.dtype);
  const out = a.cast(dtype).matmul(b.cast(dtype).transpose());
  return bias ? out.add(bias.cast(dtype)) : out;
}

/**
 * A step of an {@linkcode LSTM}: (N, inputSize) and a state [h, c] of (N, H) give the next state.
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const cell = new nn.LSTMCell(8, 16);
 * let state = cell.forward(Tensor.randn([3, 8]));
 * state = cell.forward(Tensor.randn([3, 8]), state);
 * assertEquals(state.map(({ shape }) => shape), [[3, 16], [3, 16]]);
 * ```
 */
export class LSTMCell extends RecurrentCell<readonly Tensor[], [h: Tensor, c: Tensor]> {
  /**
   * Makes the cell.
   *
   * @param inputSize Features of the input.
   * @param hiddenSize H, features of h and c.
   * @param options `bias: false` for none.
   */
  constructor(inputSize: number, hiddenSize: number, options: { bias?: boolean } = {}) {
    checkOptions("make a LSTMCell", options, cellRules);
    super("lstm", inputSize, hiddenSize, options.bias ?? true);
  }

  /**
   * Goes one step.
   *
   * @param x (N, inputSize) or (inputSize).
   * @param state [h, c]; default zeros.
   * @returns The next [h, c].
   * @throws {ShapeError} When a shape does not fit.
   */
  forward(x: Tensor, state?: readonly Tensor[]): [h: Tensor, c: Tensor] {
    return this.step(x, state) as [Tensor, Tensor];
  }
}

/**
 * A step of a {@linkcode GRU}: (N, inputSize) and h (N, H) give the next h.
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const cell = new nn.GRUCell(8, 16);
 * const h = cell.forward(Tensor.randn([3, 8]));
 * assertEquals(cell.forward(Tensor.randn([3, 8]), h).shape, [3, 16]);
 * ```
 */
export class GRUCell extends RecurrentCell<Tensor, Tensor> {
  /**
   * Makes the cell.
   *
   * @param inputSize Features of the input.
   * @param hiddenSize H, features of h.
   * @param options `bias: false` for none.
   */
  constructor(inputSize: number, hiddenSize: number, options: { bias?: boolean } = {}) {
    checkOptions("make a GRUCell", options, cellRules);
    super("gru", inputSize, hiddenSize, options.bias ?? true);
  }

  /**
   * Goes one step.
   *
   * @param x (N, inputSize) or (inputSize).
   * @param h The state before; default zeros.
   * @throws {ShapeError} When a shape does not fit.
   */
  forward(x: Tensor, h?: Tensor): Tensor {
    return this.step(x, h === undefined ? h : [h])[0]!;
  }
}

/**
 * A step of a {@linkcode RNN}: (N, inputSize) and h (N, H) give the next h.
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const cell = new nn.RNNCell(8, 16, { nonlinearity: "relu" });
 * assertEquals(cell.forward(Tensor.randn([3, 8])).shape, [3, 16]);
 * ```
 */
export class RNNCell extends RecurrentCell<Tensor, Tensor> {
  /**
   * Makes the cell.
   *
   * @param inputSize Features of the input.
   * @param hiddenSize H, features of h.
   * @param options The activation, biases.
   */
  constructor(inputSize: number, hiddenSize: number, options: RNNCellOptions = {}) {
    checkOptions("make a RNNCell", options, rnnCellRules);
    super(options.nonlinearity ?? "tanh", inputSize, hiddenSize, options.bias ?? true);
  }

  /**
   * Goes one step.
   *
   * @param x (N, inputSize) or (inputSize).
   * @param h The state before; default zeros.
   * @throws {ShapeError} When a shape does not fit.
   */
  forward(x: Tensor, h?: Tensor): Tensor {
    return this.step(x, h === undefined ? h : [h])[0]!;
  }
}
