/** Traces of what a function does, as they are written. */
import { profiler } from "../../../mod.ts";

/** An event of Google's trace event format, as far as it is written. */
export interface TraceEvent {
  readonly ph: string;
  readonly name: string;
  readonly cat?: string;
  readonly pid: number;
  readonly tid?: number;
  readonly ts?: number;
  readonly dur?: number;
  readonly id?: number;
  readonly bp?: string;
  readonly args?: Readonly<Record<string, unknown>>;
}

/** The file of a trace and its events; an error where the trace could not be ended well. */
export interface Traced {
  readonly bytes: Uint8Array;
  readonly events: readonly TraceEvent[];
  readonly error: unknown;
}

/** Traces a function. */
export async function traced(fn: () => void | Promise<void>): Promise<Traced> {
  const path = Deno.makeTempFileSync({ suffix: ".json" });
  let error: unknown;
  try {
    const trace = profiler.trace(path);
    await fn();
    try {
      trace[Symbol.dispose]();
    } catch (thrown) {
      error = thrown;
    }
    const bytes = Deno.readFileSync(path);
    return { bytes, events: JSON.parse(new TextDecoder().decode(bytes)).traceEvents, error };
  } finally {
    Deno.removeSync(path);
  }
}
