/** Runs what a schedule says: buffers for results, launches in order, buffers back after the last reader. */
import { Storage } from "../memory/mod.ts";
import type { Backend, Block, Launch } from "./backend.ts";
import { dtypes } from "./graph/dtype.ts";
import type { Node, Saved, Storage as AnyStorage } from "./graph/node.ts";
import { PlanCache } from "./graph/plan_cache.ts";
import { type Companion, type Plan, type Schedule, schedule } from "./graph/schedule.ts";
import { activeRecording, unrecorded } from "./recording.ts";
import { SavedInMemory, SavedValues } from "./saved_values.ts";
import { readSwitch } from "./switches.ts";

let eager: boolean | undefined;

/** True when every operation runs at once, by itself (NETCL_EAGER=1): for finding what fusion hides. */
export function isEager(): boolean {
  return eager ??= readSwitch("NETCL_EAGER") ?? false;
}

/** What a backend ran before, and what of it is kept for later. */
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
  remembered.set(backend, known = { plans: new PlanCache(), launches: new WeakMap(), saved });
  return known;
}

/** What is computed beside what is asked for, and what is kept. */
export interface RealizeOptions {
  /** What is computed as well, if its partners are. */
  readonly companions?: readonly Companion[];
  /** What will be asked for: values on the way that it needs are saved. */
  readonly later?: readonly Node[];
  /** A result that is saved, too, instead of stored for good. */
  readonly brief?: Node | null;
}

/** The schedule of nodes; a recording needs kernels of its own, since it changes their parameters. */
function scheduleFor(
  backend: Backend,
  nodes: readonly Node[],
  { companions = [], later = [] }: RealizeOptions = {},
): Schedule {
  const cache = activeRecording() ? null : rememberedBy(backend).plans;
  const { batching, rules } = backend;
  return schedule(nodes, { cache, batching, rules, companions, later });
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
  const earlier = activeRecording()?.pendingBefore(nodes) ?? [];
  if (earlier.length > 0) unrecorded(() => realize(backend, earlier));
  const plan = scheduleFor(backend, nodes, options);
  const blocks = run(backend, plan);
  const { brief = null } = options;
  if (plan.saved.length === 0 && brief === null) {
    finish(backend, plan, blocks);
    return null;
  }
  const saved = new SavedValues(rememberedBy(backend).saved);
  for (const at of plan.saved) {
    const node = plan.order[at]!;
    if (node.holders > 0) saved.take(node, new Storage(backend.memory, blocks[at]!));
    else blocks[at]!.release();
    blocks[at] = undefined;
  }
  finish(backend, plan, blocks, (node, storage) => {
    if (node === brief) saved.take(node, storage);
    else node.store(storage);
  });
  return saved;
}

/**
 * Computes a node and gives its bytes to `use`; unless the node was stored already, they are gone
 * when `use` is done.
 */
export function withBlock<T>(backend: Backend, node: Node, use: (block: Block) => T): T {
  if (activeRecording()) {
    throw new Error(
      "Cannot read a value inside a compiled function: return the tensor and read it outside",
    );
  }
  if (node.storage) return use(node.storage.handle);
  const plan = scheduleFor(backend, [node]);
  const blocks = run(backend, plan);
  const { at } = plan.results[0]!;
  const block = blocks[at];
  blocks[at] = undefined;
  finish(backend, plan, blocks);
  if (block) return releasing(block, use);
  // A view that was the last to hold its value has taken it over.
  return use((node.storage ?? plan.order[at]!.storage)!.handle);
}

/** The block of each node, by position, while a schedule runs. */
type Blocks = (Block | undefined)[];

