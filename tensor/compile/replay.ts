/** Launches what was recorded with the memory of another call, and gives its tensors their values. */
import {
  backendOf,
  type Block,
  busyWith,
  Node,
  realize,
  releaseTransient,
  relieve,
} from "../../backend/internal.ts";
import { releasingTogether, Storage } from "../../memory/mod.ts";
import { noGradFn } from "../core/grad_fn.ts";
import { presentGradientReceiver } from "../core/gradient_receiver.ts";
import { presentSeed, takeOffset } from "../core/random_state.ts";
import type { Tensor } from "../core/mod.ts";
import { GradientMarks } from "./gradient_marks.ts";
import type { Ref } from "./patterns.ts";
import type { BlockSlot, RecordedProgram, Target } from "./program.ts";
import { openResult } from "./stand_in.ts";
import { fulfil, isTensor, nodeOf, stateOf } from "../core/internals.ts";

/** Gradient function of a replayed result: its origin is not known. */
const replayed = noGradFn(
  "compiled",
  "Cannot go backward through what a compiled function returned: call backward() inside the " +
    "function, or do not compile it",
);

/**
 * True where a program can be replayed for a call that was followed to its end: it gives all that is used
 * after it, its random numbers have
 * the seed that they were recorded with (kernels have it in them), tensors that shared memory share it
 * still, what an optimizer remembers is there, and so is the device that it was recorded on.
 */
export function isReplayable(program: RecordedProgram): boolean {
  if (program.memory !== backendOf(program.device).memory) return false;
  // Since it was recorded somebody has used what it would not compute.
  if (program.inner.some(({ place }) => place!.isCarried)) return false;
  if (program.offsets.length > 0 && program.seed !== presentSeed()) return false;
  return program.slots.every((slot) => {
    if (slot.kind === "state") return slot.token.node !== null;
    if (slot.kind !== "role" || slot.refs.length === 1) return true;
    const [first, ...others] = slot.refs.map((ref) => presentBlock(nodeOf(ref.tensor!), program));
    return others.every((block) => block === first);
  });
}

/** Effects of a call beside what it returns and assigns. */
export interface CallEffects {
  /** Leaves with the stand-ins of the gradients that the call leaves them. */
  left(): readonly (readonly [leaf: Tensor, gradient: Tensor])[];
  /** Takes back what was done to gradients so far. */
  restore(): void;
  /** Does what had to wait for the replay. */
  applyDeferred(): void;
}

/** Replays a program for a call; `results` get their values. */
export function replay(
  program: RecordedProgram,
  effects: CallEffects,
  results: readonly Tensor[],
): void {
  const { offsets, launches, assigned, slots } = program;
  for (const offset of offsets) offset.value = takeOffset();
  if (assigned.length > 0) releaseTransient(backendOf(program.device).memory);
  const blocks: Block[] = [], places = new Map<number, Block>(), nodes: Node[] = [];
  // By the slots of the next ones. Memory is taken before anything is launched: behind that, only a driver that
  // refuses a launch can leave some values changed and others not.
  const updated = new Map<number, Storage<unknown>>();
  try {
    const marks = marksFor(program, effects, blocks);
    // Where memory is short or grows, no value may go that the call reads, nor one that has its place already.
    busyWith(nodes, () => {
      nodes.push(...realizeAll(slots, program));
      for (const slot of program.changed) nodes.push(makeOwn(slots[slot]!, program));
      marks?.allocate(places);
      for (let k = 0; k < slots.length; k++) {
        const former = places.has(k) ? null : formerValue(k, program);
        if (former !== null) updated.set(k, former);
        blocks.push(places.get(k) ?? former?.handle ?? blockOf(slots[k]!, k, program));
        places.delete(k);
      }
    }, blocks);
    marks?.passed(-1);
    let firstUpdate = Infinity;
    for (const slot of updated.keys()) {
      firstUpdate = Math.min(firstUpdate, program.lastWrites[slot]!);
    }
    launches.run(backendOf(program.device), blocks, (k) => holderOf(slots[k]!), marks, firstUpdate);
  } catch (error) {
    blocks.forEach((block, k) => {
      if (slots[k]!.kind === "fresh" && !updated.has(k)) block.release();
    });
    for (const block of places.values()) block.release();
    effects.restore();
    throw error;
  }
  releasingTogether(() => deliver(program, blocks, updated, effects, results));
  effects.applyDeferred();
  relieve(backendOf(program.device), 0);
}

/** Marks of gradients on the way; null where nobody waits for them. */
function marksFor(
  program: RecordedProgram,
  effects: CallEffects,
  blocks: readonly Block[],
): GradientMarks | null {
  const receiver = presentGradientReceiver();
  return receiver && new GradientMarks(receiver, program, effects.left(), blocks);
}

/** Computes what the call uses and nobody has computed yet, in as few kernels as may be; gives back all that it uses. */
function realizeAll(slots: readonly BlockSlot[], { device }: RecordedProgram): Node[] {
  const nodes = slots.flatMap((slot) =>
    slot.kind === "role"
      ? [nodeOf(slot.refs[0]!.tensor!)]
      : slot.kind === "state"
      ? [slot.token.node!]
      : []
  );
  const pending = nodes.filter(({ storage }) => storage === null);
  // What memory grows by on the way takes values that were not used of late.
  if (pending.length > 0) busyWith(nodes, () => realize(backendOf(device), pending));
  for (const node of nodes) node.noteUse();
  return nodes;
}

