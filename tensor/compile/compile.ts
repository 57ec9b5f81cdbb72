/**
 * Compiled functions: the launches of one call, replayed for later ones.
 *
 * This folder (`compile/`) imports `execution/`, `core/` and recordings of `backend/`. Calls of
 * operations come in by `core/calls.ts`; recorded launches go to `backend/execution/` again and
 * again.
 */
import { finalizer, type Recording } from "../../backend/internal.ts";
import { checkOptions, type Rules, shown, takes } from "../core/rules/options.ts";
import { isObserved, isTransforming } from "../core/calls.ts";
import { ArgumentSignature } from "./argument_signature.ts";
import { GivenValues } from "./given_values.ts";
import { programOf, type RecordedProgram, releaseProgram } from "./program.ts";
import { RepeatedCall } from "./repeated_call.ts";
import { cutOff, isReplayable, replay } from "./replay.ts";
import { Places } from "./patterns.ts";
import { isComputed } from "./roles.ts";
import type { Root, Step } from "./steps.ts";
import { type Outcome, Trace } from "./trace.ts";
import { isAnomalyEnabled, isGradEnabled } from "../core/modes/grad_mode.ts";
import { tensorsIn } from "../core/nested.ts";
import { realizePending } from "../execution/realization.ts";
import { stateOf } from "../core/internals.ts";
import type { Tensor } from "../core/mod.ts";

/** The most recorded calls that a compiled function keeps. */
const MAX_PROGRAMS = 64;
/** Programs that may keep what follows from weights alone: each has memory of its own for it. */
const MAX_KEEPING = 4;
/** After so many recordings in a row that no call could use, calls run as they are written ... */
const MAX_USELESS = 6;
/** ... so often, before recording is tried again. */
const PLAIN_CALLS = 100;

/** Settings of {@linkcode compile}. */
export interface CompileOptions {
  /**
   * Called where a call runs as it is written, and later ones may, with the reason, each of which it is given
   * once: `console.warn` shows why a step is no faster than without `compile`. Default: nothing.
   */
  readonly onFallback?: (reason: string) => void;
}

const compileRules: Rules<CompileOptions> = { onFallback: takes.callback };

/** Facts about calls with arguments of one kind. */
interface Kind extends Root {
  readonly children: Step[];
  /** Properties of tensor arguments. */
  readonly signature: ArgumentSignature;
  /** Calls since the last replay that tried to be one. */
  useless: number;
  /** Calls that run as they are written before the next recording; Infinity where none helps. */
  plain: number;
}

/**
 * Makes a function that records what a call launches and replays it in later calls: no graph is built,
 * nothing is scheduled, and memory on the way is planned once.
 *
 * The function itself runs with every call, but its operations on tensors do nothing as long as they are
 * those of a recorded call: the same ones, with the same numbers, on tensors of the same shapes, types
 * and devices, in the same modes. Then the launches are replayed with the memory of the tensors that it
 * used now: arguments (also within arrays and plain objects), parameters, optimizer state, whatever its
 * variables hold. New random numbers are drawn. Where an operation is another one, because a module no
 * longer trains, a parameter is frozen, a number has changed, the call is computed as it is written and
 * recorded anew; so a call means what the function means, whatever has changed. A number that changes
 * with every call is better kept in a tensor, or passed as one.
 *
 * Gradients are left as the function leaves them, but for those of parameters that it clears and steps
 * itself: these are part of the step, and null after it. What the function returns has no graph:
 * `backward` belongs inside. Tensors that it makes and does not return, such as a state in a variable,
 * keep their values where those of a recorded call were used before the next call ended; else they have
 * none after a replay, and using them is an error that says so. It runs as it is written, always, where
 * it uses several devices, calls `func.vmap` (as Jacobians and Hessians do), goes backward to what was
 * computed outside of it, or is called within a function that `func` transforms.
 *
 * @param fn A function of tensors that reads no value; typically a training step.
 * @param options `onFallback` hears why calls run as they are written.
 * @returns The compiled function.
 * @throws {TypeError} When `fn` is no function, and for options that do not exist; from the call, when `fn` is
 *   asynchronous.
 * @throws {Error} From the call, when `fn` reads a value (`item`, `toHost`).
 *
 * @example
 * ```ts
 * import { compile, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const step = compile((x: Tensor) => x.mul(2).add(1).sum());
 * using x = Tensor.ones([100]);
 * for (let i = 0; i < 5; i++) {
 *   using y = step(x);
 *   assertEquals(await y.item(), 300);
 * }
 * ```
 */
