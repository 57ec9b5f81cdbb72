/**
 * A walk of `backward` in parts: hooks and gradients of the program run between them, outside of the walk's
 * modes, and operations that they call are the program's own. So `compile` follows the parts and these functions
 * like everything else that a function does: each runs in every call.
 */
import { withoutAutocast } from "../core/autocast.ts";
import { distinct } from "../core/apply.ts";
import { guardValues } from "../core/internals.ts";
import { recording } from "../core/modes/grad_mode.ts";
import { calledByUser } from "../core/modes/temporaries.ts";
import { compute, observedCall } from "../core/operations.ts";
import { stateOf } from "../core/internals.ts";
import { hookedGradient } from "./gradient_hooks.ts";
import type { Question, Stop } from "./reverse_walk.ts";

/** A walk that stops where a gradient has hooks, or is computed by the program. */
export interface HookedWalk<R> {
  /** Goes on to the next stop, with what the program gave at the last; null at the end. */
  run(answer: unknown): Stop | Question | null;
  /** Result of the walk, at its end. */
  finish(): R;
  /** Lets go of all that it holds, also where it is given up. */
  end(): void;
}

/** A part of a walk went to a stop, or to the end. */
type Part<R> = Stop | Question | { readonly result: R };

/** Walks that have stopped, by how many others they run in: hooks may go backward, too. */
const stopped: (HookedWalk<unknown> | undefined)[] = [];
let depth = 0;

/** Begins a walk; the first argument says in how many others it runs. */
export type BeginWalk<A extends unknown[], R> = (at: number, ...args: A) => Part<R>;

/** Runs a walk, and the hooks on its way; `begin` is the same function in every call. */
export function walkWithHooks<A extends unknown[], R>(
  begin: BeginWalk<A, R>,
  args: A,
  createGraph: boolean,
): R {
  const at = depth++;
  let isStopped = false;
  const part = (fn: typeof begin | typeof goOn, ...args: unknown[]): Part<R> => {
    isStopped = false;
    const found = observedCall("walk", fn, undefined, [at, ...args]) as Part<R>;
    isStopped = !("result" in found);
    return found;
  };
  try {
    let found = part(begin, ...args);
    while (!("result" in found)) found = part(goOn, answerTo(found, createGraph));
    return found.result;
  } finally {
    depth--;
    // A hook threw.
    if (isStopped) observedCall("walk", giveUp, undefined, [at]);
  }
}

/** The program's answer at a stop, computed as `backward` would: recorded only where gradients are. */
export function answerTo(stop: Stop | Question, createGraph: boolean): unknown {
  if (!("ask" in stop)) return hookedGradient(stop.tensor, stop.gradient, createGraph);
  const { name, ask, gradients, inputs, results, changed } = stop;
  const call = (): unknown =>
    calledByUser(() => {
      // The program may keep what it gets.
      const given = gradients.map((gradient) => compute(distinct, "gradient", gradient));
      return ask(given, [...inputs], [...results]);
    });
  return recording(
    createGraph,
    () =>
      withoutAutocast(() =>
        changed.length === 0 ? call() : guardValues(new Set(changed), name, call)
      ),
  );
}

/** The first part of a walk. */
export function beginWalk<R>(at: number, walk: HookedWalk<R>): Part<R> {
  stopped[at] = walk;
  return goOn(at, null) as Part<R>;
}

function goOn(at: number, answer: unknown): Part<unknown> {
  const walk = stopped[at]!;
  stopped[at] = undefined;
  try {
    const stop = walk.run(answer);
    if (stop === null) return { result: walk.finish() };
    stopped[at] = walk;
    return "ask" in stop ? stop : shown(stop);
  } finally {
    if (stopped[at] === undefined) walk.end();
  }
}

function giveUp(at: number): void {
  stopped[at]?.end();
  stopped[at] = undefined;
}

/** The stop at the tensor that the program has, where `compile` has to know it again. */
function shown({ tensor, gradient }: Stop): Stop {
  const registered = stateOf(tensor).hooks!.tensor ?? tensor;
  return { tensor: stateOf(registered).original ?? registered, gradient };
}
