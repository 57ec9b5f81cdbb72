import { host, type HostWorker } from "../core/rules/host.ts";
import type { Field } from "./dataset.ts";
import type { Answer, Request } from "./sample_worker.ts";

/** One worker, and what it has not answered yet. */
interface Reader {
  readonly worker: HostWorker;
  readonly open: Map<number, PromiseWithResolvers<Field[][]>>;
}

/** Threads that read samples, each from a dataset of its own. */
export class WorkerPool implements Disposable {
  readonly #module: URL;
  readonly #readers: Reader[];
  #requests = 0;
  /** The reason why nothing can be read any more. */
  #failure: Error | null = null;

  /**
   * Starts the workers.
   *
   * @param module Its default export is the dataset.
   * @param count How many.
   */
  constructor(module: URL, count: number) {
    this.#module = module;
    this.#readers = Array.from({ length: count }, () => this.#start());
  }

  #start(): Reader {
    const worker = host.startWorker(
      new URL("./sample_worker.ts", import.meta.url),
      (answer: Answer) => this.#take(reader, answer),
      (error) => this.#fail(this.#wrap("samples", error)),
    );
    const reader: Reader = { worker, open: new Map() };
    post(worker, { module: this.#module.href });
    return reader;
  }

  /**
   * Reads samples in the worker that has least to do.
   *
   * @param indices Which.
   * @returns The samples in that order.
   * @throws Error that names the sample that could not be read; its cause is what the dataset threw.
   */
  read(indices: readonly number[]): Promise<Field[][]> {
    if (this.#failure) return Promise.reject(this.#failure);
    const { worker, open } = this.#readers.reduce((a, b) => b.open.size < a.open.size ? b : a);
    const id = this.#requests++;
    const answer = Promise.withResolvers<Field[][]>();
    open.set(id, answer);
    post(worker, { id, indices });
    return answer.promise;
  }

  #take({ open }: Reader, { id, samples, what, error }: Answer): void {
    const answer = open.get(id);
    if (!answer) return; // told already that another worker failed
    open.delete(id);
    if (samples) answer.resolve(samples);
    else answer.reject(this.#wrap(what!, error));
  }

  #wrap(what: string, cause: unknown): Error {
    const why = cause instanceof Error ? cause.message : String(cause);
    return new Error(`Cannot read ${what} of ${this.#module} in a worker: ${why}`, { cause });
  }

  #fail(error: Error): void {
    this.#failure ??= error;
    for (const { open } of this.#readers) {
      for (const { reject } of open.values()) reject(this.#failure);
      open.clear();
    }
  }

  /** Ends the workers; what they have not answered is not answered any more. */
  [Symbol.dispose](): void {
    this.#fail(new Error(`The workers that read ${this.#module} were ended`));
    for (const { worker } of this.#readers) worker.end();
  }
}

function post(worker: HostWorker, request: Request): void {
  worker.post(request);
}
