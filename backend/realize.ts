/** Runs what a schedule says: buffers for results, launches in order, buffers back after the last reader. */
import { Storage } from "../memory/mod.ts";
import type { Backend, Block, Launch } from "./backend.ts";
import { dtypes } from "./graph/dtype.ts";
import { activeRecording } from "./recording.ts";
import { readSwitch } from "./switches.ts";
import type { Node, Storage as AnyStorage } from "./graph/node.ts";
import {
  type Companion,
  type Schedule,
  schedule,
  type Template,
  type TemplateCache,
} from "./graph/schedule.ts";

let eager: boolean | undefined;

/** True when every operation runs at once, by itself (NETCL_EAGER=1): for finding what fusion hides. */
export function isEager(): boolean {
  return eager ??= readSwitch("NETCL_EAGER") ?? false;
}

/** Plans and built launches of graphs that were run, by backend; the latest are kept. */
class Remembered implements TemplateCache {
  static readonly #of = new WeakMap<Backend, Remembered>();
  static readonly MOST = 512;
  readonly #templates = new Map<string, Template>();
  readonly launches = new WeakMap<Template, Launch[]>();

  static of(backend: Backend): Remembered {
    let remembered = this.#of.get(backend);
    if (!remembered) this.#of.set(backend, remembered = new Remembered());
    return remembered;
  }

  get(signature: string): Template | undefined {
    const template = this.#templates.get(signature);
    if (!template) return undefined;
    this.#templates.delete(signature);
    this.#templates.set(signature, template);
    return template;
  }

  set(signature: string, template: Template): void {
    this.#templates.set(signature, template);
    if (this.#templates.size <= Remembered.MOST) return;
    for (const oldest of this.#templates.keys()) {
      this.#templates.delete(oldest);
      return;
    }
  }
}

type Plan = ReturnType<typeof schedule>;

/** The schedule of nodes; a recording needs kernels of its own, since it changes their parameters. */
function planFor(
  backend: Backend,
  nodes: readonly Node[],
  companions?: readonly Companion[],
): Plan {
  return schedule(nodes, activeRecording() ? null : Remembered.of(backend), companions);
}

function launchesOf(backend: Backend, plan: Plan): readonly Launch[] {
  const prepare = (): Launch[] => backend.prepare(plan.kernels.map((k) => k.kernel));
  if (!plan.template) return prepare();
  const { launches } = Remembered.of(backend);
  let known = launches.get(plan.template);
  if (!known) launches.set(plan.template, known = prepare());
  return known;
}

/** Computes the nodes, and companions that belong to them, and stores their values. */
export function realize(
  backend: Backend,
  nodes: readonly Node[],
  companions?: readonly Companion[],
): void {
  const plan = planFor(backend, nodes, companions);
  finish(backend, plan, run(backend, plan));
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
  const plan = planFor(backend, [node]);
  const blocks = run(backend, plan);
  const { of } = plan.results.find((r) => r.node === node)!;
  const block = blocks.get(of);
  blocks.delete(of);
  finish(backend, plan, blocks);
  return block ? releasing(block, use) : use(of.storage!.handle);
}

/** Stores the results whose blocks are there, and settles what was computed. */
function finish(backend: Backend, plan: Schedule, blocks: ReadonlyMap<Node, Block>): void {
  const storages = new Map<Node, AnyStorage>();
  for (const { node, of } of plan.results) {
    if (node.storage) continue;
    const known = of.storage ?? storages.get(of);
    const block = blocks.get(of);
    if (!known && !block) continue;
    if (node.holders === 0) continue;
    if (known) node.store(known.retain());
    else {
      const storage: AnyStorage = new Storage(backend.memory, block!);
      storages.set(of, storage);
      node.store(storage);
    }
  }
  // Everybody who could have asked for the rest is gone.
  for (const [node, block] of blocks) {
    if (!storages.has(node)) block.release();
  }
  for (const node of plan.computed) node.settle();
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
function run(backend: Backend, plan: Plan): Map<Node, Block> {
  const launches = launchesOf(backend, plan);
  const blocks = new Map<Node, Block>();
  try {
    enqueue(backend, plan, launches, blocks);
  } catch (error) {
    for (const block of blocks.values()) block.release();
    throw error;
  }
  return blocks;
}

function enqueue(
  backend: Backend,
  plan: Schedule,
  launches: readonly Launch[],
  blocks: Map<Node, Block>,
): void {
  // A recording reads host data once: it needs a place that stays.
  if (activeRecording()) keepData(backend, plan);
  const kept = new Set(plan.kept);
  const dying = lastReads(plan, kept);
  let label = "data";
  const blockOf = (node: Node): Block => {
    const own = blocks.get(node);
    if (own) return own;
    if (node.storage) return node.storage.handle;
    const block = allocate(backend, node, label);
    blocks.set(node, block);
    if (node.op.kind === "data") backend.write(block, node.op.bytes);
    return block;
  };
  for (const node of plan.kept) if (node.size === 0 || node.op.kind === "data") blockOf(node);
  plan.kernels.forEach(({ kernel, inputs, outputs }, k) => {
    label = kernel.label;
    const reads = inputs.map(blockOf), writes = outputs.map(blockOf);
    launches[k]!.run(reads, writes);
    activeRecording()?.add(launches[k]!, inputs, reads, writes);
    for (const node of dying[k]!) {
      blocks.get(node)!.release();
      blocks.delete(node);
    }
  });
}

function keepData(backend: Backend, plan: Schedule): void {
  for (const { inputs } of plan.kernels) {
    for (const node of inputs) {
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

/** For each kernel the interior results that nobody reads after it. */
function lastReads(plan: Schedule, kept: ReadonlySet<Node>): Node[][] {
  const last = new Map<Node, number>();
  plan.kernels.forEach(({ inputs, outputs }, k) => {
    for (const node of outputs) if (!kept.has(node)) last.set(node, k);
    for (const node of inputs) if (!kept.has(node) && !node.storage) last.set(node, k);
  });
  const dying: Node[][] = plan.kernels.map(() => []);
  for (const [node, k] of last) dying[k]!.push(node);
  return dying;
}
