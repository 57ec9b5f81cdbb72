/** The launches of a recorded program, whose arguments stay set from one replay to the next. */
import {
  asWhole,
  type Backend,
  type Block,
  type Launch,
  type RepeatedLaunch,
} from "../../backend/internal.ts";
import type { PendingUploads, Storage } from "../../memory/mod.ts";
import type { GradientMarks } from "./gradient_marks.ts";

/** Next values that cannot lie where the former ones do are in two places by turns: every second replay has the same blocks. */
const MAX_BINDINGS = 2;
/** A block that begins behind these bytes has a memory object of its own, which comes and goes. */
const MAX_BASE_BYTES = 2 ** 31;

/** One launch, its blocks by their slots. */
export interface ReplayLaunch {
  readonly launch: Launch;
  readonly inputs: readonly number[];
  readonly outputs: readonly number[];
}

/** A value as it was when something was made of it. */
class Seen {
  readonly #storage: WeakRef<Storage<unknown>>;
  readonly #version: number;

  constructor(storage: Storage<unknown>) {
    this.#storage = new WeakRef(storage);
    this.#version = storage.version;
  }

  /** True where it is the same value. */
  is(storage: Storage<unknown>): boolean {
    return this.#storage.deref() === storage && storage.version === this.#version;
  }
}

/** A slot whose block may be another one in every replay, with the launches that take it. */
interface Varying {
  readonly slot: number;
  readonly users: readonly number[];
}

/** Arguments of all launches, as they were set for a replay. */
class Binding {
  /** Null for launches that keep no arguments. */
  readonly launches: readonly (RepeatedLaunch | null)[];
  /** 1 when the arguments of a launch are set for the places below. */
  readonly isSet: Uint8Array;
  readonly #bases: unknown[] = [];
  readonly #offsets: number[] = [];

  constructor(launches: readonly (RepeatedLaunch | null)[]) {
    this.launches = launches;
    this.isSet = new Uint8Array(launches.length);
  }

  /** Number of blocks elsewhere than those it was set for. */
  differences(varying: readonly Varying[], blocks: readonly Block[]): number {
    let count = 0;
    for (let k = 0; k < varying.length; k++) {
      if (!this.#isAt(k, blocks[varying[k]!.slot]!)) count++;
    }
    return count;
  }

  /** Launches that take a block which is elsewhere now are to be set again. */
  update(varying: readonly Varying[], blocks: readonly Block[]): void {
    for (let k = 0; k < varying.length; k++) {
      const { slot, users } = varying[k]!, block = blocks[slot]!;
      if (this.#isAt(k, block)) continue;
      for (const user of users) this.isSet[user] = 0;
      this.#bases[k] = block.base;
      this.#offsets[k] = block.offset;
    }
  }

  #isAt(k: number, { base, offset }: Block): boolean {
    return this.#offsets[k] === offset && this.#bases[k] === base && offset < MAX_BASE_BYTES;
  }
}

/** The launches of one program; who has it disposes of it. */
export class ReplayedLaunches implements Disposable {
  readonly #launches: readonly ReplayLaunch[];
  readonly #varying: readonly Varying[];
  readonly #isVarying: Uint8Array;
  /** The one that was used last comes last. */
  readonly #bindings: Binding[] = [];
  readonly #owned = new DisposableStack();
  readonly #repeats: boolean;
  /** By launch: the value that what it keeps was made of. */
  readonly #madeOf = new Map<number, Seen>();
  // The blocks of one launch at a time; empty between two, so that they keep no memory.
  readonly #reads: Block[] = [];
  readonly #writes: Block[] = [];

  /**
   * @param launches In their order.
   * @param varies True for a slot whose block may be another one in every replay.
   */
  constructor(launches: readonly ReplayLaunch[], varies: (slot: number) => boolean) {
    this.#launches = launches;
    this.#repeats = launches.some(({ launch }) => launch.repeated !== undefined);
    this.#isVarying = new Uint8Array(launches.length);
    const users = new Map<number, number[]>();
    launches.forEach(({ launch, inputs, outputs }, k) => {
      if (launch.repeated === undefined) return;
      for (const slot of new Set([...inputs, ...outputs])) {
        if (!varies(slot)) continue;
        this.#isVarying[k] = 1;
        const known = users.get(slot);
        if (known) known.push(k);
        else users.set(slot, [k]);
      }
    });
    this.#varying = [...users].map(([slot, users]) => ({ slot, users }));
  }

