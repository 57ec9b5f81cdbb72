/**
 * The baseline tier: kernels of a backend that compiles slowly, computed on the host until its own
 * kernel is compiled. The backend that has them hands in how bytes get to the host and back.
 */
import type { LentMemory } from "../../memory/mod.ts";
import type { Block, HostCopy } from "./backend.ts";
import type { Launchable } from "../kernel/kernel.ts";

/** Access of the baseline tier to the blocks of the backend it serves. */
export interface BlockAccess {
  /** Waits for everything enqueued so far, and for uploads to these blocks. */
  waitFor(blocks: readonly Block[]): void;
  /** The lent memory that a block's buffer lies in; undefined where it lies elsewhere. */
  arrayOf(block: Block): Uint8Array<ArrayBuffer> | undefined;
  /** Copies blocks that were waited for to the host. */
  read(copies: readonly HostCopy[]): void;
  /** Copies from the host, which may change its bytes when this returns. */
  write(copies: readonly HostCopy[]): void;
}

/** A kernel that can run on the host. */
export interface BaselineKernel {
  /** Computes the outputs from the inputs; blocks behind the outputs are scratch of the other tier. */
  run(inputs: readonly Block[], outputs: readonly Block[], access: BlockAccess): void;
}

/** Makes kernels of the baseline tier, and lends memory that they compute in: such blocks need no copies. */
export interface BaselineKernels extends LentMemory {
  /** The kernel on the host; null where to wait for the compiler takes less time. */
  kernel(kernel: Launchable): BaselineKernel | null;
  /** The first index out of range since the last call. */
  takeError(): RangeError | null;
}
