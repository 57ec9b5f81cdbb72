/**
 * The base of everything that has parameters.
 *
 * This folder (`module/`) knows what a module is: members, names, states, initial values. It
 * imports `ops/`, `execution/` and `core/`, and no layer: those import it.
 */
import { type DeviceHandle, type DType, dtypes, isFloat } from "../../../backend/internal.ts";
import type { HookHandle } from "../../core/arguments.ts";
import { dtypeError } from "../../core/rules/errors.ts";
import { isTypeTarget } from "../../core/rules/supported_types.ts";
import { noGrad } from "../../core/modes/grad_mode.ts";
import type { Tensor } from "../../core/mod.ts";
import { type NamedMember, namedMembers } from "./members.ts";
import { addForwardHook } from "./forward_hooks.ts";
import { type Role, roleOf, withRole } from "./parameter.ts";
import { type LoadReport, loadState, stateEntries, type StateEntry } from "./state.ts";
import { describeModule } from "./summary.ts";
import { checkOptions, requireValue, type Rules, shown, takes } from "../../core/rules/options.ts";
import {
  become,
  disposeForGood,
  gradientOf,
  isTensor,
  replaceGradient,
} from "../../core/internals.ts";

/** A module whatever its `forward` takes and gives. */
// deno-lint-ignore no-explicit-any -- the inputs of a module are those of its own `forward`
export type AnyModule = Module<any[], unknown>;

/** The tensors of a module and all below it, where they are held. */
export let tensorMembers: (module: AnyModule) => NamedMember<Tensor>[];
/** Saved and loaded tensors of a module, each once. */
export let stateOfModule: (module: AnyModule) => StateEntry[];

const loadRules: Rules<{ strict?: boolean }> = { strict: takes.bool };

