/**
 * The expression graph. A node says how a value is made; it is scheduled into kernels when somebody
 * asks for the value. Nodes are immutable but for one step: once a value has been stored, its node
 * becomes a `buffer` and lets go of what it was made from.
 *
 * This folder (`graph/`) is the vocabulary of all planning: nodes, element types, scalar functions,
 * shapes, signatures. It imports `memory/` (what a value is stored in) and nothing else of
 * `backend/`. The tensor layer makes nodes; `schedule/` reads them, `execution/` stores their
 * values.
 *
 * This file is long because the counts of who needs a value are private to the class: one place changes them.
 */
import {
  disown,
  exchange,
  own,
  retire,
  type Storage,
  type StoredValue,
  unretire,
} from "./stored_value.ts";
import { type DType, dtypes } from "./dtype.ts";
import { hasArithmetic, type Op } from "./op.ts";
import { type Shape, sizeOf } from "./shape.ts";

/** Stands for a tensor where the tensor itself must stay collectable. */
export interface Token {
  /** The tensor's present node. */
  node: Node | null;
  /** True for what learns and for what was assigned before: its value will be replaced. */
  isVariable: boolean;
  /** True while `backward` may go through it, or add to it. */
  isRecorded: boolean;
}

/**
 * Need of a value, by a tensor or by what is computed from it.
 *
 * - `none`: nobody can ask for it.
 * - `transient`: a tensor that `backward` has gone through may ask for it, until the next assignment.
 * - `lasting`: a tensor whose value was computed on the way may ask for it again, or a `backward` that
 *   has not run.
 * - `firm`: a computation waits for it.
 */
export type Need = 0 | 1 | 2 | 3;

/** See {@linkcode Need}. */
export const NEED = { none: 0, transient: 1, lasting: 2, firm: 3 } as const;

/** The reason why a computed value is in memory although its node still knows how it was made. */
export interface Saved {
  /** Only the pending computations that read the value want it. */
  readonly isUsed: boolean;
  /** Backward has been called: each value goes when its last reader has been computed. */
  use(): void;
  /** Lets the values go, unless a schedule is about to read them. */
  release(): void;
  /** Keeps it while a schedule runs that reads it. */
  pin(): void;
  /** Takes a `pin` back. */
  unpin(): void;
}

let nextId = 1;

/** The `id` of the next node: those made before have smaller ones. */
export const nextNodeId = (): number => nextId;

/** Operation and inputs of a node once its value has been stored. */
const stored: Op = { kind: "buffer" }, noInputs: readonly Node[] = [];

/** Nodes whose holders have changed, and which may have to hold their inputs otherwise. */
const changed: Node[] = [];
let isUpdating = false;

/** True for a type that memory alone has. */
const isNarrow = (dtype: DType): boolean => dtypes[dtype].computedIn !== undefined;

const hasNarrowType = ({ dtype }: Node): boolean => isNarrow(dtype);

/**
 * An operation in types that kernels compute in (`DTypeInfo.computedIn`): its operands are cast to them, and
 * its result back. A cast goes by way of that type.
 */
function inComputedTypes(
  op: Op,
  inputs: readonly Node[],
  shape: Shape,
  dtype: DType,
  holds: boolean,
): [op: Op, inputs: readonly Node[]] {
  const { computedIn } = dtypes[dtype], cast = { kind: "cast" } as const;
  const isDone = op.kind === "cast" &&
    (inputs[0]!.dtype === computedIn || dtypes[inputs[0]!.dtype].computedIn === dtype);
  if (isDone) return [op, inputs];
  const operands = inputs.map((input) => {
    const wide = dtypes[input.dtype].computedIn;
    return wide ? new Node(cast, [input], input.shape, wide, holds) : input;
  });
  if (!computedIn) return [op, operands];
  return [cast, [new Node(op, operands, shape, computedIn, holds)]];
}

