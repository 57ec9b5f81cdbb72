/**
 * Tensors that nothing has been computed from yet, such as metrics: when a value that they depend on is
 * replaced, they are computed in the same schedule, so that they need not keep it.
 */
import type { DeviceHandle, Node } from "../../backend/internal.ts";

/** So many are held in one turn of the event loop at most. */
const MIN_SWEEP = 1024;

/** A state that is passed on from step to step unread is computed when it is so many operations long. */
const MAX_DEPTH = 100;

/** The pending nodes of one device's tensors. */
class Unread {
  /** Made in this turn. */
  #recent: Node[] = [];
  /** Made before, and held so that the collector can have them. */
  #older: WeakRef<Node>[] = [];
  #sweepAt = MIN_SWEEP;
  #isTurnWatched = false;

  add(node: Node): void {
    if (this.#recent.push(node) >= this.#sweepAt) return this.#sweep();
    if (this.#isTurnWatched) return;
    this.#isTurnWatched = true;
    queueMicrotask(() => {
      this.#isTurnWatched = false;
      this.#sweep();
    });
  }

  #sweep(): void {
    const open = this.#open();
    this.#older = open.map((node) => new WeakRef(node));
    this.#recent = [];
    this.#sweepAt = MIN_SWEEP + open.length;
  }

  #open(): Node[] {
    const older = this.#older.map((reference) => reference.deref()).filter((node) => !!node);
    return [...older, ...this.#recent].filter(isUnread);
  }

  /** Those that depend on a value that was replaced; the others stay, and those that are `known`. */
  take(known: (node: Node) => boolean): Node[] {
    if (this.#recent.length + this.#older.length === 0) return [];
    const open = this.#open();
    const taken = open.filter((node) =>
      !known(node) && (node.depth > MAX_DEPTH || dependsOnFormer(node))
    );
    this.#recent = taken.length === 0 ? open : open.filter((node) => !taken.includes(node));
    this.#older = [];
    return taken;
  }
}

function isUnread(node: Node): boolean {
  return node.users === 0 && node.token !== null && !node.isComputed && !node.isLeaf;
}

/** True for a value that its tensor no longer has, since it was assigned another one. */
function isFormer(node: Node): boolean {
  const { owner } = node;
  return owner !== null && owner.node !== null && owner.node !== node;
}

function dependsOnFormer(root: Node): boolean {
  return reaches(root, isFormer);
}

/** True where a value is computed from one that is learned, or that was assigned before. */
export function dependsOnVariable(root: Node): boolean {
  return reaches(root, ({ owner }) => owner !== null && owner.isVariable);
}

/** Whether one of the values in memory that a node is computed from is such a one. */
function reaches(root: Node, isSuch: (leaf: Node) => boolean): boolean {
  const seen = new Set([root]);
  for (const node of seen) {
    if (!node.isLeaf) { for (const input of node.inputs) seen.add(input); }
    else if (isSuch(node)) return true;
  }
  return false;
}

const unread = new Map<DeviceHandle, Unread>();

/** Notes a tensor's pending value. */
export function noteUnread(node: Node, device: DeviceHandle): void {
  let known = unread.get(device);
  if (!known) unread.set(device, known = new Unread());
  known.add(node);
}

/** The pending values on a device that depend on values which were replaced, but for `known` ones. */
export function takeUnread(device: DeviceHandle, known: (node: Node) => boolean): Node[] {
  return unread.get(device)?.take(known) ?? [];
}
