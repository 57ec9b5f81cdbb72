/**
 * One call of a compiled function. It is followed along the calls that were recorded: as long as the
 * function calls the same operations with the same numbers, on tensors of the same roles, each gives
 * stand-ins and nothing is computed. At the end the recorded launches are replayed. Where it calls
 * something else, the operations so far are called after all, in their order, and the call is recorded
 * from there on. So whatever a call depends on (modes, numbers, which tensors its variables hold) is
 * noticed where it matters, and nothing that the function does itself is left out or done twice.
 * The file is long because a call goes from one of these states to the next, and they share what they know.
 */
import { manager, record, type Recording, unrecorded } from "../../backend/internal.ts";
import { gradientOf, isTensor, setGradient, stateOf } from "../core/internals.ts";
import { inOrder, nextOrder, takeOrder } from "../core/tensor_state.ts";
import {
  type CallObserver,
  observeAssignments,
  observeCalls,
  observeGradients,
  type Operation,
  type OperationKind,
} from "../core/calls.ts";
import { callOperation } from "../core/operations.ts";
import { tensorsIn, withTensors } from "../core/nested.ts";
import { observeOffsets } from "../core/random_state.ts";
import { realizeAll } from "../execution/realization.ts";
import type { Tensor } from "../core/mod.ts";
import { GradientWatch } from "./gradient_watch.ts";
import type { CallEffects } from "./replay.ts";
import {
  areFit,
  fits,
  isLike,
  type Output,
  patternOf,
  type Places,
  type Ref,
  valueOf,
} from "./patterns.ts";
import type { Recorded, RecordedProgram } from "./program.ts";
import { Roles } from "./roles.ts";
import { becomeReal, isStandIn, openResult, realOf } from "./stand_in.ts";
import {
  inMode,
  isInMode,
  pairs,
  type Root,
  type Step,
  stepOf,
  type Touch,
  written,
} from "./steps.ts";

/** Course of a call: along a program, or recorded anew, or in a way that cannot be replayed. */
export type Outcome<R> =
  | { readonly kind: "followed"; readonly value: R; readonly program: RecordedProgram }
  | { readonly kind: "recorded"; readonly value: R; readonly recorded: Recorded }
  | {
    readonly kind: "plain";
    readonly value: R;
    readonly isPassing: boolean;
    /** Cause of the first of its parts that cannot be replayed. */
    readonly reason: string;
  };

/** A call of a compiled function while it runs. */
export class Trace implements CallObserver, CallEffects {
  isFollowing = true;
  /** Role of each tensor. */
  readonly roles: Roles;
  /** Effects on gradients. */
  readonly gradients: GradientWatch;
  /** The place in the recorded calls, and the way there. */
  #at: { readonly children: Step[] };
  readonly #path: Step[] = [];
  /** For each step that was followed: where its tensors belong among those that were made. */
  readonly #orders: number[] = [];
  /** Place of the next recorded steps, and number of steps before. */
  #junction: { readonly children: Step[] };
  #known = 0;
  readonly #assigned = new Set<Tensor>();
  /** Disposals due at the end of the replay. */
  readonly #disposals: Tensor[] = [];
  readonly #writes: (() => void)[] = [];
  /** Tensors of numbers that were changed after they were used. */
  readonly #written = new Set<Tensor>();
  readonly #offsets: { value: number }[] = [];
  /** Not to be replayed: this call alone, or none of its kind. */
  #givenUp: "once" | "always" | null = null;
  #reason = "";

  readonly #places: Places;

  /** A call with these tensors among its arguments, of a function with these places. */
  constructor(root: Root, given: readonly Tensor[], places: Places) {
    this.#places = places;
    this.#at = this.#junction = root;
    this.roles = new Roles(root.arguments, given, (reason) => this.giveUp(reason));
    this.gradients = new GradientWatch(this.roles);
  }

  /**
   * Runs the function; `isReplayable` has the last word on a program, which keeps what follows from weights alone
   * where it `mayKeep` that, and learns nothing.
   */
  run<R>(
    fn: () => R,
    isReplayable: (program: RecordedProgram) => boolean,
    mayKeep: boolean,
  ): { outcome: Outcome<R>; recording: Recording } {
    const { result: outcome, recording } = record(() =>
      observeOffsets(
        (offset) => this.#offsets.push(offset),
        () =>
          observeAssignments(
            (tensor) => this.#assigned.add(tensor),
            () =>
              observeGradients(
                (leaf, now, next) => this.gradients.note(leaf, now, next),
                () => this.#finish(this.#called(fn), isReplayable),
              ),
          ),
      ), () => mayKeep && this.#isInference());
    return { outcome, recording };
  }

  /** True where nothing that was called so far learns: the next call has the same weights. */
  #isInference(): boolean {
    return this.#assigned.size === 0 &&
      this.#path.every(({ outputs }) => outputs.every(({ requiresGrad }) => !requiresGrad));
  }

