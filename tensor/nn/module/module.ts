/**
 * The base of everything that has parameters.
 *
 * This folder (`module/`) knows what a module is: members, names, states, initial values. It
 * imports `ops/`, `execution/` and `core/`, and no layer: those import it.
 */
import { type DeviceHandle, type DType, formatShape, isFloat } from "../../../backend/internal.ts";
import { realizeAll } from "../../execution/realization.ts";
import { ShapeError } from "../../core/rules/errors.ts";
import { noGrad } from "../../core/modes/grad_mode.ts";
import type { Tensor } from "../../core/tensor.ts";
import {
  forgetConstruction,
  madeBy,
  noteConstruction,
  rememberMade,
  successorOf,
} from "./construction.ts";
import { type NamedMember, namedMembers } from "./members.ts";
import { addForwardHook } from "./forward_hooks.ts";
import { roleOf, withRole } from "./parameter.ts";
import { describeModule } from "./summary.ts";
import { checkOptions, requireValue, type Rules, takes } from "../../core/rules/options.ts";
import { requireState } from "../../core/apply.ts";
import { disposeForGood, isTensor, replaceGradient, stateOf } from "../../core/internals.ts";

/** A module whatever its `forward` takes and gives. */
// deno-lint-ignore no-explicit-any -- the inputs of a module are those of its own `forward`
export type AnyModule = Module<any[], unknown>;

/** What did not fit when a state was loaded with `strict: false`. */
export interface LoadReport {
  /** Names that the module has and the state has not. */
  readonly missing: readonly string[];
  /** Names that the state has and the module has not. */
  readonly unexpected: readonly string[];
}

/** The tensors of a module and all below it, where they are held. */
export let tensorMembers: (module: AnyModule) => NamedMember<Tensor>[];

const loadRules: Rules<{ strict?: boolean }> = { strict: takes.bool };

/**
 * A part of a model: parameters, and how they are used in `forward`.
 *
 * Whatever a module holds in its public properties belongs to it: tensors that require a gradient (or
 * were made by {@linkcode parameter}) are parameters, those made by {@linkcode buffer} are buffers,
 * modules are its children; arrays, Maps and plain objects of these count too. Names are those of PyTorch:
 * the path of properties, camelCase written as snake_case (`runningMean` is `running_mean`,
 * `blocks[0].weight` is `blocks.0.weight`).
 *
 * @typeParam Inputs What `forward` takes.
 * @typeParam Output What it gives.
 *
 * @example A residual block
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * class Residual extends nn.Module {
 *   inner = new nn.Linear(8, 8);
 *   forward(x: Tensor): Tensor {
 *     return x.add(this.inner.forward(x).relu());
 *   }
 * }
 * const block = new Residual();
 * assertEquals(Object.keys(block.stateDict()), ["inner.weight", "inner.bias"]);
 * assertEquals(block.forward(Tensor.ones([4, 8])).shape, [4, 8]);
 * ```
 */
