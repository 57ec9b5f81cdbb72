/**
 * Reports for afterwards: recordings of any pool, their replay, the HTML page with its
 * charts, the format of PyTorch's memory viewer. This folder imports `core/` and the types of
 * `devices/`. Events come from pools by `observe`; what leaves is text.
 *
 * @module
 */
import { captureStack, userFrames } from "../core/call_stack.ts";
import type { MemoryEvent } from "./memory_event.ts";
import { toMemoryViz } from "./memory_viz.ts";
import type { LiveBlock, Pool, PoolObserver } from "../core/pool.ts";
import { checkOptions, type Rules } from "../../ffi/host/options.ts";
import * as takes from "../../ffi/host/option_rules.ts";

/** Options of a recording. */
export interface RecorderOptions {
  /**
   * True to note who allocates. Deno maps every frame back to its TypeScript, which costs 50 to
   * 250 microseconds an allocation. Default: false.
   */
  readonly stacks?: boolean;
  /** Events to keep; older ones are summed up in what was live. Default: 100,000. */
  readonly capacity?: number;
}

const rules: Rules<RecorderOptions> = { stacks: takes.bool, capacity: takes.count };

/** An event whose frames are still text: they are parsed when the events are read. */
type RawEvent = Omit<MemoryEvent, "frames"> & { readonly stack?: string };

/**
 * Records what pools do, in a ring of bounded length. What falls out of the ring stays as a summary
 * of what was live, so that a recording always adds up.
 *
 * @example
 * ```ts
 * import { HostPool, Recorder } from "@netcl/netcl/memory";
 * import { assertEquals } from "@std/assert";
 *
 * const pool = new HostPool();
 * using recorder = new Recorder();
 * recorder.attach("host", pool);
 * pool.allocate(1000, { label: "weights" }).release();
 * assertEquals(recorder.events().map((event) => event.action), ["segment_alloc", "alloc", "free"]);
 * ```
 */
export class Recorder implements Disposable {
  readonly #stacks: boolean;
  readonly #capacity: number;
  readonly #started = performance.now();
  readonly #attached: Disposable[] = [];
  // deno-lint-ignore no-explicit-any -- any kind of pool can be recorded
  readonly #names = new Map<Pool<any>, string>();
  /** Blocks live before the oldest event of the ring, by what they are. */
  readonly #before = new Map<string, RawEvent>();
  readonly #ring: RawEvent[] = [];
  #oldest = 0;

  /**
   * Begins the recording's clock; {@linkcode attach} adds pools.
   *
   * @param options What to keep.
   * @throws {RangeError} When the capacity is no whole number from 1.
   */
  constructor(options: RecorderOptions = {}) {
    checkOptions("record memory", options, rules);
    const { capacity = 100_000, stacks = false } = options;
    this.#stacks = stacks;
    this.#capacity = capacity;
  }

  /**
   * Records a pool from now on; what is live in it already is noted too.
   *
   * @param name What the pool belongs to. A second one of that name gets a number.
   */
  // deno-lint-ignore no-explicit-any -- any kind of pool can be recorded
  attach(name: string, pool: Pool<any>): void {
    const names = new Set(this.#names.values());
    let device = name;
    for (let nth = 2; names.has(device); nth++) device = `${name} #${nth}`;
    this.#names.set(pool, device);
    for (const { id, nbytes } of pool.segments()) {
      this.#keep({ time: 0, action: "segment_alloc", device, nbytes, segment: id });
    }
    // Also those of no bytes, which lie in no segment.
    for (const block of pool.liveBlocks()) this.#keep(blockEvent(0, "alloc", device, block));
    this.#attached.push(pool.observe(this.#observer(device)));
  }

  /** The name of a pool's device in the events; `undefined` where it is not recorded. */
  // deno-lint-ignore no-explicit-any -- any kind of pool can be recorded
  nameOf(pool: Pool<any>): string | undefined {
    return this.#names.get(pool);
  }

  #observer(device: string): PoolObserver {
    const now = () => performance.now() - this.#started;
    return {
      allocated: (block) => {
        const event = blockEvent(now(), "alloc", device, block);
        this.#add(this.#stacks ? { ...event, stack: captureStack() } : event);
      },
      released: (block) => this.#add(blockEvent(now(), "free", device, block)),
      reserved: (segment, nbytes) =>
        this.#add({ time: now(), action: "segment_alloc", device, nbytes, segment }),
      unreserved: (segment, nbytes) =>
        this.#add({ time: now(), action: "segment_free", device, nbytes, segment }),
      exhausted: (nbytes) => this.#add({ time: now(), action: "oom", device, nbytes }),
    };
  }

  #add(event: RawEvent): void {
    if (this.#ring.length < this.#capacity) return void this.#ring.push(event);
    this.#keep(this.#ring[this.#oldest]!);
    this.#ring[this.#oldest] = event;
    this.#oldest = (this.#oldest + 1) % this.#capacity;
  }

  /** Sums an event up in what was live before the ring. */
  #keep(event: RawEvent): void {
    const { action, device, id, segment } = event;
    const key = `${device} ${action.startsWith("segment") ? "segment " + segment : id}`;
    if (action === "alloc" || action === "segment_alloc") this.#before.set(key, event);
    else this.#before.delete(key);
  }

  /** All events in the order in which they happened. */
  events(): MemoryEvent[] {
    const ring = [...this.#ring.slice(this.#oldest), ...this.#ring.slice(0, this.#oldest)];
    return [...this.#before.values(), ...ring].map(({ stack, ...event }) =>
      stack === undefined ? event : { ...event, frames: userFrames(stack) }
    );
  }

  /** One event a line, as JSON; {@linkcode replay} reads it. */
  toJSONLines(): string {
    return this.events().map((event) => JSON.stringify(event) + "\n").join("");
  }

  /** A snapshot that PyTorch's memory viewer (pytorch.org/memory_viz) opens. */
  toMemoryViz(): string {
    return JSON.stringify(toMemoryViz(this.events()));
  }

  /** Ends the recording; what was recorded stays. */
  [Symbol.dispose](): void {
    for (const attached of this.#attached.splice(0)) attached[Symbol.dispose]();
  }
}

function blockEvent(
  time: number,
  action: "alloc" | "free",
  device: string,
  { nbytes, id, bucketSize, segment, offset, label, queueNumber, userNumbers }: LiveBlock,
): RawEvent {
  return {
    ...{ time, action, device, nbytes, id, bucketSize, segment, offset },
    ...queueNumber !== undefined && { queue: queueNumber },
    ...userNumbers !== undefined && { users: userNumbers },
    ...label !== undefined && { label },
  };
}