  #called<R>(fn: () => R): R {
    try {
      return observeCalls(this, fn);
    } catch (error) {
      // What the function did before it threw is done.
      if (this.isFollowing) this.#materialize();
      throw error;
    }
  }

  // ---- what is observed

  call(kind: OperationKind, fn: Operation, self: unknown, args: readonly unknown[]): unknown {
    if (kind === "read") {
      throw new Error(
        "Cannot read a value inside a compiled function: return the tensor and read it outside",
      );
    }
    if (this.isFollowing) {
      if (kind === "realize") return self;
      if (kind === "dispose") return this.#dispose(self as Tensor, fn);
      const leaf = kind === "leaf" ? observeCalls(null, () => fn.apply(self, [...args])) : null;
      const step = this.#find(fn, self, args, leaf as Tensor | null);
      if (step) return this.#pretend(step, self, args, leaf as Tensor | null);
      this.#materialize();
    }
    self = this.resolved(self), args = this.resolved(args);
    if (kind === "realize" || kind === "dispose" || this.#givenUp !== null) {
      return observeCalls(null, () => callOperation(kind, fn, self, [...args]));
    }
    return this.#record(kind, fn, self, args);
  }

  look(tensor: object): void {
    if (!this.isFollowing) return;
    const isOpen = openResult(tensor as Tensor) !== null;
    if (isOpen || this.#assigned.has(tensor as Tensor)) this.#materialize();
  }

  write(holder: object, tensors: readonly object[], fn: () => void): void {
    const change = () => observeCalls(null, () => unrecorded(() => this.#unobserved(fn)));
    // Kernels that were launched already have read the number; those of a replay have not.
    const isUsed = this.#path.some(({ kind }) => kind === "step") ||
      tensors.some((tensor) => this.roles.refOf(tensor as Tensor) !== undefined);
    if (!isUsed) return change();
    if (this.isFollowing) {
      const step = this.#find(written, holder, [], null);
      if (step) {
        this.#follow(step);
        this.#writes.push(change);
        return;
      }
      this.#materialize();
    }
    for (const tensor of tensors) this.#written.add(tensor as Tensor);
    change();
    this.#path.push(stepOf({ fn: written, kind: "set", self: { kind: "value", value: holder } }));
  }

  giveUp(reason: string, isPassing = false): void {
    if (this.isFollowing) this.#materialize();
    this.#reason ||= reason;
    this.#givenUp = isPassing ? this.#givenUp ?? "once" : "always";
  }

  resolved<T>(value: T): T {
    if (this.isFollowing) return value;
    const tensors = tensorsIn(value);
    if (!tensors.some(isStandIn)) return value;
    let at = 0;
    return withTensors(value, () => realOf(tensors[at++]!)) as T;
  }

  #unobserved(fn: () => void): void {
    const before = new Set(this.#assigned);
    fn();
    for (const tensor of this.#assigned) if (!before.has(tensor)) this.#assigned.delete(tensor);
  }

  // ---- following

  #find(
    fn: Operation | null,
    self: unknown,
    args: readonly unknown[],
    leaf: Tensor | null,
    isGood: ((step: Step) => boolean) | null = null,
  ): Step | null {
    const { children } = this.#at;
    for (let k = 0; k < children.length; k++) {
      const step = children[k]!;
      if (step.fn !== fn || step.args.length !== args.length || !isInMode(step)) continue;
      this.roles.try();
      const isFit = this.#isStep(step, self, args, leaf);
      if (isFit && (isGood === null || isGood(step))) return step;
      this.roles.takeBack();
    }
    return null;
  }

  #isStep(step: Step, self: unknown, args: readonly unknown[], leaf: Tensor | null): boolean {
    if (leaf !== null) {
      return isLike(leaf, step.outputs[0]!) && leaf.requiresGrad === step.outputs[0]!.requiresGrad;
    }
    const { has } = this.roles;
    if (!fits(step.self, self, has) || !areFit(step.args, args, has)) return false;
    for (const touch of step.touches) if (!this.#finds(touch)) return false;
    return true;
  }

  /** True where the gradient of a leaf is there, or is not, and has hooks, as the operation found it. */
  #finds({ leaf, before, isHooked }: Touch): boolean {
    const { has } = this.roles;
    if (leaf.kind === "captured" && !(leaf.only !== null && has(leaf, leaf.only))) return false;
    const { grad } = stateOf(leaf.tensor!);
    if (hasHooks(leaf.tensor!) !== isHooked) return false;
    return grad === null ? before === null : before !== null && has(before, grad);
  }

  #follow(step: Step): void {
    this.#at = step;
    this.#path.push(step);
    this.#orders.push(takeOrder());
  }

  /** Gives what the operation would give, without a value. */
  #pretend(
    step: Step,
    self: unknown,
    args: readonly unknown[],
    leaf: Tensor | null,
  ): unknown {
    this.#follow(step);
    if (leaf !== null) {
      this.roles.bindLeaf(step.outputs[0]!, leaf);
      return leaf;
    }
    for (const output of step.outputs) this.roles.bindStandIn(output);
    for (const { leaf, before, after } of step.touches) {
      if (before === after) continue;
      const tensor = leaf.tensor!, former = stateOf(tensor).grad;
      setGradient(tensor, after && after.tensor!);
      if (former !== null && !isStandIn(former) && !stateOf(former).isShared) {
        this.#disposals.push(former);
      }
    }
    for (const to of step.assigned) {
      this.#assigned.add(isTensor(to) ? to : to.tensor!);
    }
    if (step.kind === "set" || step.kind === "hook") {
      observeCalls(null, () => step.fn!.apply(self, [...args]));
    }
    return valueOf(step.result);
  }

  /** Disposes of a tensor after the replay. */
  #dispose(tensor: Tensor, dispose: Operation): void {
    if (openResult(tensor) !== null) return;
    if (this.roles.refOf(tensor)) this.#disposals.push(tensor);
    else observeCalls(null, () => dispose(tensor));
  }

  /** Calls the operations that were only followed so far; stand-ins get their tensors. */
  #materialize(): void {
    this.isFollowing = false;
    this.#junction = this.#at;
    this.#known = this.#path.length;
    observeCalls(null, () => {
      this.roles.noteBlocks();
      const left = this.gradients.leaves.map((leaf) => [leaf, gradientOf(leaf)] as const);
      this.#assigned.clear();
      const writes = this.#writes.splice(0);
      this.#withdrawHooks();
      this.#path.forEach((step, k) => {
        if (step.fn === written) writes.shift()!();
        else if (!this.roles.isLeaf(step.outputs[0])) {
          inOrder(this.#orders[k]!, () => this.#repeat(step));
        }
      });
      for (const [leaf, gradient] of left) setGradient(leaf, gradient && realOf(gradient));
      for (const tensor of this.#disposals.splice(0)) tensor.dispose();
    });
  }

  /** Hooks are counted as they were when the call began: its steps count them again. */
  #withdrawHooks(): void {
    for (const { kind, fn, self, args } of this.#path) {
      if (kind === "hook") fn!(valueOf(self), -Number(valueOf(args[1]!)));
    }
  }

  #repeat(step: Step): void {
    for (const { leaf, before } of step.touches) {
      setGradient(leaf.tensor!, before && before.tensor!);
    }
    const self = valueOf(step.self), args = step.args.map(valueOf);
    const give = (ref: Ref, tensor: Tensor): void => {
      const standIn = ref.tensor!;
      if (!isStandIn(standIn)) return;
      becomeReal(standIn, tensor);
      this.roles.bind(ref, tensor);
    };
    pairs(step.result, inMode(step, () => callOperation(step.kind, step.fn!, self, args)), give);
    for (const { leaf, after } of step.touches) {
      const grad = gradientOf(leaf.tensor!);
      if (after && grad) give(after, grad);
    }
  }

  // ---- recording

  #record(kind: OperationKind, fn: Operation, self: unknown, args: readonly unknown[]): unknown {
    if (kind === "step" && this.#written.size > 0) {
      this.giveUp("it changes numbers, such as a learning rate, between two steps");
    }
    const call = {
      fn,
      kind,
      self: patternOf(self, this.#roleOf),
      args: args.map((arg) => patternOf(arg, this.#roleOf)),
      device: tensorsIn([self, args]).length === 0 ? manager.active : null,
    };
    const formerly = new Set(this.#assigned), outputs: Output[] = [];
    // A walk shows what operations have made on their way, before it or in its former parts.
    const from = kind === "walk" ? this.roles.start : nextOrder();
    const { result, before } = this.gradients.during(() =>
      observeCalls(null, () => callOperation(kind, fn, self, [...args]))
    );
    const role = (tensor: Tensor): Ref => this.roles.resultOf(tensor, from, outputs);
    const pattern = patternOf(result, role);
    const touches = [...before].map(([leaf, grad]): Touch => {
      const after = gradientOf(leaf);
      const isHooked = hasHooks(leaf);
      return {
        leaf: role(leaf),
        before: grad && role(grad),
        after: after && role(after),
        isHooked,
      };
    });
    for (const leaf of before.keys()) this.roles.fix(leaf);
    const assigned = [...this.#assigned]
      .filter((tensor) =>
        stateOf(tensor).order < this.roles.start && (tensor === self || !formerly.has(tensor))
      )
      .map((tensor) => this.roles.refOf(tensor) ?? tensor);
    if (kind === "leaf") {
      this.roles.bindLeaf(outputs[0]!, result as Tensor);
      this.roles.noteBlock(outputs[0]!, result as Tensor);
    }
    this.#path.push(stepOf({ ...call, result: pattern, outputs, touches, assigned }));
    return result;
  }

  readonly #roleOf = (tensor: Tensor): Ref => {
    if (this.#written.has(tensor)) {
      this.giveUp("it uses numbers, such as a learning rate, after it changed them");
    }
    return this.roles.roleOf(tensor);
  };

  // ---- the end

  #finish<R>(value: R, isReplayable: (program: RecordedProgram) => boolean): Outcome<R> {
    this.gradients.dropUsed(this.#assigned);
    if (this.isFollowing) {
      const isGood = ({ program }: Step) => program !== null && isReplayable(program);
      const end = this.#find(null, value, [this.gradients.left()], null, isGood);
      if (end) return { kind: "followed", value, program: end.program! };
      this.#materialize();
    }
    value = this.resolved(value);
    this.gradients.makeReal();
    this.gradients.dropUsed(this.#assigned);
    // What it returns may be what cannot be replayed.
    const recorded = this.#givenUp === null ? this.#recorded(value) : null;
    if (recorded === null || this.#givenUp !== null) {
      return { kind: "plain", value, isPassing: this.#givenUp === "once", reason: this.#reason };
    }
    return { kind: "recorded", value, recorded };
  }

  #recorded(value: unknown): Recorded {
    const results = tensorsIn(value), gradients = this.gradients.left();
    const left = gradients.map(([, gradient]) => gradient);
    const assigned = [...this.#assigned]
      .filter((tensor) => !tensor.disposed && stateOf(tensor).order < this.roles.start);
    const { carried, inner } = this.#innerOutputs([...results, ...assigned, ...left]);
    realizeAll([...results, ...assigned, ...left, ...carried.map(({ tensor }) => tensor)]);
    const self = patternOf(value, this.#roleOf), args = [patternOf(gradients, this.#roleOf)];
    this.#path.push(stepOf({ fn: null, kind: "set", self, args }));
    for (const tensor of [...assigned, ...this.gradients.leaves]) this.roles.fix(tensor);
    return { results, assigned, gradients, carried, inner, offsets: this.#offsets };
  }

  /**
   * Outputs beside the given ones: those used after a former call, which later calls give their
   * value, and the rest, which they do not.
   */
  #innerOutputs(given: readonly Tensor[]): Pick<Recorded, "carried" | "inner"> {
    const isGiven = new Set(given);
    this.#place();
    const found = this.#path.flatMap(({ outputs }) => outputs)
      .filter((ref) => ref.tensor !== null && !this.roles.isLeaf(ref))
      .map((ref) => ({ ref, tensor: realOf(ref.tensor!) }))
      .filter(({ tensor }) => !tensor.disposed && !isGiven.has(tensor));
    return {
      carried: found.filter(({ ref }) => ref.place!.isCarried),
      inner: found.filter(({ ref }) => !ref.place!.isCarried),
    };
  }

  /** Gives outputs their places: what is carried from one call is in all that make it. */
  #place(): void {
    const turns = new Map<Operation, number>();
    for (const { fn, outputs } of this.#path) {
      if (fn === null) continue;
      const turn = turns.get(fn) ?? 0;
      turns.set(fn, turn + 1);
      outputs.forEach((ref, k) => ref.place = this.#places.at(fn, turn, k));
    }
  }

  /** Adds what was recorded to the calls that are known; returns the end. */
  addTo(program: RecordedProgram): Step {
    let at = this.#junction;
    for (const step of this.#path.slice(this.#known)) {
      at.children.push(step);
      at = step;
    }
    const end = this.#path.at(-1)!;
    end.program = program;
    return end;
  }

  /** True where the call computed and assigned from what it was given, and did nothing else. */
  get isPure(): boolean {
    return this.gradients.leaves.length === 0 &&
      this.#path.every(({ fn, kind }) => fn === null || kind === "compute" || kind === "assign");
  }

  left(): readonly (readonly [leaf: Tensor, gradient: Tensor])[] {
    return this.gradients.left();
  }

  restore(): void {
    this.gradients.restore();
  }

  /** After a replay: what had to wait for it. */
  applyDeferred(): void {
    for (const change of this.#writes) change();
    for (const tensor of this.#disposals) tensor.dispose();
  }
}

/** True where `backward` stops at a tensor. */
function hasHooks(tensor: Tensor): boolean {
  return (stateOf(tensor).hooks?.count ?? 0) > 0;
}