export abstract class Module<Inputs extends unknown[] = [Tensor], Output = Tensor>
  implements Disposable {
  /** True while it learns: dropout drops, batch normalization uses the batch. See `train`. */
  training = true;

  /** Makes a module; a class that extends it holds its parts in public properties. */
  constructor() {
    noteConstruction(this, Module.prototype);
  }

  /** Computes the output. */
  abstract forward(...inputs: Inputs): Output;

  /** What the module holds under which names: its public properties. */
  protected members(): Record<string, unknown> | Map<unknown, unknown> {
    return this as unknown as Record<string, unknown>;
  }

  /** The modules that this one holds, by name. */
  children(): [string, AnyModule][] {
    return [...namedMembers(this.members(), "", isModule)].map(({ name, value }) => [name, value]);
  }

  /** This module and all below it. */
  modules(): AnyModule[] {
    this.#requireAll();
    return [this, ...this.children().flatMap(([, child]) => child.modules())];
  }

  /** @throws {TypeError} When its constructor has made a module that nobody can list. */
  #requireAll(): void {
    const suspects = madeBy(this) as AnyModule[];
    if (suspects.length === 0) return;
    forgetConstruction(this);
    const listed = new Set(this.modules());
    // What the next module of the same place was made with came before it.
    for (const module of (successorOf(this) as AnyModule | null)?.modules() ?? []) {
      listed.add(module);
    }
    const missing = suspects.filter((module) => !listed.has(module));
    if (missing.length === 0) return;
    rememberMade(this, missing);
    const names = [...new Set(missing.map((module) => module.constructor.name))].join(", ");
    throw new TypeError(
      `Cannot list the modules of ${this.constructor.name}: its constructor made ${names}, which ` +
        `no property holds that can be seen; use TypeScript's private in place of #private, and ` +
        `properties, arrays, Maps, ModuleList or ModuleDict to hold modules`,
    );
  }

  /**
   * Calls a function with this module and all below it, those below first.
   *
   * @param fn What is done, such as setting initial weights.
   * @returns This module.
   *
   * @example Other initial weights
   * ```ts
   * import { nn } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const model = new nn.Sequential(new nn.Linear(2, 2), new nn.ReLU());
   * model.apply((module) => {
   *   if (module instanceof nn.Linear) module.weight.assign(nn.init.xavierUniform([2, 2]));
   * });
   * assertEquals(model.parameters().length, 2);
   * ```
   */
  apply(fn: (module: AnyModule) => void): this {
    for (const module of new Set(this.modules().reverse())) fn(module);
    return this;
  }

  /**
   * Has a function called with every output of `forward`; what it returns takes the output's place.
   *
   * @param hook Gets this module, the inputs and the output.
   * @returns Takes the hook away when it is disposed of.
   *
   * @example The output of a layer within a model
   * ```ts
   * import { nn, Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * const layer = new nn.Linear(3, 2), model = new nn.Sequential(layer, new nn.ReLU());
   * const seen: unknown[] = [];
   * {
   *   using _ = layer.registerForwardHook((_layer, _inputs, output) => void seen.push(output.shape));
   *   model.forward(Tensor.ones([1, 3]));
   * }
   * model.forward(Tensor.ones([1, 3]));
   * assertEquals(seen, [[1, 2]]);
   * ```
   */
  registerForwardHook(
    // deno-lint-ignore no-explicit-any -- with its own inputs a module would be no AnyModule
    hook: (module: this, inputs: any, output: Output) => Output | void,
  ): Disposable {
    requireValue("register a forward hook", "hook", hook, takes.callback);
    return addForwardHook(this, hook);
  }

  static {
    tensorMembers = (module) => module.modules().flatMap((each) => each.#ownTensors());
  }

  /** The tensors that this module holds itself. */
  #ownTensors(): NamedMember<Tensor>[] {
    return [...namedMembers(this.members(), "", isTensor)];
  }

  /** The tensors of this module and all below it, its own before its children's. */
  *#tensors(prefix = ""): Generator<[string, Tensor]> {
    this.#requireAll();
    for (const { name, value } of this.#ownTensors()) yield [prefix + name, value];
    for (const [name, child] of this.children()) yield* child.#tensors(`${prefix}${name}.`);
  }

  #named(role: "parameter" | "buffer"): [string, Tensor][] {
    const seen = new Set<Tensor>();
    return [...this.#tensors()].filter(([, tensor]) => {
      if (roleOf(tensor) !== role || seen.has(tensor)) return false;
      return seen.add(tensor);
    });
  }

  /** What is learned, each tensor once. */
  parameters(): Tensor[] {
    return this.namedParameters().map(([, tensor]) => tensor);
  }

  /** What is learned, with names as in `stateDict`. */
  namedParameters(): [string, Tensor][] {
    return this.#named("parameter");
  }

  /** State that is not learned, with names as in `stateDict`. */
  namedBuffers(): [string, Tensor][] {
    return this.#named("buffer");
  }

  /** The parameters and buffers that are saved, under PyTorch's names. */
  #state(): Map<string, Tensor> {
    const saved = [...this.#tensors()].filter(([, tensor]) => {
      const role = roleOf(tensor);
      return role === "parameter" || role === "buffer";
    });
    return new Map(saved);
  }

  /**
   * The values of all parameters and buffers under PyTorch's names and in its layouts. What is
   * returned keeps these values while the module goes on learning, however often it is loaded.
   */
  stateDict(): Record<string, Tensor> {
    return Object.fromEntries(
      [...this.#state()].map(([name, tensor]) => [name, tensor.realize().detach()]),
    );
  }

  /**
   * Gives the parameters and buffers the values of a state, converted to their types and devices.
   *
   * @param state Values by name, as `stateDict` or `loadSafetensors` returns them.
   * @param options `strict: false` leaves alone what is missing, and ignores what is not known.
   * @returns The names that did not fit; nothing with `strict`, which is the default.
   * @throws {RangeError} When names are missing or not known; nothing is changed then.
   * @throws {ShapeError} When a shape differs; nothing is changed then.
   */
  loadStateDict(
    state: Readonly<Record<string, Tensor>>,
    options: { strict?: boolean } = {},
  ): LoadReport {
    requireState(`load the state of ${this.constructor.name}`, state);
    checkOptions("load a state", options, loadRules);
    const own = this.#state();
    const missing = [...own.keys()].filter((name) => !Object.hasOwn(state, name));
    const unexpected = Object.keys(state).filter((name) => !own.has(name));
    if (options.strict !== false && missing.length + unexpected.length > 0) {
      throw new RangeError(misfit(this.constructor.name, missing, unexpected));
    }
    const pairs = [...own].filter(([name]) => Object.hasOwn(state, name))
      .map(([name, tensor]) => ({ name, tensor, value: state[name]! }));
    const wrong = pairs.filter(({ tensor, value }) => `${tensor.shape}` !== `${value.shape}`);
    if (wrong.length > 0) throw new ShapeError(mismatch(this.constructor.name, wrong));
    noGrad(() => {
      for (const { tensor, value } of pairs) tensor.assign(value.to(tensor.device));
    });
    realizeAll(pairs.map(({ tensor }) => tensor));
    for (const { tensor } of pairs) stateOf(tensor).dropFormer();
    return { missing, unexpected };
  }

  /**
   * Says whether the module learns or is used.
   *
   * @param mode True (the default) to learn.
   * @returns This module.
   */
  train(mode = true): this {
    requireValue("train", "mode", mode, takes.bool);
    for (const module of this.modules()) module.training = mode;
    return this;
  }

  /** The opposite of `train`: nothing is dropped, running statistics are used. */
  eval(): this {
    return this.train(false);
  }

  /**
   * Freezes the parameters, or lets them learn again.
   *
   * @param value False to freeze.
   * @returns This module.
   */
  requireGrad(value = true): this {
    for (const tensor of this.parameters()) {
      withRole(tensor, "parameter");
      tensor.requiresGrad = value;
    }
    return this;
  }

  /** Gives the gradients of all parameters back. */
  zeroGrad(): void {
    for (const tensor of this.parameters()) replaceGradient(tensor, null);
  }

  /**
   * Moves all parameters and buffers to a device. They become other tensors: make the optimizer
   * afterwards.
   *
   * @param target A selection string or handle.
   * @returns This module.
   */
  to(target: string | DeviceHandle): this {
    return this.#replaceAll((tensor) => tensor.to(target));
  }

  /**
   * Casts all parameters and buffers of floating point. They become other tensors: make the optimizer
   * afterwards.
   *
   * @param dtype "float16", "bfloat16", "float32" or "float64".
   * @returns This module.
   */
  cast(dtype: DType): this {
    return this.#replaceAll((tensor) => isFloat(tensor.dtype) ? tensor.cast(dtype) : tensor);
  }

  /** Replaces every tensor that has a role by another; shared ones stay shared. */
  #replaceAll(change: (tensor: Tensor) => Tensor): this {
    const changed = new Map<Tensor, Tensor>();
    const replaced = (tensor: Tensor): Tensor => {
      const known = changed.get(tensor);
      if (known) return known;
      const other = noGrad(() => change(tensor));
      changed.set(tensor, other);
      if (other === tensor) return tensor;
      other.requiresGrad = tensor.requiresGrad;
      return withRole(other, roleOf(tensor)!);
    };
    for (const module of this.modules()) {
      for (const { value, replace } of module.#ownTensors()) {
        if (roleOf(value)) replace(replaced(value));
      }
    }
    for (const [before, after] of changed) if (after !== before) before.dispose();
    return this;
  }

  /**
   * Gives the memory of all parameters, their gradients and buffers back, at once: results on the way
   * of a step that was made, which were not read yet, cannot be read any more.
   */
  dispose(): void {
    for (const [, tensor] of this.#tensors()) {
      if (roleOf(tensor)) disposeForGood(tensor);
    }
  }

  /** {@linkcode Module.dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }

  /** The parts of the module, the shapes of their tensors, and the number of parameters. */
  toString(): string {
    return describeModule(this);
  }

  /** What `console.log` prints. */
  [Symbol.for("Deno.customInspect")](): string {
    return describeModule(this);
  }
}

function isModule(value: unknown): value is AnyModule {
  return value instanceof Module;
}

function misfit(module: string, missing: string[], unexpected: string[]): string {
  const parts = [
    missing.length > 0 ? `missing are ${missing.join(", ")}` : "",
    unexpected.length > 0 ? `not known are ${unexpected.join(", ")}` : "",
  ].filter((part) => part !== "");
  return `Cannot load the state of ${module}: ${parts.join("; ")}. ` +
    `Pass { strict: false } to load what fits`;
}

function mismatch(
  module: string,
  wrong: readonly { name: string; tensor: Tensor; value: Tensor }[],
): string {
  const list = wrong.map(({ name, tensor, value }) =>
    `${name} is ${formatShape(tensor.shape)} and got ${formatShape(value.shape)}`
  );
  return `Cannot load the state of ${module}: ${list.join("; ")}`;
}