/** Stores the results whose blocks are there, and settles what was computed. */
function finish(
  backend: Backend,
  { order, kept, results }: Schedule,
  blocks: Blocks,
  store = (node: Node, storage: AnyStorage): void => node.store(storage),
): void {
  const storages: (AnyStorage | undefined)[] = [];
  const views: Node[] = [];
  for (const { node } of results) addViews(node, views);
  for (const { node, at } of results) {
    if (node.storage || node.holders === 0) continue;
    const known = order[at]!.storage ?? storages[at];
    const block = blocks[at];
    if (known) store(node, known.retain());
    else if (block) {
      blocks[at] = undefined;
      store(node, storages[at] = new Storage(backend.memory, block));
    }
  }
  // Everybody who could have asked for the rest is gone.
  for (const at of kept) blocks[at]?.release();
  // Users come before what they use: what still has one then is waited for elsewhere.
  for (const node of views) if (node.storage === null) node.settle();
  for (let at = order.length - 1; at >= 0; at--) {
    if (order[at]!.storage === null) order[at]!.settle();
  }
}

/** Notes a result that is a view, and the views that it is of: they are not in the order. */
function addViews(result: Node, views: Node[]): void {
  for (let node = result; node.storage === null && node.op.kind === "reshape";) {
    views.push(node);
    node = node.inputs[0]!;
  }
}

/** Releases the block once `use` is done, at once or when its promise is settled. */
function releasing<T>(block: Block, use: (block: Block) => T): T {
  let result: T;
  try {
    result = use(block);
  } catch (error) {
    block.release();
    throw error;
  }
  if (!(result instanceof Promise)) {
    block.release();
    return result;
  }
  return result.finally(() => block.release()) as T;
}

/** Enqueues a schedule; the returned blocks are those of the kept nodes. */
function run(backend: Backend, plan: Schedule): Blocks {
  const launches = launchesOf(backend, plan);
  const blocks: Blocks = [];
  // Where memory is short, values that other computations have saved may go, but not those read here.
  const pinned: Saved[] = [];
  for (const { saved } of plan.order) if (saved) pinned.push(saved);
  for (const saved of pinned) saved.pin();
  try {
    enqueue(backend, plan, launches, blocks);
  } catch (error) {
    for (const block of blocks) block?.release();
    throw error;
  } finally {
    for (const saved of pinned) saved.unpin();
  }
  return blocks;
}

function enqueue(
  backend: Backend,
  plan: Schedule,
  launches: readonly Launch[],
  blocks: Blocks,
): void {
  const { order, kernels } = plan;
  const recording = activeRecording();
  // A recording reads host data once: it needs a place that stays.
  if (recording) {
    keepData(backend, plan);
    for (const { at } of plan.results) {
      const { storage } = order[at]!;
      if (storage) recording.addExternal(storage.handle, order[at]!);
    }
  }
  let label = "data";
  const blockAt = (at: number): Block => {
    const node = order[at]!;
    const known = blocks[at] ?? node.storage?.handle;
    if (known) return known;
    const block = allocate(backend, node, label);
    blocks[at] = block;
    if (node.op.kind === "data") backend.write(block, node.op.bytes);
    return block;
  };
  for (const at of plan.kept) {
    const { size, op } = order[at]!;
    if (size === 0 || op.kind === "data") blockAt(at);
  }
  for (let k = 0; k < kernels.length; k++) {
    const { kernel, inputs, outputs, dying } = kernels[k]!;
    label = kernel.label;
    const reads = inputs.map(blockAt), writes = outputs.map(blockAt);
    launches[k]!.run(reads, writes);
    recording?.add(launches[k]!, inputs.map((at) => order[at]!), reads, writes);
    for (const at of dying) {
      blocks[at]?.release();
      blocks[at] = undefined;
    }
  }
}

function keepData(backend: Backend, { order, kernels }: Schedule): void {
  for (const { inputs } of kernels) {
    for (const at of inputs) {
      const node = order[at]!;
      if (node.op.kind !== "data") continue;
      const block = allocate(backend, node, "data");
      backend.write(block, node.op.bytes);
      node.store(new Storage(backend.memory, block));
    }
  }
}

function allocate(backend: Backend, node: Node, label: string): Block {
  return backend.memory.allocate(node.size * dtypes[node.dtype].bytes, { label });
}