export function compile<A extends unknown[], R>(
  fn: (...args: A) => R,
  options: CompileOptions = {},
): (...args: A) => R {
  checkOptions("compile a function", options, compileRules);
  return compiledWith(new CompiledCalls({ keepsLast: false, ...options }), fn);
}

/** A compiled function whose last call can be repeated. */
export interface Repeatable<A extends unknown[], R> extends Disposable {
  /** Calls the function, as one that `compile` made. */
  readonly call: (...args: A) => R;
  /**
   * Does what the last call did, with other arguments. The function does not run, so that a step costs its
   * launches: what it depends on beside its arguments is as it was then, but for the values of tensors.
   * Where the arguments are of another kind, or the call did more than compute and assign, it is called.
   */
  readonly again: (...args: A) => R;
}

/** Compiles a function that is called many times in a row in which only its arguments change. */
export function compileRepeatable<A extends unknown[], R>(
  fn: (...args: A) => R,
): Repeatable<A, R> {
  const calls = new CompiledCalls({ keepsLast: true }), call = compiledWith(calls, fn);
  return {
    call,
    again: (...args) => calls.again(args, () => call(...args)),
    [Symbol.dispose]: () => calls.forgetAll(),
  };
}

function compiledWith<A extends unknown[], R>(
  calls: CompiledCalls,
  fn: (...args: A) => R,
): (...args: A) => R {
  if (typeof fn !== "function") {
    throw new TypeError(`Cannot compile ${shown(fn)}: pass a function of tensors`);
  }
  const compiled = function (this: unknown, ...args: A): R {
    // A replay has no operations to name; and within another compiled function it is part of that.
    if (isAnomalyEnabled() || isObserved() || isTransforming()) return fn.apply(this, args);
    return calls.run(args, () => called(() => fn.apply(this, args), fn));
  };
  scratchOf.register(compiled, calls.programs);
  return compiled;
}

/** Gives back the memory of compiled functions that nobody can call any more. */
const scratchOf = finalizer<ReadonlyMap<RecordedProgram, Step>>(
  "a forgotten compiled function",
  (programs) => {
    for (const program of programs.keys()) releaseProgram(program);
  },
);

/** Calls a function that must be done when it returns. */
function called<R>(call: () => R, fn: object): R {
  const isAsync = Object.prototype.toString.call(fn) === "[object AsyncFunction]";
  const value = isAsync ? null : call();
  if (!isAsync && !(value instanceof Promise)) return value as R;
  // Whatever becomes of the promise: this is the error.
  (value as Promise<unknown> | null)?.catch(() => {});
  throw new TypeError(
    "Cannot compile an asynchronous function: what it does after an await is not part of the call; " +
      "await its inputs before, and read its results after the call",
  );
}

/** The calls of one compiled function. */
class CompiledCalls {
  /** With the steps that end in them; the last one was used last. */
  readonly programs = new Map<RecordedProgram, Step>();
  readonly #kinds = new Map<string, Kind>();
  /** Those of the last call. */
  #kind: Kind | null = null;
  #program: RecordedProgram | null = null;
  #isRunning = false;
  readonly #places = new Places();
  /** The last call, kept where calls may be asked for again. */
  readonly #keepsLast: boolean;
  #last: RepeatedCall | null = null;

  readonly #onFallback: CompileOptions["onFallback"];
  /** Reasons that `onFallback` has heard. */
  readonly #told = new Set<string>();

  constructor({ keepsLast, onFallback }: CompileOptions & { readonly keepsLast: boolean }) {
    this.#keepsLast = keepsLast;
    this.#onFallback = onFallback;
  }

