/**
 * Work of a device beside what is asked for. One object a device knows all of it: the next
 * schedule takes it from here.
 */
import {
  type Companion,
  type DeviceHandle,
  isRecording,
  isView,
  NEED,
  type Node,
} from "../../backend/internal.ts";
import type { Tensor } from "./mod.ts";
import { isFollowing, resolved } from "./calls.ts";
import type { TensorState } from "./tensor_state.ts";

/** So many are held in one turn of the event loop at most. */
const MIN_SWEEP = 1024;

/** Those that were computed since are let go when so many are new: each holds what it was made from. */
const MIN_PRUNE = 64;

/** Small values that wait are computed when so much has come from the host since: they hold what they are made from. */
const MAX_WAITED_BYTES = 1 << 24;

/** Elements of a small value. */
const MAX_SMALL = 1 << 16;

/** A state that is passed on from step to step unread is computed when it is so many operations long. */
const MAX_DEPTH = 100;

/**
 * The pending nodes of tensors that nothing has been computed from yet, such as metrics: when a value that
 * they depend on is replaced, they are computed in the same schedule, so that they need not keep it.
 */
class UnreadNodes {
  /** Made in this turn. */
  #recent: Node[] = [];
  /** Made before, and held so that the collector can have them. */
  #older: WeakRef<Node>[] = [];
  #pruneAt = MIN_PRUNE;
  #isTurnWatched = false;

  get isEmpty(): boolean {
    return this.#recent.length + this.#older.length === 0;
  }

  add(node: Node): void {
    if (this.#recent.push(node) >= this.#pruneAt) this.prune();
    if (this.#isTurnWatched) return;
    this.#isTurnWatched = true;
    queueMicrotask(() => {
      this.#isTurnWatched = false;
      this.#sweep();
    });
  }

  /** Lets go of those that were computed since. */
  prune(): void {
    const open = this.#recent.filter(isPending);
    if (open.length >= MIN_SWEEP + this.#older.length) return this.#sweep();
    this.#recent = open;
    this.#pruneAt = 2 * open.length + MIN_PRUNE;
  }

  #sweep(): void {
    this.#older = this.#open().map((node) => new WeakRef(node));
    this.#recent = [];
    this.#pruneAt = MIN_PRUNE;
  }

  #open(): Node[] {
    const older = this.#older.map((reference) => reference.deref()).filter((node) => !!node);
    return [...older, ...this.#recent].filter(isUnread);
  }

  /** Those that depend on a value that was replaced; the others stay, and those that are `known`. */
  take(known: (node: Node) => boolean): Node[] {
    const open = this.#open();
    const taken = open.filter((node) =>
      !known(node) && (node.depth > MAX_DEPTH || dependsOnFormer(node))
    );
    this.#recent = taken.length === 0 ? open : open.filter((node) => !taken.includes(node));
    this.#older = [];
    return taken;
  }

  /** Small values that no backward goes through, such as hits that are counted over many batches. */
  small(): Node[] {
    return this.#open().filter(({ size, token }) =>
      size <= MAX_SMALL && token?.isRecorded === false
    );
  }
}

/** A pending value is carried from step to step only where it is so many operations long. */
const MIN_CARRIED_DEPTH = 8;

/**
 * Pending values that tensors carry from one step into the next, such as a queue of keys that grows at one
 * end, or a running mean: each is stored, or what it was made from would be computed, and held, for ever.
 */
class CarriedNodes {
  #nodes: Node[] = [];
  /** Met before. */
  readonly #met = new WeakSet<Node>();

  /**
   * Looks below a value that is computed next: what was met below an earlier one, and is now below a
   * tensor's new value, is carried. Activations are met by each walk through a graph that is kept, below
   * gradients.
   */
  meet(root: Node): void {
    const seen = new Set([root]), below = new Set<Node>();
    for (const node of seen) {
      if (node.isLeaf || node.depth < MIN_CARRIED_DEPTH) continue;
      if (below.has(node) && this.#isCarried(node)) {
        this.#nodes.push(node);
        continue;
      }
      const isNew = node !== root && isHeld(node) && !this.#met.has(node);
      for (const input of node.inputs) {
        seen.add(input);
        if (isNew || below.has(node)) below.add(input);
      }
      if (node.token !== null) this.#met.add(node);
    }
  }

