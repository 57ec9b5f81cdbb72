/** Writing token by token: a prompt is read at once, then each step is one recorded call. */
import { compileRepeatable, type Repeatable } from "../../compile/compile.ts";
import { exposed } from "../../core/internals.ts";
import { noGrad } from "../../core/modes/grad_mode.ts";
import { calledByUser, tidily } from "../../core/modes/temporaries.ts";
import { Tensor } from "../../class/tensor.ts";
import { realizeAll } from "../../execution/realization.ts";
import type { Decoder } from "./decoder/decoder.ts";
import type { DecoderCache } from "./decoder/decoder_cache.ts";
import { chooseNext, SamplerState, type Sampling } from "./sampling.ts";

/** Room is made in multiples of so many positions. */
const POSITIONS = 64;
/** Room for so many new positions is made at first; a longer text moves to twice the room. */
const FIRST_ROOM = 512;

/** Data for the call of a step. */
interface StepState {
  readonly cache: DecoderCache;
  readonly sampler: SamplerState;
  readonly options: Sampling;
}

/** State of a text. */
export class Session implements Disposable {
  /** The positions that were read, with room for more. */
  cache: DecoderCache;
  /** The ids of the first sequence that are in the cache. */
  ids: number[] = [];

  constructor(cache: DecoderCache) {
    this.cache = cache;
  }

  /** Gives the memory back. */
  [Symbol.dispose](): void {
    this.cache[Symbol.dispose]();
  }
}

/** Writes texts with a decoder. */
export class Generator implements Disposable {
  readonly #decoder: Decoder;
  /** The tokens that end a text. */
  readonly ends: ReadonlySet<number>;
  /** Of the call that runs: a compiled function knows tensors by its arguments only. */
  #state: StepState | null = null;
  readonly #step: Repeatable<[ids: Tensor, held: readonly Tensor[]], Tensor>;

  /**
   * @param decoder The model.
   * @param ends The tokens that end a text.
   */
  constructor(decoder: Decoder, ends: ReadonlySet<number>) {
    this.#decoder = decoder;
    this.ends = ends;
    this.#step = compileRepeatable((ids: Tensor, _held: readonly Tensor[]) => {
      const { cache, sampler, options } = this.#state!;
      return tidily(() => exposed(chooseNext(this.#scores(ids, cache), sampler, options)));
    });
  }

  /** An empty session with room for a prompt and what follows. */
  session(length: number, maxTokens: number, batch = 1): Session {
    const wanted = length + Math.min(maxTokens, FIRST_ROOM);
    return new Session(this.#decoder.makeCache(batch, this.#capacity(length, wanted)));
  }

  /** The room of a cache for so many positions: as many as are wanted, unless that changes how they rotate. */
  #capacity(length: number, wanted: number): number {
    const { turningPoint, config: { contextLength } } = this.#decoder;
    const most = length <= turningPoint ? Math.min(turningPoint, contextLength) : contextLength;
    return Math.max(Math.min(Math.ceil(wanted / POSITIONS) * POSITIONS, most), length);
  }

  /** Number of tokens that may follow so many, at most. */
  roomFor(length: number, { maxTokens = Infinity }: Sampling): number {
    const left = this.#decoder.config.contextLength - length;
    if (left > 0) return Math.min(maxTokens, left);
    throw new RangeError(
      `Cannot write behind ${length} tokens: the model's context has ` +
        `${this.#decoder.config.contextLength}`,
    );
  }

  /** Scores of what follows the last position, (N, vocabulary). */
  #scores(ids: Tensor, cache: DecoderCache): Tensor {
    return this.#decoder.logits(this.#decoder.hidden(ids, cache).slice(null, -1));
  }