/** A value that is changed where it is must be its tensor's alone. */
function makeOwn(slot: BlockSlot, { device }: RecordedProgram): Node {
  if (slot.kind !== "role") throw new Error("A recorded call changes a value that is no tensor's");
  const [{ tensor }] = slot.refs as [Ref], node = nodeOf(tensor!);
  if (!node.isLent) {
    const copy = new Node({ kind: "copy" }, [node], node.shape, node.dtype);
    stateOf(tensor!).replace(copy);
    realize(backendOf(device), [copy]);
  }
  const own = nodeOf(tensor!);
  own.storage!.markWritten();
  return own;
}

/** The value of a tensor that a slot's is written over, as its next one; null where others need it. */
function formerValue(k: number, { slots, updates }: RecordedProgram): Storage<unknown> | null {
  const at = updates.get(k), slot = at === undefined ? undefined : slots[at]!;
  if (slot?.kind !== "role" && slot?.kind !== "state") return null;
  const node = slot.kind === "role" ? nodeOf(slot.refs[0]!.tensor!) : slot.token.node!;
  if (!node.isLent) return null;
  node.storage!.markWritten();
  return node.storage;
}

function blockOf(slot: BlockSlot, k: number, program: RecordedProgram): Block {
  switch (slot.kind) {
    case "role":
      return nodeOf(slot.refs[0]!.tensor!).storage!.handle;
    case "state":
      return slot.token.node!.storage!.handle;
    case "constant":
      return slot.storage.handle as Block;
    case "fresh":
      return program.former?.take(k) ?? backendOf(program.device).memory.allocate(slot.nbytes);
    case "scratch":
      return slot.block;
  }
}

function presentBlock(node: Node, { device }: RecordedProgram): Block {
  if (!node.storage) realize(backendOf(device), [node]);
  return node.storage!.handle;
}

/** Present holder of a slot's value, where it is no new one. */
function holderOf(slot: BlockSlot): Storage<unknown> | null {
  if (slot.kind === "role") return nodeOf(slot.refs[0]!.tensor!).storage;
  if (slot.kind === "state") return slot.token.node!.storage;
  return slot.kind === "constant" ? slot.storage : null;
}

/** Gives assigned tensors their next values, and stand-ins that may be used after the call theirs. */
function deliver(
  program: RecordedProgram,
  blocks: readonly Block[],
  updated: ReadonlyMap<number, Storage<unknown>>,
  effects: CallEffects,
  results: readonly Tensor[],
): void {
  const { device, slots } = program, { memory } = backendOf(device);
  const storages: (Storage<unknown> | undefined)[] = [];
  const take = ({ slot }: Target): Storage<unknown> => {
    const known = storages[slot] ?? updated.get(slot) ?? holderOf(slots[slot]!);
    return storages[slot] = known?.retain() ?? new Storage(memory, blocks[slot]!);
  };
  // All are taken before one is replaced: a tensor may get the value that another had.
  const next = program.assigned.map(take), values = program.results.map((r) => r && take(r));
  const gradients = program.gradients.map(take), carried = program.carried.map(take);
  const given = new Set<Tensor>();
  const give = (standIn: Tensor, storage: Storage<unknown>, { like }: Target): void => {
    if (!given.has(standIn)) {
      given.add(standIn);
      return become(standIn, Node.stored(storage, like.shape, like.dtype));
    }
    storage.release();
    // A gradient that is a result, too.
    stateOf(standIn).isShared = true;
  };
  values.forEach((storage, k) => storage && give(results[k]!, storage, program.results[k]!));
  program.carried.forEach((target, k) => give(target.ref.tensor!, carried[k]!, target));
  program.assigned.forEach(({ to, slot }, k) => {
    const state = stateOf(isTensor(to) ? to : to.tensor!);
    state.replaceStored(next[k]!, (former) => keepPlace(slot, former, program));
  });
  effects.left().forEach(([, standIn], k) => {
    give(standIn, gradients[k]!, program.gradients[k]!);
  });
}

/** Keeps the place of a former value for the next one but one of its tensor, where that is of use. */
function keepPlace(
  slot: number,
  ended: Storage<unknown>,
  { former, slots }: RecordedProgram,
): void {
  const target = slots[slot]!;
  const fits = former !== null && target.kind === "fresh" && ended.nbytes === target.nbytes;
  if (fits) former.keep(slot, ended);
  else ended.release();
}

function become(standIn: Tensor, node: Node): void {
  const { requiresGrad } = openResult(standIn)!;
  fulfil(standIn, node);
  if (requiresGrad) stateOf(standIn).record(replayed);
}

/** Results have no graph, in no call: who would go backward through them is told so in the first one. */
export function cutOff(results: readonly Tensor[]): void {
  for (const tensor of results) if (stateOf(tensor).isRecorded) stateOf(tensor).record(replayed);
}