/** One value of the expression graph. */
export class Node {
  /** Grows with creation, so inputs have smaller ids than their users. */
  readonly id: number = nextId++;
  /** The size of each axis. */
  readonly shape: Shape;
  /** The element type. */
  readonly dtype: DType;
  /** The number of elements. */
  readonly size: number;
  /** Operation of the value; `buffer` once it has been stored. */
  op: Op;
  /** Nodes it is made from; empty once it has been stored. */
  inputs: readonly Node[];
  /** Nodes on the longest path to a value in memory, when it was made. */
  readonly depth: number;
  /** The token of the one tensor whose present value this is. */
  token: Token | null = null;
  /** The token of the tensor that it was made for, also after that got another value. */
  owner: Token | null = null;
  /** Set while the stored value is one that can be let go and computed again. */
  saved: Saved | null = null;
  /** The toposort that it was put in last, and its place there. */
  pass = 0;
  /** See `pass`. */
  position = 0;
  /** Tensors and pending nodes that hold it. */
  #holders = 0;
  /** Those of them that are pending nodes. */
  #users = 0;
  /** Computed nodes, and recorded operations, that may need this value again. */
  #lasting = 0;
  /** Computed nodes that backward has gone through, and that may be read until the next assignment. */
  #transient = 0;
  /** Its need of what it is made from. */
  #need: Need = NEED.none;
  /** Its tensor's need of it after it was computed on the way. */
  #exposure: Need = NEED.transient;
  /** True once a schedule has computed it: what it is made from is not needed but to do so again. */
  #isComputed = false;
  #isChanged = false;
  #value: StoredValue | null = null;

  /**
   * Nodes are made by operations on tensors.
   *
   * @param op How the value is made.
   * @param inputs What it is made from.
   * @param shape Its shape.
   * @param dtype Its element type.
   * @param holds False for one that lives as long as a plan is made, and keeps no value; true by
   *   default.
   */
  constructor(op: Op, inputs: readonly Node[], shape: Shape, dtype: DType, holds = true) {
    if ((isNarrow(dtype) || inputs.some(hasNarrowType)) && hasArithmetic(op)) {
      [op, inputs] = inComputedTypes(op, inputs, shape, dtype, holds);
    }
    this.op = op;
    // A copy: V8 makes arrays of literals that lived for a while before in the old generation, where
    // they keep what they hold, a step's whole graph, until a full collection.
    this.inputs = inputs.length === 0 ? noInputs : inputs.slice();
    this.shape = shape;
    this.dtype = dtype;
    this.size = sizeOf(shape);
    let depth = 0;
    for (const input of inputs) {
      if (input.inputs.length > 0 && input.depth > depth) depth = input.depth;
      if (!holds) continue;
      input.#holders++;
      input.#users++;
      if (input.#isSoft) input.#changed();
    }
    this.depth = depth + 1;
    if (holds && inputs.length > 0) this.#need = NEED.firm;
    if (changed.length > 0) update();
  }

  /** A node for a value that is in memory; takes over one reference on `storage`. */
  static stored(storage: Storage, shape: Shape, dtype: DType): Node {
    const node = new Node(stored, noInputs, shape, dtype);
    node.#isComputed = true;
    node.#own(storage, false);
    return node;
  }

  /**
   * A node for a value that came from the host, and that no kernel has read yet; takes over one
   * reference on `storage`. With `stays` (default: false) it is not among those that go back to the
   * host.
   */
  static uploaded(storage: Storage, shape: Shape, dtype: DType, stays = false): Node {
    const node = Node.stored(storage, shape, dtype);
    node.#value!.patience = Infinity;
    node.#value!.stays = stays;
    return node;
  }

  /** The stored value, row-major and contiguous; null while it is only a promise. */
  get storage(): Storage | null {
    return this.#value === null ? null : this.#value.storage;
  }

  /** True when nothing has to be computed: the value is in memory, on the device or on the host. */
  get isLeaf(): boolean {
    return this.storage !== null || this.op.kind === "data" || this.#isSpilled;
  }

  /** True where what it holds, or whether it stays, depends on how many hold it firmly. */
  get #isSoft(): boolean {
    if (this.#need !== NEED.firm && this.inputs.length > 0) return true;
    return this.#value !== null && this.#value.retired !== null;
  }

  get #isSpilled(): boolean {
    return this.#value !== null && this.#value.spilled !== null;
  }