  #isCarried(node: Node): boolean {
    const { inputs, size } = node, [only] = inputs;
    // What only spreads or turns another value is not worth memory of its own.
    if (inputs.length === 1 && this.#wasMet(only!)) return false;
    return this.#wasMet(node) && inputs.some((input) => input.size >= size / inputs.length);
  }

  #wasMet(node: Node): boolean {
    return this.#met.has(node) && isHeld(node);
  }

  take(): readonly Node[] {
    if (this.#nodes.length === 0) return none;
    const nodes = [...new Set(this.#nodes)].filter(isHeld);
    this.#nodes = [];
    return nodes;
  }
}

/** True for a tensor's value that is not in memory, whether a schedule has computed it on the way or not. */
function isHeld(node: Node): boolean {
  return node.token !== null && node.exposure === NEED.lasting && !node.isLeaf;
}

function isPending(node: Node): boolean {
  return node.token !== null && !node.isComputed && !node.isLeaf;
}

function isUnread(node: Node): boolean {
  return node.users === 0 && isPending(node);
}

/** True for a value that its tensor no longer has, since it was assigned another one. */
function isFormer(node: Node): boolean {
  const { owner } = node;
  return owner !== null && owner.node !== null && owner.node !== node;
}

function dependsOnFormer(root: Node): boolean {
  return reaches(root, isFormer);
}

/**
 * True where a value is computed from one that is learned, or that was assigned before; but for a former value
 * that a tensor holds as it lies, such as a teacher's weights: it changes no more, and goes with that tensor.
 */
export function dependsOnVariable(root: Node): boolean {
  return reaches(root, ({ owner }) => owner !== null && owner.isVariable, holdsFormer);
}

/** True for a tensor's view of a value that its first tensor no longer has. */
function holdsFormer(node: Node): boolean {
  if (node.token === null) return false;
  let at = node;
  while (!at.isLeaf && isView(at.op)) at = at.inputs[0]!;
  return at !== node && at.isLeaf && isFormer(at);
}

/**
 * True when one of the values in memory that a node is computed from is such a one. Nothing below a node that
 * `isEnough` is looked at.
 */
function reaches(
  root: Node,
  isSuch: (leaf: Node) => boolean,
  isEnough: (node: Node) => boolean = () => false,
): boolean {
  const seen = new Set([root]);
  for (const node of seen) {
    if (node.isLeaf) {
      if (isSuch(node)) return true;
    } else if (!isEnough(node)) { for (const input of node.inputs) seen.add(input); }
  }
  return false;
}

/** Operations on the longest way from a pending value to one that was made after it; 0 where none leads there. */
function pathBetween(from: Node, to: Node): number {
  const between = new Set([to]);
  for (const { inputs } of between) {
    for (const input of inputs) if (input.id > from.id) between.add(input);
  }
  const lengths = new Map([[from, 0]]);
  for (const node of [...between].sort((a, b) => a.id - b.id)) {
    let length = -1;
    for (const input of node.inputs) length = Math.max(length, lengths.get(input) ?? -1);
    if (length >= 0) lengths.set(node, length + 1);
  }
  return lengths.get(to) ?? 0;
}

/** The pending work of one device. */
export class PendingWork {
  /**
   * Tensors that are computed by the next schedule, such as those that were assigned a value: the former
   * one, from which it may be computed, goes with the next `assign`. With one that was assigned several
   * since the last schedule is the first of them. A new map whenever it is empty: V8 links the former tables of a map to
   * the present one, and with them, until a full collection, all that was ever in it.
   */
  #assignments = new Map<Tensor, Node | null>();
  /** Roots of `backward` that no schedule has computed yet; nobody may want them any more. */
  #roots: WeakRef<TensorState>[] = [];
  readonly #unread = new UnreadNodes();
  readonly #carried = new CarriedNodes();
  #hasAssigned = false;
  #waitedBytes = 0;

  /** True when tensors wait for the next schedule. */
  get hasAssignments(): boolean {
    return this.#assignments.size > 0;
  }

  /** Has a tensor computed by the next schedule. */
  addAssignment(tensor: Tensor): void {
    if (!this.#assignments.has(tensor)) this.#assignments.set(tensor, null);
  }

  /**
   * True for the next value of a state that was assigned others since the last schedule, where many
   * operations lead from the first of these to it: what is computed now is planned once, for all steps.
   */
  isLong(tensor: Tensor, present: Node, next: Node): boolean {
    const first = this.#assignments.get(tensor);
    if (first === undefined) return false;
    if (first === null) this.#assignments.set(tensor, present);
    const from = first ?? present;
    return next.depth - from.depth > MAX_DEPTH && pathBetween(from, next) > MAX_DEPTH;
  }

  /** The tensor is asked for now; true where it waited for the next schedule. */
  deleteAssignment(tensor: Tensor): boolean {
    const waited = this.#assignments.delete(tensor);
    if (waited && this.#assignments.size === 0) this.#assignments = new Map();
    return waited;
  }

  /** The tensors that wait for the schedule which is made now. */
  takeAssignments(): readonly Tensor[] {
    if (this.#assignments.size === 0) return none;
    const open = [...this.#assignments.keys()].filter((t) => !t.disposed && !t.isRealized);
    this.#assignments = new Map();
    return open;
  }

  /**
   * Has a root of `backward` computed by the schedule that uses its gradients: a loss belongs to the step
   * that they make, and parameters change in it.
   */
  addRoot(root: TensorState): void {
    this.#roots.push(new WeakRef(root));
  }

  /**
   * The roots that are not computed yet, with the gradients that they belong to. Where these are gone no
   * schedule will compute them: the root has nothing to go with.
   */
  roots(): readonly Companion[] {
    if (this.#roots.length === 0) return none;
    const open: Companion[] = [];
    // A call of `backward` may have many roots, such as every number on the way: it is asked once.
    let asked: TensorState["coScheduled"] = null, gradients: readonly Node[] = none;
    this.#roots = this.#roots.filter((reference) => {
      const root = reference.deref();
      if (!root || root.lifecycle === "disposed" || root.node.isLeaf) return false;
      if (root.coScheduled !== asked) {
        asked = root.coScheduled;
        gradients = root.coScheduledNodes();
      }
      if (gradients.length === 0) return false;
      open.push({ root: root.node, with: gradients });
      return true;
    });
    return open;
  }

  /**
   * Looks below a value that is computed next, and through which no backward goes, for what steps pass on
   * to each other. A recorded call computes nothing beside what it gives.
   */
  meet(node: Node): void {
    if (!isRecording()) this.#carried.meet(node);
  }

  /** Values that steps pass on, which the schedule that is made now computes. */
  takeCarried(): readonly Node[] {
    return this.#carried.take();
  }

  /**
   * Notes bytes that came from the host.
   *
   * @returns Small values to compute now: what they are made from would be held for ever. A step computes those
   * beside its gradients.
   */
  takeSmall(bytes: number): readonly Node[] {
    this.#waitedBytes += bytes;
    if (this.#waitedBytes < MAX_WAITED_BYTES || this.#unread.isEmpty) return none;
    if (this.roots().length > 0) return none;
    this.#waitedBytes = 0;
    return this.#unread.small();
  }

  /** Notes a tensor's pending value, which nothing has been computed from. */
  addUnread(node: Node): void {
    this.#unread.add(node);
  }

  /** Notes that a tensor has another value than before. */
  noteAssignment(): void {
    this.#hasAssigned = true;
  }

  /** True when a tensor has got another value since this was asked last. */
  takeHasAssigned(): boolean {
    const had = this.#hasAssigned;
    this.#hasAssigned = false;
    return had;
  }

  /** Unread values that depend on values which were replaced, but for `known` ones. */
  takeUnread(known: readonly Companion[]): readonly Node[] {
    if (this.#unread.isEmpty) return none;
    return this.#unread.take((node) => known.some(({ root }) => root === node));
  }

  /** Lets go of unread values that a schedule has computed, and of the graph behind them. */
  forgetComputed(): void {
    if (!this.#unread.isEmpty) this.#unread.prune();
  }
}

const none: readonly never[] = [];

const works = new Map<DeviceHandle, PendingWork>();
/** The device that was asked about last. */
let last: DeviceHandle | null = null, workOfLast: PendingWork | null = null;

/** The pending work of a device. */
export function pendingOn(device: DeviceHandle): PendingWork {
  if (device === last) return workOfLast!;
  let work = works.get(device);
  if (!work) works.set(device, work = new PendingWork());
  last = device;
  return workOfLast = work;
}

/** Devices that tensors wait on for the next schedule. */
export function devicesWithAssignments(): DeviceHandle[] {
  return [...works].filter(([, work]) => work.hasAssignments).map(([device]) => device);
}

/** Has a tensor computed by the next schedule of its device. */
export function computeWithNext(tensor: Tensor): void {
  if (isFollowing()) return;
  const real = resolved(tensor);
  pendingOn(real.device).addAssignment(real);
}