  /**
   * Enqueues all of them.
   *
   * @param blocks By slot.
   * @param storageOf The value of a slot that was there before; null for others.
   * @param marks Told after each launch that it is enqueued.
   * @param firstUpdate The first launch that changes a value which somebody has: Ctrl+C ends no replay behind it.
   */
  run(
    backend: Backend,
    blocks: readonly Block[],
    storageOf: (slot: number) => Storage<unknown> | null,
    marks: GradientMarks | null,
    firstUpdate: number,
  ): void {
    const binding = this.#repeats && backend.mayRepeat() ? this.#bindingFor(blocks) : null;
    const { uploads } = backend.memory;
    const arriving = binding && !uploads.isEmpty ? this.#arriving(uploads, blocks) : null;
    const launch = (k: number): void => {
      arriving?.get(k)?.forEach((block) => uploads.await(block));
      const own = binding === null ? null : binding.launches[k]!;
      if (own === null) this.#run(this.#launches[k]!.launch, k, blocks);
      else {
        const isSet = binding!.isSet[k] === 1;
        const from = own.kept ? storageOf(this.#launches[k]!.inputs[own.kept.input]!) : null;
        if (isSet) own.again(from !== null && this.#madeOf.get(k)?.is(from));
        else this.#run(own, k, blocks);
        binding!.isSet[k] = 1;
        if (from !== null && !this.#madeOf.get(k)?.is(from)) this.#madeOf.set(k, new Seen(from));
      }
      if (marks !== null) marks.passed(k);
    };
    const { length } = this.#launches, first = Math.min(firstUpdate, length);
    for (let k = 0; k < first; k++) launch(k);
    if (first === length) return;
    asWhole(() => {
      for (let k = first; k < length; k++) launch(k);
    });
  }

  /** Blocks that are still filled beside the kernels, by the first launch that takes them. */
  #arriving(uploads: PendingUploads, blocks: readonly Block[]): Map<number, Block[]> {
    const found = new Map<number, Block[]>();
    for (const { slot, users } of this.#varying) {
      const block = blocks[slot]!, first = users[0]!;
      if (!uploads.isPending(block)) continue;
      const known = found.get(first);
      if (known) known.push(block);
      else found.set(first, [block]);
    }
    return found;
  }

  #run(launch: Launch, k: number, blocks: readonly Block[]): void {
    const { inputs, outputs } = this.#launches[k]!, reads = this.#reads, writes = this.#writes;
    for (let k = 0; k < inputs.length; k++) reads.push(blocks[inputs[k]!]!);
    for (let k = 0; k < outputs.length; k++) writes.push(blocks[outputs[k]!]!);
    try {
      launch.run(reads, writes);
    } finally {
      reads.length = writes.length = 0;
    }
  }

  /** The arguments that need least to be set for these blocks; null while a launch is not compiled. */
  #bindingFor(blocks: readonly Block[]): Binding | null {
    const bindings = this.#bindings, varying = this.#varying;
    let best = 0, least = Infinity;
    for (let k = 0; k < bindings.length && least > 0; k++) {
      const count = bindings[k]!.differences(varying, blocks);
      if (count < least) [best, least] = [k, count];
    }
    if (least > 0 && bindings.length < MAX_BINDINGS) {
      const made = this.#newBinding();
      if (made === null) return null;
      best = bindings.push(made) - 1;
    }
    const [binding] = bindings.splice(best, 1);
    bindings.push(binding!);
    binding!.update(varying, blocks);
    return binding!;
  }

  /** Launches whose blocks are the same in every replay share their arguments with the first binding. */
  #newBinding(): Binding | null {
    using made = new DisposableStack();
    const [first] = this.#bindings, own: (RepeatedLaunch | null)[] = [];
    for (let k = 0; k < this.#launches.length; k++) {
      const { launch } = this.#launches[k]!;
      if (first !== undefined && this.#isVarying[k] === 0) own.push(first.launches[k]!);
      else if (launch.repeated === undefined) own.push(null);
      else {
        const repeated = launch.repeated();
        if (repeated === null) return null;
        own.push(made.use(repeated));
      }
    }
    this.#owned.use(made.move());
    return new Binding(own);
  }

  [Symbol.dispose](): void {
    this.#bindings.length = 0;
    this.#owned.dispose();
  }
}
