/** Ways to call a function, and outcomes of calls of compiled ones: recorded, followed by a replay, or plain. */
import { Tensor } from "../../../mod.ts";
import { Trace } from "../../../tensor/compile/trace.ts";

/** Compiles a function, or leaves it as it is. */
export type Wrap = <A extends unknown[], R>(fn: (...args: A) => R) => (...args: A) => R;

/** A vector in device memory. */
export function stored(...values: number[]): Tensor {
  return Tensor.fromHost(values).add(0).realize();
}

/** The outcomes of the calls of compiled functions while `fn` ran. */
export function outcomesOf(fn: () => void): string[] {
  const outcomes: string[] = [], { run } = Trace.prototype;
  Trace.prototype.run = function <R>(this: Trace, ...args: Parameters<typeof run<R>>) {
    const found = run.apply(this, args);
    outcomes.push(found.outcome.kind);
    return found as ReturnType<typeof run<R>>;
  };
  try {
    fn();
  } finally {
    Trace.prototype.run = run;
  }
  return outcomes;
}
