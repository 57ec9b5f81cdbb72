/** Runs what a schedule says: buffers for results, launches in order, buffers back after the last reader. */
import { Storage } from "../../memory/mod.ts";
import type { Backend, Block, Launch } from "./backend.ts";
import { dtypes } from "../graph/dtype.ts";
import { Node, type Saved } from "../graph/node.ts";
import type { Storage as AnyStorage } from "../graph/stored_value.ts";
import { releaseTransient } from "../graph/stored_value.ts";
import { type LaterGraph, PlanCache } from "../schedule/plan_cache.ts";
import type { Plan } from "../schedule/memory_plan.ts";
import { type Companion, type Schedule, schedule } from "../schedule/schedule.ts";
import { isDeterministic } from "./determinism.ts";
import { changedInPlace } from "../kernel/kernel.ts";
import { updatesOf } from "../kernel/forms/updates.ts";
import { activeRecording, type Recording, unrecorded } from "./recording.ts";
import { SavedInMemory, SavedValues } from "./saved_values.ts";
import { busyWith, noteReturn, relieve, spillWhereShort } from "./spilling.ts";
import { readSwitch } from "../../ffi/host/switches.ts";

/** Data of at most this many bytes stays on the host until a kernel reads it: it costs no device memory. */
export const MAX_HOST_DATA_BYTES = 4096;

let eager: boolean | undefined;

/** True when every operation runs at once, by itself (NETCL_EAGER=1): for finding what fusion hides. */
export const isEager = (): boolean => eager ??= readSwitch("NETCL_EAGER") ?? false;

/** Runs of a backend, and what of them is kept for later. */
interface Remembered {
  readonly plans: PlanCache;
  readonly launches: WeakMap<Plan, readonly Launch[]>;
  readonly saved: SavedInMemory;
}

const remembered = new WeakMap<Backend, Remembered>();

function rememberedBy(backend: Backend): Remembered {
  let known = remembered.get(backend);
  if (known) return known;
  const saved = new SavedInMemory(backend.memory);
  spillWhereShort(backend);
  remembered.set(backend, known = { plans: new PlanCache(), launches: new WeakMap(), saved });
  return known;
}

/** Nodes to compute beside those asked for, and to keep. */
export interface RealizeOptions {
  /** Nodes computed as well, if their partners are. */
  readonly companions?: readonly Companion[];
  /** Nodes asked for later: values that they need on the way are saved. */
  readonly later?: readonly Node[];
  /** Graphs that will be made of them and computed: what these need on the way is saved, too. */
  readonly ahead?: readonly LaterGraph[];
  /** Tensors have other values since: what only activations of former steps need may go. */
  readonly endsFormer?: boolean;
}

/** The schedule of nodes; a recording needs kernels of its own, since it changes their parameters. */
function scheduleFor(
  backend: Backend,
  nodes: readonly Node[],
  { companions = [], later = [], ahead = [] }: RealizeOptions = {},
): Schedule {
  const recording = activeRecording(), { target, planKernel } = backend;
  const cache = recording ? null : rememberedBy(backend).plans;
  const canVary = !isDeterministic();
  const keepsPrepared = recording?.isInference() ?? false;
  const device = { target, planKernel, keepsPrepared };
  return schedule(nodes, { cache, canVary, device, companions, later, ahead });
}

function launchesOf(backend: Backend, plan: Schedule): readonly Launch[] {
  const prepare = (): Launch[] => backend.prepare(plan.kernels.map((k) => k.kernel));
  if (plan.remembered === null) return prepare();
  const { launches } = rememberedBy(backend);
  let known = launches.get(plan.remembered);
  if (!known) launches.set(plan.remembered, known = prepare());
  return known;
}

/**
 * Computes the nodes, and companions that belong to them, and stores their values.
 *
 * @returns What was saved for later, if anything.
 */
export function realize(
  backend: Backend,
  nodes: readonly Node[],
  options: RealizeOptions = {},
): SavedValues | null {
  const recording = activeRecording();
  if (recording !== null) {
    const earlier = recording.pendingBefore(nodes);
    if (earlier.length > 0) unrecorded(() => realize(backend, earlier));
  }
  for (const node of nodes) node.require();
  if (options.endsFormer) releaseTransient(backend.memory);
  const plan = scheduleFor(backend, nodes, options);
  const { blocks, lent } = run(backend, plan);
  const saved = plan.saved.length === 0 ? null : save(backend, plan, blocks);
  finish(backend, plan, blocks, lent);
  relieve(backend, plan.peakBytes, () => rememberedBy(backend).saved.releaseOld());
  return saved;
}

