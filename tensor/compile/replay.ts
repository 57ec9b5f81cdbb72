/** Launches what was recorded with the memory of another call, and gives its tensors their values. */
import {
  backendOf,
  type Block,
  busyWith,
  Node,
  realize,
  releaseTransient,
} from "../../backend/internal.ts";
import { releasingTogether, Storage } from "../../memory/mod.ts";
import { noGradFn } from "../core/grad_fn.ts";
import { presentGradientReceiver } from "../core/gradient_receiver.ts";
import { tensorsIn, withTensors } from "../core/nested.ts";
import { presentSeed, takeOffset } from "../core/random_state.ts";
import type { Tensor } from "../core/tensor.ts";
import { GradientMarks } from "./gradient_marks.ts";
import type { BlockSlot, RecordedProgram, Target } from "./program.ts";
import { openResult } from "./stand_in.ts";
import type { Trace } from "./trace.ts";
import { isTensor, makeTensor, nodeOf, setGradient, stateOf } from "../core/internals.ts";

/** What a tensor that a replay returned was computed from is not known. */
const replayed = noGradFn(
  "compiled",
  "Cannot go backward through what a compiled function returned: call backward() inside the " +
    "function, or do not compile it",
);

/**
 * True where a program can be replayed for a call that was followed to its end: its random numbers have
 * the seed that they were recorded with (kernels have it in them), tensors that shared memory share it
 * still, what an optimizer remembers is there, and so is the device that it was recorded on.
 */
export function isReplayable(program: RecordedProgram): boolean {
  if (program.memory !== backendOf(program.device).memory) return false;
  if (program.offsets.length > 0 && program.seed !== presentSeed()) return false;
  return program.slots.every((slot) => {
    if (slot.kind === "state") return slot.token.node !== null;
    if (slot.kind !== "role" || slot.refs.length === 1) return true;
    const [first, ...others] = slot.refs.map((ref) => presentBlock(nodeOf(ref.tensor!), program));
    return others.every((block) => block === first);
  });
}

/** Replays a program for a call; returns what the function returned, with its values. */
export function replay<R>(program: RecordedProgram, trace: Trace, value: R): R {
  const { offsets, launches, assigned, slots } = program;
  for (const offset of offsets) offset.value = takeOffset();
  if (assigned.length > 0) releaseTransient(backendOf(program.device).memory);
  const blocks: Block[] = [], places = new Map<number, Block>();
  try {
    const marks = marksFor(program, trace, blocks);
    // Where memory is short, no value may go that has its place already.
    busyWith([], () => {
      realizeAll(slots, program);
      marks?.allocate(places);
      for (let k = 0; k < slots.length; k++) {
        blocks.push(places.get(k) ?? blockOf(slots[k]!, program));
        places.delete(k);
      }
    }, blocks);
    marks?.passed(-1);
    launches.run(backendOf(program.device), blocks, marks);
  } catch (error) {
    blocks.forEach((block, k) => slots[k]!.kind === "fresh" && block.release());
    for (const block of places.values()) block.release();
    trace.gradients.restore();
    throw error;
  }
  const result = releasingTogether(() => deliver(program, blocks, trace, value));
  trace.settle();
  return result;
}

/** Who is to be told of gradients on the way; null where nobody waits for them. */
function marksFor(
  program: RecordedProgram,
  trace: Trace,
  blocks: readonly Block[],
): GradientMarks | null {
  const receiver = presentGradientReceiver();
  return receiver && new GradientMarks(receiver, program, trace.gradients.left(), blocks);
}

/** Computes what the call uses and nobody has computed yet, in as few kernels as may be. */
function realizeAll(slots: readonly BlockSlot[], { device }: RecordedProgram): void {
  const pending: Node[] = [];
  for (const slot of slots) {
    const node = slot.kind === "role"
      ? nodeOf(slot.refs[0]!.tensor!)
      : slot.kind === "state"
      ? slot.token.node!
      : null;
    if (node !== null && !node.storage) pending.push(node);
  }
  if (pending.length > 0) realize(backendOf(device), pending);
}

function blockOf(slot: BlockSlot, program: RecordedProgram): Block {
  switch (slot.kind) {
    case "role":
      return nodeOf(slot.refs[0]!.tensor!).storage!.handle;
    case "state":
      return slot.token.node!.storage!.handle;
    case "constant":
      return slot.storage.handle as Block;
    case "fresh":
      return backendOf(program.device).memory.allocate(slot.nbytes);
    case "scratch":
      return slot.block;
  }
}

function presentBlock(node: Node, { device }: RecordedProgram): Block {
  if (!node.storage) realize(backendOf(device), [node]);
  return node.storage!.handle;
}

/** Who has the value of a slot already, where it is no new one. */
function holderOf(slot: BlockSlot): Storage<unknown> | null {
  if (slot.kind === "role") return nodeOf(slot.refs[0]!.tensor!).storage;
  if (slot.kind === "state") return slot.token.node!.storage;
  return slot.kind === "constant" ? slot.storage : null;
}

/** Gives assigned tensors their next values and makes the tensors that the function returns. */
function deliver<R>(program: RecordedProgram, blocks: readonly Block[], trace: Trace, value: R): R {
  const { device, slots } = program, { memory } = backendOf(device);
  const storages: (Storage<unknown> | undefined)[] = [];
  const take = ({ slot }: Target): Storage<unknown> => {
    const known = storages[slot] ?? holderOf(slots[slot]!);
    return storages[slot] = known?.retain() ?? new Storage(memory, blocks[slot]!);
  };
  // All are taken before one is replaced: a tensor may get the value that another had.
  const next = program.assigned.map(take), results = program.results.map((r) => r && take(r));
  const gradients = program.gradients.map(take);
  const real = new Map<Tensor, Tensor>(), tensors = tensorsIn(value);
  const give = (standIn: Tensor, storage: Storage<unknown>, { like }: Target): Tensor => {
    const known = real.get(standIn);
    if (known === undefined) {
      const made = madeOf(Node.stored(storage, like.shape, like.dtype), standIn);
      real.set(standIn, made);
      return made;
    }
    storage.release();
    // A gradient that is a result, too.
    stateOf(known).isShared = true;
    return known;
  };
  results.forEach((storage, k) => storage && give(tensors[k]!, storage, program.results[k]!));
  program.assigned.forEach(({ to }, k) => {
    stateOf(isTensor(to) ? to : to.tensor!).replaceStored(next[k]!);
  });
  trace.gradients.left().forEach(([leaf, standIn], k) => {
    setGradient(leaf, give(standIn, gradients[k]!, program.gradients[k]!));
  });
  const returned = tensors.values();
  return withTensors(value, () => {
    const tensor = returned.next().value!;
    return real.get(tensor) ?? tensor;
  }) as R;
}

function madeOf(node: Node, standIn: Tensor): Tensor {
  const tensor = makeTensor(node, standIn.device);
  if (openResult(standIn)?.requiresGrad) stateOf(tensor).record(replayed);
  return tensor;
}