  /** Repeats the last call; calls the function where that cannot be. */
  again<R>(args: readonly unknown[], call: () => R): R {
    const last = this.#last;
    if (last === null || this.#isRunning || isObserved() || isAnomalyEnabled()) return call();
    const given = tensorsIn(args);
    using _values = new GivenValues(given);
    realizePending();
    return last.fits(given) ? last.run(given) as R : call();
  }

  run<R>(args: readonly unknown[], fn: () => R): R {
    // Roles are those of one call at a time: a call within a call is part of it.
    if (this.#isRunning) return fn();
    const given = tensorsIn(args);
    if (isGradEnabled() && given.some(isComputed)) {
      this.#tell("gradients flow through it to what was computed outside");
      return fn();
    }
    using _values = new GivenValues(given);
    // What was assigned before is no part of the call.
    realizePending();
    const kind = this.#kindOf(given);
    if (kind.plain > 0) {
      kind.plain--;
      return fn();
    }
    const trace = new Trace(kind, given, this.#places);
    this.#last = null;
    this.#isRunning = true;
    try {
      return this.#trace(kind, trace, given, fn);
    } finally {
      this.#isRunning = false;
      trace.roles.end();
    }
  }

  #trace<R>(kind: Kind, trace: Trace, given: readonly Tensor[], fn: () => R): R {
    const { outcome, recording } = trace.run(fn, isReplayable, this.programs.size < MAX_KEEPING);
    try {
      return this.#taken(kind, trace, given, outcome, recording);
    } finally {
      recording.end();
    }
  }

  /** The results of a call that was followed or recorded; a program of what was recorded. */
  #taken<R>(
    kind: Kind,
    trace: Trace,
    given: readonly Tensor[],
    outcome: Outcome<R>,
    recording: Recording,
  ): R {
    const { value } = outcome;
    if (outcome.kind === "followed") {
      kind.useless = 0;
      this.#use(outcome.program);
      replay(outcome.program, trace, tensorsIn(value));
      this.#note(kind, trace, outcome.program);
      return value;
    }
    if (outcome.kind === "plain") {
      if (!outcome.isPassing) kind.plain = Infinity;
      else countUseless(kind);
      this.#tell(outcome.reason);
      return value;
    }
    const { results, assigned, gradients } = outcome.recorded;
    const device = (results[0] ?? given[0] ?? assigned[0] ?? gradients[0]?.[0])?.device;
    if (!device) {
      // Nothing would be different after a replay: what the function does is its own business.
      kind.plain = Infinity;
      return value;
    }
    const program = programOf(trace.roles, recording, outcome.recorded, device);
    this.#keep(kind, trace, program);
    this.#note(kind, trace, program);
    for (const { ref, tensor } of outcome.recorded.inner) {
      stateOf(tensor).markInner(ref.place!);
    }
    cutOff(results.filter((tensor) => trace.roles.isMade(tensor)));
    return value;
  }

  #tell(reason: string): void {
    if (this.#told.has(reason)) return;
    this.#told.add(reason);
    this.#onFallback?.(reason);
  }

  #kindOf(given: readonly Tensor[]): Kind {
    if (this.#kind?.signature.fits(given)) return this.#kind;
    const signature = new ArgumentSignature(given), { key } = signature;
    let kind = this.#kinds.get(key);
    if (!kind) {
      const roles = given.map((_, index) => ({ kind: "argument" as const, tensor: null, index }));
      kind = { arguments: roles, signature, children: [], useless: 0, plain: 0 };
      this.#kinds.set(key, kind);
    }
    return this.#kind = kind;
  }

  #note({ signature }: Kind, trace: Trace, program: RecordedProgram): void {
    if (!this.#keepsLast || !trace.isPure) return;
    this.#last = new RepeatedCall(signature, this.programs.get(program)!, program);
  }

  #use(program: RecordedProgram): void {
    if (program === this.#program) return;
    this.#program = program;
    const end = this.programs.get(program)!;
    this.programs.delete(program);
    this.programs.set(program, end);
  }

  #keep(kind: Kind, trace: Trace, program: RecordedProgram): void {
    this.programs.set(program, trace.addTo(program));
    this.#program = program;
    if (countUseless(kind)) {
      this.#tell(`${MAX_USELESS} calls in a row were other ones than those that were recorded`);
      // Each has memory of its own.
      this.#forget([...this.programs.keys()].slice(-MAX_USELESS));
    } else if (this.programs.size > MAX_PROGRAMS) {
      this.#forget([...this.programs.keys()].slice(0, 1));
    }
  }

  /** Gives the memory of all recorded calls back; the next one is recorded anew. */
  forgetAll(): void {
    this.#forget([...this.programs.keys()]);
  }

  #forget(programs: readonly RecordedProgram[]): void {
    this.#kind = this.#program = this.#last = null;
    for (const program of programs) {
      this.programs.get(program)!.program = null;
      this.programs.delete(program);
      releaseProgram(program);
    }
    for (const [key, { children, plain }] of this.#kinds) {
      prune(children);
      if (children.length === 0 && plain === 0) this.#kinds.delete(key);
    }
  }
}

/** Counts a call that was no replay; true where the next ones run as they are written. */
function countUseless(kind: Kind): boolean {
  if (++kind.useless < MAX_USELESS) return false;
  kind.useless = 0;
  kind.plain = PLAIN_CALLS;
  return true;
}

/** Takes steps away that lead to no program. */
function prune(steps: Step[]): void {
  for (const step of [...steps]) {
    prune(step.children);
    if (step.program !== null || step.children.length > 0) continue;
    steps.splice(steps.indexOf(step), 1);
  }
}