function save(
  backend: Backend,
  { order, saved: positions }: Schedule,
  blocks: Blocks,
): SavedValues {
  const saved = new SavedValues(rememberedBy(backend).saved);
  for (const at of positions) {
    const node = order[at]!;
    if (node.isNeeded) saved.take(node, new Storage(backend.memory, blocks[at]!));
    else blocks[at]!.release();
    blocks[at] = undefined;
  }
  return saved;
}

/** The block of each node, by position, while a schedule runs. */
type Blocks = (Block | undefined)[];

/** Stores the results whose blocks are there, and settles what was computed. */
function finish(
  backend: Backend,
  { order, kept, results }: Schedule,
  blocks: Blocks,
  lent: Map<number, AnyStorage> | null,
): void {
  const views = viewsOf(results);
  // The values that views have taken over, or that were changed; mostly a block belongs to one result.
  let storages = lent && new Map(lent);
  for (const { node, at } of results) {
    if (node.storage || node.holders === 0) continue;
    const known = order[at]!.storage ?? storages?.get(at), block = blocks[at];
    if (known) node.store(known.retain());
    else if (block) {
      blocks[at] = undefined;
      const storage = new Storage(backend.memory, block);
      if (node !== order[at]) (storages ??= new Map()).set(at, storage);
      node.store(storage);
    }
  }
  // Everybody who could have asked for the rest is gone.
  for (const at of kept) blocks[at]?.release();
  Node.markComputed(order);
  for (const storage of lent?.values() ?? []) storage.release();
  if (views !== null) Node.markComputed(views);
}

/** The results that are views, and the views that they are of: they are not in the order. */
function viewsOf(results: Schedule["results"]): readonly Node[] | null {
  let views: Node[] | null = null;
  for (const result of results) {
    for (let { node } = result; node.storage === null && node.op.kind === "reshape";) {
      (views ??= []).push(node);
      node = node.inputs[0]!;
    }
  }
  return views === null ? null : views.reverse();
}

/** Enqueues a schedule; its blocks afterwards are those of the kept nodes. */
function run(backend: Backend, plan: Schedule): ScheduleRun {
  const run = new ScheduleRun(backend, plan);
  // Where memory is short, values that other computations have saved may go, but not those read here.
  const pinned = noteUse(plan.order);
  for (const saved of pinned) saved.pin();
  try {
    busyWith(plan.order, () => run.enqueue(launchesOf(backend, plan)));
  } catch (error) {
    for (const block of run.blocks) block?.release();
    for (const storage of run.lent?.values() ?? []) storage.release();
    throw error;
  } finally {
    for (const saved of pinned) saved.unpin();
  }
  return run;
}

const none: readonly Saved[] = [];

/** Notes that values are read; gives back those of them that can be let go. */
function noteUse(order: readonly Node[]): readonly Saved[] {
  let saved: Saved[] | null = null;
  for (const node of order) {
    node.noteUse();
    if (node.saved !== null) (saved ??= []).push(node.saved);
  }
  return saved ?? none;
}

/** A schedule while it runs. */
class ScheduleRun {
  readonly #backend: Backend;
  readonly #plan: Schedule;
  /** The block of each node or temporary that has one of this run, by position. */
  readonly blocks: Blocks;
  /** The values that were changed where they are, by the position of the result; held once each. */
  lent: Map<number, AnyStorage> | null = null;

  constructor(backend: Backend, plan: Schedule) {
    this.#backend = backend;
    this.#plan = plan;
    this.blocks = new Array(plan.order.length + plan.temporaries.length);
  }