  /** Features of prompts, which are padded behind their ends where they differ in length. */
  #hidden(prompts: readonly (readonly number[])[], cache: DecoderCache): Tensor {
    const { device } = this.#decoder, lengths = prompts.map((ids) => ids.length);
    const length = Math.max(...lengths);
    const padded = prompts.flatMap((ids) => [...ids, ...Array(length - ids.length).fill(ids[0])]);
    const ids = Tensor.fromHost(Int32Array.from(padded), {
      shape: [prompts.length, length],
      device,
    });
    return this.#decoder.hidden(ids, cache, Tensor.fromHost(Int32Array.from(lengths), { device }));
  }

  /** Scores of what follows prompts. */
  #scoresBehind(prompts: readonly (readonly number[])[], cache: DecoderCache): Tensor {
    const { device } = this.#decoder, lengths = prompts.map((ids) => ids.length);
    const length = Math.max(...lengths), features = this.#hidden(prompts, cache);
    if (lengths.every((own) => own === length)) {
      return this.#decoder.logits(features.slice(null, -1));
    }
    const last = Tensor.fromHost(Int32Array.from(lengths, (own, row) => row * length + own - 1), {
      device,
    });
    return this.#decoder.logits(features.reshape([-1, features.shape[2]!]).indexSelect(0, last));
  }

  /**
   * Writes behind a session; gives back the ids of all sequences, turn by turn.
   *
   * @param session What was read before.
   * @param prompts What follows it, of each sequence.
   * @param all All ids so far, of each sequence.
   */
  async *write(
    session: Session,
    prompts: readonly (readonly number[])[],
    all: readonly (readonly number[])[],
    options: Sampling,
  ): AsyncGenerator<Int32Array> {
    const { signal } = options, { device, config, work } = this.#decoder;
    signal?.throwIfAborted();
    const turns = this.roomFor(Math.max(...all.map((ids) => ids.length)), options);
    using sampler = new SamplerState(all, turns, config.vocabulary, options, device);
    const so = all.map((ids) => [...ids]);
    let ids = this.#read(session, prompts, sampler, options, so);
    try {
      for (let turn = 1;; turn++) {
        const value = ids.toHost("int32");
        // The next step is on its way while this one's token is read, unless ranks agree on it first.
        const isAhead = turn < turns && !options.logits && work.size === 1;
        const next = isAhead ? this.#next(session, ids, sampler, options, so, turn === 1) : null;
        const chosen = work.agreed(await value);
        ids.dispose();
        if (next) ids = next;
        signal?.throwIfAborted();
        chosen.forEach((id, row) => so[row]!.push(id));
        yield chosen;
        signal?.throwIfAborted();
        if (turn >= turns) return;
        if (!next) {
          ids = this.#read(session, Array.from(chosen, (id) => [id]), sampler, options, so);
        }
      }
    } finally {
      ids.dispose();
    }
  }

  /** Reads what is new, without a recording; gives back the tokens that follow. */
  #read(
    session: Session,
    prompts: readonly (readonly number[])[],
    sampler: SamplerState,
    options: Sampling,
    so: readonly number[][],
  ): Tensor {
    this.#makeRoom(session, Math.max(...prompts.map((ids) => ids.length)), so);
    const { cache } = session;
    // Handles that nobody disposes of would keep scores and weights until the collector comes.
    const next = tidily(() => {
      const scores = this.#scoresBehind(prompts, cache);
      const changed = calledByUser(() => options.logits?.(exposed(scores), so)) ?? scores;
      return exposed(chooseNext(changed, sampler, options)).realize();
    });
    cache.advance(prompts.map((ids) => ids.length));
    return next;
  }

  /**
   * One recorded step. The first of a text asks the model, which may have changed since; others only launch.
   */
  #next(
    session: Session,
    ids: Tensor,
    sampler: SamplerState,
    options: Sampling,
    so: readonly number[][],
    isFirst: boolean,
  ): Tensor {
    this.#makeRoom(session, 1, so);
    const { cache } = session;
    this.#state = { cache, sampler, options };
    try {
      const held = [...cache.tensors, ...sampler.tensors];
      const next = noGrad(() => isFirst ? this.#step.call(ids, held) : this.#step.again(ids, held));
      cache.advance();
      return next;
    } finally {
      this.#state = null;
    }
  }

  /** Moves what a session holds, the first of these ids, to a larger cache where there is no room. */
  #makeRoom(session: Session, count: number, ids: readonly (readonly number[])[]): void {
    const { cache } = session, wanted = cache.length + count;
    if (wanted <= cache.capacity) return;
    const capacity = this.#capacity(wanted, Math.max(wanted, 2 * cache.capacity));
    const larger = this.#decoder.makeCache(cache.batch, capacity), { turningPoint } = this.#decoder;
    if (cache.capacity > turningPoint || capacity <= turningPoint) larger.copyFrom(cache);
    else if (cache.length > 0) {
      const held = ids.map((own, row) => own.slice(0, cache.lengths[row]));
      tidily(() => {
        this.#hidden(held, larger);
        realizeAll(larger.tensors);
      });
      larger.advance(cache.lengths);
    }
    session.cache = larger;
    cache[Symbol.dispose]();
  }

  /** Writes behind a session of one sequence, up to a token that ends it. */
  async *writeOne(
    session: Session,
    fresh: readonly number[],
    all: readonly number[],
    options: Sampling,
  ): AsyncGenerator<number, void, undefined> {
    for await (const [id] of this.write(session, [fresh], [all], options)) {
      if (!options.ignoreEnd && this.isEnd(id!)) return;
      yield id!;
    }
  }

  /** Gives the memory of recorded steps back. */
  [Symbol.dispose](): void {
    this.#step[Symbol.dispose]();
  }

  /** True for a token that ends a text. */
  isEnd(id: number): boolean {
    return this.ends.has(id);
  }
}
