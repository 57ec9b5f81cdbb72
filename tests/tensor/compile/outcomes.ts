/** Outcomes of calls of compiled functions: recorded, followed by a replay, or plain. */
import { Trace } from "../../../tensor/compile/trace.ts";

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
