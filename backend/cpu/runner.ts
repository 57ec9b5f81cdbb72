/** What every engine of the built-in backend makes of a kernel. */
import type { TypedArray } from "../graph/dtype.ts";

/** A kernel that can run: only its buffers are missing. */
export interface Runner {
  /** What runs, for people to read. */
  readonly source: string;
  /** Computes the outputs from the inputs. */
  run(inputs: readonly TypedArray[], outputs: readonly TypedArray[]): void;
}