  enqueue(launches: readonly Launch[]): void {
    const plan = this.#plan, { order, kernels } = plan, recording = activeRecording();
    if (recording) prepareRecording(recording, this.#backend, plan);
    for (const at of plan.kept) {
      const { size, op } = order[at]!;
      if (size === 0 || op.kind === "data") this.#blockAt(at, "data");
    }
    for (let k = 0; k < kernels.length; k++) {
      const { kernel, inputs, outputs, dying, taken } = kernels[k]!, { label } = kernel;
      const reads = this.#blocksAt(inputs, label);
      for (const [from, to] of changedInPlace(kernel)) {
        this.#lend(inputs[from]!, outputs[to]!, recording);
      }
      for (const [from, to] of taken) this.#take(from, to, recording);
      const writes = this.#blocksAt(outputs, label);
      launches[k]!.run(reads, writes);
      if (recording) {
        const updates = updatesOf(kernel, this.#backend.target.isGpu);
        recording.add(launches[k]!, inputs.map((at) => order[at] ?? null), reads, writes, updates);
      }
      for (const at of dying) {
        this.blocks[at]?.release();
        this.blocks[at] = undefined;
      }
    }
  }

  /** Gives a result the memory of one on the way. In a replay, what is kept lies where its former value did. */
  #take(from: number, to: number, recording: Recording | null): void {
    if (recording !== null && this.#plan.kept.includes(to)) return;
    this.blocks[to] = this.blocks[from];
    this.blocks[from] = undefined;
  }

  /** Gives a result the memory of what it changes, or a copy of that where others need it. */
  #lend(from: number, to: number, recording: Recording | null): void {
    const node = this.#plan.order[from], own = this.blocks[from];
    const storage = this.lent?.get(from) ?? node?.storage;
    if (node?.isLent && storage) {
      storage.markWritten();
      (this.lent ??= new Map()).set(to, storage.retain());
    } else if (node?.isLent && own !== undefined) {
      this.blocks[to] = own;
      this.blocks[from] = undefined;
    } else {
      const copy = copyLaunch(this.#backend), inputs = [this.#blockAt(from, copy.name)];
      const outputs = [this.#blockAt(to, copy.name)];
      copy.run(inputs, outputs);
      recording?.add(copy, [node ?? null], inputs, outputs);
    }
  }

  #blocksAt(positions: readonly number[], label: string): Block[] {
    const blocks = new Array<Block>(positions.length);
    for (let k = 0; k < positions.length; k++) blocks[k] = this.#blockAt(positions[k]!, label);
    return blocks;
  }

  #blockAt(at: number, label: string): Block {
    const own = this.blocks[at] ?? this.lent?.get(at)?.handle;
    if (own !== undefined) return own;
    const storage = this.#plan.order[at]?.storage;
    return storage ? storage.handle : this.#newBlock(at, label);
  }

  /** Makes the block of a node or a temporary, with its content where that is on the host. */
  #newBlock(at: number, label: string): Block {
    const backend = this.#backend, { order, temporaries } = this.#plan, node = order[at];
    const block = allocate(backend, node ?? temporaries[at - order.length]!, label);
    this.blocks[at] = block;
    if (node?.op.kind !== "data") return block;
    backend.write(block, node.op.bytes);
    // Larger data was moved to the host where memory was short: it comes back to stay.
    if (node.op.bytes.length > MAX_HOST_DATA_BYTES) {
      this.blocks[at] = undefined;
      node.store(new Storage(backend.memory, block));
      noteReturn(backend, block.nbytes);
    }
    return block;
  }
}

/** Copies a block as a whole. */
function copyLaunch(backend: Backend): Launch {
  const run: Launch["run"] = ([from], [to]) => backend.copy(from!, to!, to!.nbytes);
  return { name: "copy", source: "", bytes: 0, run };
}

/** A recording reads host data once, so that it needs a place that stays; and it must know its results. */
function prepareRecording(recording: Recording, backend: Backend, plan: Schedule): void {
  keepData(backend, plan);
  for (const { at } of plan.results) {
    const node = plan.order[at]!;
    if (node.storage) recording.addExternal(node.storage.handle, node);
  }
}

function keepData(backend: Backend, { order, kernels }: Schedule): void {
  for (const { inputs } of kernels) {
    for (const at of inputs) {
      const node = order[at];
      if (node?.op.kind !== "data" || node.storage !== null) continue;
      const block = allocate(backend, node, "data");
      backend.write(block, node.op.bytes);
      node.store(new Storage(backend.memory, block));
    }
  }
}

function allocate(
  backend: Backend,
  { size, dtype }: Pick<Node, "size" | "dtype">,
  label: string,
): Block {
  return backend.memory.allocate(size * dtypes[dtype].bytes, { label });
}
