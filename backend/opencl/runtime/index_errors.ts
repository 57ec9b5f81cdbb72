/** Indices out of range: kernels note the first one in a buffer, and the next read from the device reports it. */
import { Buffer, type Context } from "../../../ffi/mod.ts";
import { indexError } from "../../graph/index_error.ts";
import { opName } from "../../graph/index_error.ts";
import type { Copy, Transfers } from "../transfers/transfers.ts";
import { ERROR_BYTES } from "./kernel_arguments.ts";

const WORDS = ERROR_BYTES / 8;

/** Part of the buffer that was read along with other bytes. */
export interface FoundIndices {
  readonly copy: Copy;
  readonly words: BigInt64Array<ArrayBuffer>;
}

/** The buffer of one backend, made with the first kernel that checks indices. */
export class IndexErrors {
  readonly #context: Context;
  readonly #transfers: Transfers;
  #buffer: Buffer | null = null;
  /** A kernel that checks indices was enqueued since the last look. */
  #mayHaveErrors = false;

  constructor(context: Context, transfers: Transfers) {
    this.#context = context;
    this.#transfers = transfers;
  }

  /** The buffer as an argument of a kernel that is about to run. */
  forKernel(): Buffer {
    this.#mayHaveErrors = true;
    if (this.#buffer) return this.#buffer;
    this.#buffer = new Buffer(this.#context, ERROR_BYTES);
    this.#clear();
    return this.#buffer;
  }

  #clear(): void {
    this.#transfers.write(this.#buffer!, 0, new Uint8Array(ERROR_BYTES));
  }

  /** Bytes that a read must copy as well; null: no kernel checked indices since the last. */
  look(): FoundIndices | null {
    if (!this.#mayHaveErrors) return null;
    const words = new BigInt64Array(WORDS);
    return {
      copy: { buffer: this.#buffer!, offset: 0, into: new Uint8Array(words.buffer) },
      words,
    };
  }

  /**
   * Reports what was found, once.
   *
   * @throws {RangeError} With the operation, the index and its bound.
   */
  check(found: FoundIndices | null): void {
    if (found === null) return;
    this.#mayHaveErrors = false;
    const [code, index, bound] = found.words;
    if (code === 0n) return;
    this.#clear();
    throw indexError(opName(Number(code)), Number(index), Number(bound));
  }

  release(): void {
    this.#buffer?.release();
    this.#buffer = null;
  }
}