/**
 * A part of a model: parameters, and how they are used in `forward`.
 *
 * Whatever a module holds in its properties belongs to it: tensors that require a gradient (or were
 * made by {@linkcode parameter}) are parameters, those made by {@linkcode buffer} are buffers, modules
 * are its children; arrays, Maps, Sets and plain objects of these count too. A `#private` field is no
 * property, and hides what it holds: use TypeScript's `private` for what should learn.
 *
 * Names are the paths of properties as they are written (`blocks[0].lora_A` is `blocks.0.lora_A`), so
 * that a model of PyTorch's names loads its files. The layers here have PyTorch's names, too, whatever
 * their properties are called (`runningMean` is `running_mean`): see {@linkcode Module.stateName}. A
 * tensor that is held at several places, such as a tied weight, is one parameter, under the first of
 * its names.
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

  /** Computes the output. */
  abstract forward(...inputs: Inputs): Output;

  /**
   * The name that a property has in `stateDict`: as it is written. Classes whose files have other names
   * override this.
   *
   * @param property One of this module's own.
   * @returns Its name; "" for a collection whose entries stand by themselves.
   *
   * @example
   * ```ts
   * import { nn, Tensor } from "@netcl/netcl";
   * import { assertEquals } from "@std/assert";
   *
   * class Attention extends nn.Module {
   *   queries = new nn.Linear(4, 4, { bias: false });
   *   protected override stateName(property: string): string {
   *     return property === "queries" ? "q_proj" : super.stateName(property);
   *   }
   *   forward(x: Tensor): Tensor {
   *     return this.queries.forward(x);
   *   }
   * }
   * assertEquals(Object.keys(new Attention().stateDict()), ["q_proj.weight"]);
   * ```
   */
  protected stateName(property: string): string {
    return property;
  }

  /** The modules that this one holds, by name. */
  children(): [string, AnyModule][] {
    return this.#members(isModule).map(({ name, value }) => [name, value]);
  }

  /** This module and all below it, each once. */
  modules(): AnyModule[] {
    const found = new Set<AnyModule>();
    const visit = (module: AnyModule): void => {
      if (found.has(module)) return;
      found.add(module);
      for (const [, child] of module.children()) visit(child);
    };
    visit(this);
    return [...found];
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
    requireValue("apply to modules", "fn", fn, takes.callback);
    const visited = new Set<AnyModule>();
    const visit = (module: AnyModule): void => {
      if (visited.has(module)) return;
      visited.add(module);
      for (const [, child] of module.children()) visit(child);
      fn(module);
    };
    visit(this);
    return this;
  }

  /**
   * Has a function called with every output of `forward`; what it returns takes the output's place.
   *
   * @param hook Gets this module, the inputs and the output.
   * @returns Takes the hook away: by `remove()`, or at the end of a block with `using`.
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
  ): HookHandle {
    requireValue("register a forward hook", "hook", hook, takes.callback);
    return addForwardHook(this, hook);
  }

  static {
    tensorMembers = (module) => module.modules().flatMap((each) => each.#members(isTensor));
    stateOfModule = (module) => module.#state();
  }

  /** Members of this module itself. */
  #members<T>(is: (value: unknown) => value is T): NamedMember<T>[] {
    return namedMembers<T>(this, is, (property) => this.stateName(property));
  }

  /** The tensors of this module and all below it, its own before its children's. */
  *#tensors(prefix = "", outer: readonly AnyModule[] = []): Generator<[string, Tensor]> {
    if (outer.includes(this)) return;
    for (const { name, value } of this.#members(isTensor)) yield [prefix + name, value];
    for (const [name, child] of this.children()) {
      yield* child.#tensors(`${prefix}${name}.`, [...outer, this]);
    }
  }

  /** Tensors of some roles, each once with all its names. */
  #entries(...roles: readonly Role[]): StateEntry[] {
    const named = [...this.#tensors()].filter(([, tensor]) => {
      const role = roleOf(tensor);
      return role !== null && roles.includes(role);
    });
    return stateEntries(named);
  }

  #named(role: Role): [string, Tensor][] {
    return this.#entries(role).map(({ names, tensor }) => [names[0]!, tensor]);
  }

  /** Learned tensors, each once. */
  parameters(): Tensor[] {
    return this.namedParameters().map(([, tensor]) => tensor);
  }

  /** Learned tensors, with names as in `stateDict`. */
  namedParameters(): [string, Tensor][] {
    return this.#named("parameter");
  }

  /** State that is not learned, with names as in `stateDict`. */
  namedBuffers(): [string, Tensor][] {
    return this.#named("buffer");
  }

  #state(): StateEntry[] {
    return this.#entries("parameter", "buffer");
  }

  /**
   * The values of all parameters and buffers, each once, under PyTorch's names and in its layouts. What
   * is returned keeps these values while the module goes on learning, however often it is loaded.
   *
   * @throws {TypeError} When two tensors have the same name.
   */
  stateDict(): Record<string, Tensor> {
    return Object.fromEntries(
      this.#state().map(({ names, tensor }) => [names[0]!, tensor.realize().detach()]),
    );
  }

  /**
   * Gives the parameters and buffers the values of a state, converted to their types and devices. A
   * tied weight takes its value under any of its names.
   *
   * @param state Values by name, as `stateDict` or `loadSafetensors` returns them.
   * @param options `strict: false` leaves alone what is missing, and ignores what is not known.
   * @returns The names that did not fit; none with `strict`, which is the default.
   * @throws {RangeError} When names are missing or not known; nothing is changed then.
   * @throws {ShapeError} When a shape differs; nothing is changed then.
   */
  loadStateDict(
    state: Readonly<Record<string, Tensor>>,
    options: { strict?: boolean } = {},
  ): LoadReport {
    checkOptions("load a state", options, loadRules);
    const { strict = true } = options, remedy = "Pass { strict: false } to load what fits";
    return loadState(this.constructor.name, this.#state(), state, strict ? remedy : null);
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
   * @param value True (the default) to learn, false to freeze.
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
   * Moves all parameters and buffers to a device, or casts those of floating point, with their gradients.
   * They stay the same tensors: an optimizer that was made before goes on with them.
   *
   * @param target A selection string or handle, or an element type, as {@linkcode Module.cast} takes it.
   * @returns This module.
   */
  to(target: string | DeviceHandle): this {
    if (isTypeTarget(target)) return this.cast(target);
    return this.#changeAll((tensor) => tensor.to(target));
  }

  /** Casts all parameters and buffers of floating point to float16; see {@linkcode Module.cast}. */
  half(): this {
    return this.cast("float16");
  }

  /**
   * Casts all parameters and buffers of floating point, with their gradients. They stay the same tensors:
   * an optimizer that was made before goes on with them.
   *
   * @param dtype "float16", "bfloat16", "float32" or "float64".
   * @returns This module.
   * @throws {DTypeError} When it is no type of floating point.
   */
  cast(dtype: DType): this {
    if (typeof dtype !== "string" || !Object.hasOwn(dtypes, dtype) || !isFloat(dtype)) {
      throw dtypeError("to")`
        Cannot cast ${this.constructor.name} to ${shown(dtype)}: pass "float16", "bfloat16",
        "float32" or "float64"`;
    }
    return this.#changeAll((tensor) => isFloat(tensor.dtype) ? tensor.cast(dtype) : tensor);
  }

  /** Gives every tensor that has a role another value, type or device. */
  #changeAll(change: (tensor: Tensor) => Tensor): this {
    const tensors = new Set([...this.#tensors()].map(([, tensor]) => tensor));
    const held = [...tensors].filter((tensor) => roleOf(tensor) !== null);
    const changed = noGrad(() => held.map((tensor) => [tensor, change(tensor).realize()] as const));
    for (const [tensor, other] of changed) {
      if (other === tensor) continue;
      const gradient = gradientOf(tensor);
      const moved = gradient && noGrad(() => change(gradient).realize());
      if (moved !== gradient) replaceGradient(tensor, moved);
      become(tensor, other);
    }
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

  /** Text for `console.log`. */
  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return describeModule(this);
  }
}

function isModule(value: unknown): value is AnyModule {
  return value instanceof Module;
}