  /** True once a schedule has computed it, whether its value is still in memory or not. */
  get isComputed(): boolean {
    return this.#isComputed;
  }

  /** Number of tensors and pending nodes that hold this value. */
  get holders(): number {
    return this.#holders;
  }

  /** Number of pending nodes that read this value. */
  get users(): number {
    return this.#users;
  }

  /** True while anything may ask for this value. */
  get isNeeded(): boolean {
    return this.#holders + this.#lasting + this.#transient > 0;
  }

  /** Registers one more that may ask for this value. */
  hold(): void {
    this.#holders++;
    if (this.#isSoft) this.#touch();
  }

  /** Takes back one `hold`; the last one frees the stored value, unless it may be needed again. */
  drop(): void {
    this.#holders--;
    if (this.#isComputed || this.#holders <= 0) this.#touch();
  }

  /** Registers a recorded operation: `backward` may need this value. */
  holdForBackward(): void {
    this.#lasting++;
  }

  /** Takes back one `holdForBackward`. */
  dropForBackward(): void {
    this.#lasting--;
    if (this.#isComputed || this.#holders <= 0) this.#touch();
  }

  /** Its tensor's need of it after it was computed on the way to something else. */
  get exposure(): Need {
    return this.#exposure;
  }

  set exposure(need: Need) {
    this.#exposure = need;
    if (this.#isComputed) this.#touch();
  }

  /** It is the present value of a tensor. */
  bind(token: Token): void {
    this.token = this.owner = token;
    if (token.isVariable && this.#value !== null) this.#value.stays = true;
  }

  /** Its tensor is gone, or has another value. */
  unbind(): void {
    this.token = null;
    if (this.#value !== null) this.#value.stays = false;
    if (this.#isComputed) this.#touch();
  }

  /**
   * A schedule has computed these values on the way.
   *
   * @param nodes Inputs come before their users.
   */
  static markComputed(nodes: readonly Node[]): void {
    for (const node of nodes) {
      if (node.inputs.length === 0) continue;
      node.#isComputed = true;
      node.#changed();
    }
    update();
  }

  /** The value is in memory now: takes over one reference on `storage`, cuts the history. */
  store(storage: Storage): void {
    this.#setNeed(NEED.none);
    this.#isComputed = true;
    this.#own(storage, false);
    this.#cut();
    this.#touch();
  }

  /** True where the stored value may be changed: the one who holds the node is the last who needs it. */
  get isLent(): boolean {
    const others = this.#holders - 1 + this.#lasting + this.#transient;
    return others === 0 && this.saved === null && (this.storage?.references ?? 1) === 1;
  }

  /**
   * Takes over `storage` in place of the stored value, if its tensor alone has that.
   *
   * @param ended Gets the former one's last reference.
   * @returns False where others have the stored value, or may need it again: nothing is changed.
   */
  exchange(storage: Storage, ended: (former: Storage) => void): boolean {
    const others = this.#holders - 1 + this.#lasting + this.#transient;
    if (others > 0 || this.token === null || this.saved !== null) return false;
    return this.#value !== null && exchange(this.#value, storage, ended);
  }

  /** The value is in memory for as long as somebody may soon ask for it. */
  save(storage: Storage, saved: Saved): void {
    this.#isComputed = true;
    this.#own(storage, true);
    this.saved = saved;
    this.#touch();
  }

  /** A saved value stays from now on, as if it had been stored. */
  keep(): void {
    if (!this.saved) return;
    this.saved = null;
    this.#value!.isSaved = false;
    this.#setNeed(NEED.none);
    this.#cut();
    update();
  }

  /** Lets a saved value go: it can be computed again. */
  forget(): void {
    if (!this.saved) return;
    this.saved = null;
    this.#disown();
    this.#touch();
  }

  /** The value is asked for: what it is made from stays until it is computed. */
  require(): void {
    if (!this.#isComputed || this.inputs.length === 0) return;
    this.#isComputed = false;
    this.#touch();
  }

  /**
   * Backward is through with it, or what is computed from it goes around it, as a cast does around a view:
   * unless a pending computation reads it, it holds what it is made from as if it had been computed.
   */
  subside(): void {
    if (this.#isComputed || this.inputs.length === 0) return;
    this.#isComputed = true;
    if (this.#users === 0) this.#touch();
  }

  /** The value is read now: it is not among those that go to the host because nobody does. */
  noteUse(): void {
    if (this.#value !== null) this.#value.patience = 1;
  }

  /** Lets the value go, if only activations of former steps may need it. */
  releaseTransient(): void {
    if (this.#value?.retired === "transient") this.#disown();
  }

  /** A value that was moved to the host is one of host data from now on. */
  unspill(): void {
    if (!this.#isSpilled) return;
    this.op = { kind: "data", bytes: this.#value!.spilled! };
    this.#value!.spilled = null;
  }

  /** A number is one of host data from now on, these bytes. */
  becomeData(bytes: Uint8Array<ArrayBuffer>): void {
    if (this.op.kind === "constant") this.op = { kind: "data", bytes };
  }

  /** The value, which nobody else holds, stays on the host alone. */
  keepOnHost(bytes: Uint8Array<ArrayBuffer>): void {
    const { storage } = this;
    if (storage === null || storage.references > 1 || this.op.kind !== "buffer") return;
    this.op = { kind: "data", bytes };
    this.#disown();
  }

  #cut(): void {
    this.op = stored;
    this.inputs = noInputs;
  }

  #own(storage: Storage, isSaved: boolean): void {
    this.#disown();
    this.#value = own(this, this.#value, storage, isSaved);
    if (this.token !== null && this.token.isVariable) this.#value.stays = true;
  }

  #disown(): void {
    if (this.#value !== null) disown(this.#value);
  }

  #touch(): void {
    this.#changed();
    update();
  }

  #changed(): void {
    if (this.#isChanged) return;
    this.#isChanged = true;
    changed.push(this);
  }

  /** Applies a change of its holders: frees the stored value, or holds its inputs otherwise. */
  react(): void {
    this.#isChanged = false;
    const { saved } = this;
    const isWanted = this.#holders + this.#lasting > 0;
    if (saved !== null && (!isWanted || this.#users === 0 && saved.isUsed)) this.forget();
    if (this.inputs.length > 0) return this.#setNeed(this.#present);
    if (this.storage === null) return;
    if (this.#holders > 0) unretire(this.#value!);
    else if (this.#soft === NEED.none) this.#disown();
    else retire(this.#value!, this.#soft === NEED.lasting);
  }

  /** Need of what it is made from. */
  get #present(): Need {
    if (this.#holders > 0 && (this.#users > 0 || !this.#isComputed)) {
      // What reads a saved value waits for nothing that it is made from.
      return this.saved !== null && this.#isComputed ? NEED.lasting : NEED.firm;
    }
    const own = this.token === null || this.#holders <= 0 ? NEED.none : this.#exposure;
    const soft = this.#soft;
    return own > soft ? own : soft;
  }

  /** Possible later need by those that are computed. */
  get #soft(): Need {
    return this.#lasting > 0 ? NEED.lasting : this.#transient > 0 ? NEED.transient : NEED.none;
  }

  /** Counts one more, or one less, that needs it so strongly. */
  #count(need: Need, change: 1 | -1): void {
    if (need === NEED.firm) {
      this.#holders += change;
      this.#users += change;
    } else if (need === NEED.lasting) this.#lasting += change;
    else if (need === NEED.transient) this.#transient += change;
  }

  #setNeed(need: Need): void {
    const former = this.#need;
    if (need === former) return;
    this.#need = need;
    for (const input of this.inputs) {
      input.#count(former, -1);
      input.#count(need, 1);
      if (input.inputs.length > 0 || input.#holders <= 0 || input.#isSoft) input.#changed();
    }
  }
}

/** Applies all changes one by one: a change may go along a chain of any length. */
function update(): void {
  if (isUpdating || changed.length === 0) return;
  isUpdating = true;
  try {
    while (changed.length > 0) changed.pop()!.react();
  } finally {
    isUpdating = false;
  }
}
