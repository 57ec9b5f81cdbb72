/** Program of a compiled function: launches with the memory that each reads and writes. */
import {
  backendOf,
  type Block,
  type DeviceHandle,
  type ExternalValue,
  Node,
  type Recording,
  type Token,
} from "../../backend/internal.ts";
import type { AnyDeviceMemory, Storage } from "../../memory/mod.ts";
import { presentSeed } from "../core/random_state.ts";
import type { Tensor } from "../core/mod.ts";
import type { Output, Ref } from "./patterns.ts";
import type { Roles } from "./roles.ts";
import { ReplayedLaunches, type ReplayLaunch } from "./replayed_launches.ts";
import { FormerPlaces, planScratch } from "./scratch.ts";
import { isTensor, nodeOf } from "../core/internals.ts";

/** Place in a replay of the block that the recording used. */
export type BlockSlot =
  /** Value of the tensors of these roles in this call: all the same. */
  | { readonly kind: "role"; readonly refs: readonly Ref[] }
  /** Value of a tensor that only an optimizer knows: its state, its learning rate. */
  | { readonly kind: "state"; readonly token: Token }
  /** A value that never changes. */
  | { readonly kind: "constant"; readonly storage: Storage }
  /** Memory of the compiled function itself, for results on the way. */
  | { readonly kind: "scratch"; readonly block: Block }
  /** A new block with every call: a result, or a tensor's next value. */
  | { readonly kind: "fresh"; readonly nbytes: number };

/** Destination of a block. */
export interface Target {
  readonly slot: number;
  readonly like: Node;
}

/** A recorded call. */
export interface RecordedProgram {
  readonly device: DeviceHandle;
  /** The device's memory when it was recorded; after `shutdown()` it has another one. */
  readonly memory: AnyDeviceMemory;
  readonly slots: BlockSlot[];
  /** Blocks that back the scratch slots. */
  readonly scratch: Block[];
  readonly launches: ReplayedLaunches;
  /** Places of former values, for the next ones; null where setting arguments costs little. */
  readonly former: FormerPlaces | null;
  /** The slots of values that were there before and are changed where they are. */
  readonly changed: readonly number[];
  /** New slots of tensors' next values, each with the slot of the former value whose place it may take. */
  readonly updates: ReadonlyMap<number, number>;
  /** By slot: the last launch that writes to it; -1 where none does. */
  readonly lastWrites: readonly number[];
  /** Tensors from outside, by their roles where they have one, with their next values. */
  readonly assigned: readonly (Target & { readonly to: Ref | Tensor })[];
  /** One for each tensor that it returns; null for those that were there before. */
  readonly results: readonly (Target | null)[];
  /** One for each gradient that it leaves. */
  readonly gradients: readonly Target[];
  /** Outputs not returned that a later call or the program used. */
  readonly carried: readonly (Target & { readonly ref: Output })[];
  /** Outputs unused after a call, which have no value after a replay. */
  readonly inner: readonly Output[];
  /** The offsets of its random tensors, which its launches read. */
  readonly offsets: readonly { value: number }[];
  /** Seed of its random numbers. */
  readonly seed: number;
}

/** A tensor that the call made, with its role. */
export interface Made {
  readonly ref: Output;
  readonly tensor: Tensor;
}

/** Record of a call, for its program. */
export interface Recorded {
  readonly results: readonly Tensor[];
  /** Tensors from outside that were assigned. */
  readonly assigned: readonly Tensor[];
  /** Leaves with the gradients that the call left them. */
  readonly gradients: readonly (readonly [leaf: Tensor, gradient: Tensor])[];
  /** Further outputs that former calls have shown to be used after them. */
  readonly carried: readonly Made[];
  /** Further outputs. */
  readonly inner: readonly Made[];
  /** The offsets of its random tensors, which its launches read. */
  readonly offsets: readonly { value: number }[];
}

/** The program of a call that was recorded. */
export function programOf(
  roles: Roles,
  recording: Recording,
  recorded: Recorded,
  device: DeviceHandle,
): RecordedProgram {
  return new ProgramBuilder(roles, recording, device).build(recorded);
}

function lastWritesOf(launches: readonly ReplayLaunch[], slots: number): number[] {
  const last = Array<number>(slots).fill(-1);
  launches.forEach(({ outputs }, k) => {
    for (const slot of outputs) last[slot] = k;
  });
  return last;
}

/** The launches that read and write each slot, in their order. */
function usesOf(
  launches: readonly ReplayLaunch[],
): Record<"reads" | "writes", Map<number, number[]>> {
  const uses = { reads: new Map<number, number[]>(), writes: new Map<number, number[]>() };
  const note = (of: Map<number, number[]>, slot: number, k: number): void => {
    const known = of.get(slot);
    if (known) known.push(k);
    else of.set(slot, [k]);
  };
  launches.forEach(({ inputs, outputs }, k) => {
    for (const slot of inputs) note(uses.reads, slot, k);
    for (const slot of outputs) note(uses.writes, slot, k);
  });
  return uses;
}

/** Gives the memory of a program back, and its kernels. */
export function releaseProgram({ slots, scratch, launches, former }: RecordedProgram): void {
  launches[Symbol.dispose]();
  former?.[Symbol.dispose]();
  for (const block of scratch.splice(0)) block.release();
  for (const slot of slots.splice(0)) {
    if (slot.kind === "constant") slot.storage.release();
  }
}

class ProgramBuilder {
  readonly #roles: Roles;
  readonly #recording: Recording;
  readonly #device: DeviceHandle;
  readonly #slots: BlockSlot[] = [];
  readonly #slotOf = new Map<Block, number>();

  constructor(roles: Roles, recording: Recording, device: DeviceHandle) {
    this.#roles = roles;
    this.#recording = recording;
    this.#device = device;
  }

  build({ assigned, results, gradients, carried, inner, offsets }: Recorded): RecordedProgram {
    const left = gradients.map(([, gradient]) => gradient);
    const given = [...results, ...assigned, ...left, ...carried.map(({ tensor }) => tensor)];
    const scratch = this.#planOutputs(this.#freshBlocks(given));
    const launches = this.#recording.launches.map((recorded): ReplayLaunch => ({
      launch: recorded.launch,
      inputs: recorded.inputs.map((block) => this.#slot(block)),
      outputs: recorded.outputs.map((block) => this.#slot(block)),
    }));
    const targets = {
      assigned: assigned.map((tensor) => ({
        ...this.#target(tensor),
        to: this.#roles.refOf(tensor) ?? tensor,
      })),
      results: results.map((tensor) => this.#roles.isMade(tensor) ? this.#target(tensor) : null),
      gradients: left.map((tensor) => this.#target(tensor)),
      carried: carried.map(({ ref, tensor }) => ({ ...this.#target(tensor), ref })),
      inner: inner.map(({ ref }) => ref),
    };
    const written = new Set(launches.flatMap(({ outputs }) => outputs));
    const { memory } = backendOf(this.#device);
    return {
      device: this.#device,
      memory,
      changed: [...written].filter((slot) => !this.#isOwn(slot)),
      slots: this.#slots,
      scratch,
      launches: new ReplayedLaunches(launches, (slot) => this.#varies(slot)),
      former: this.#device.deviceType === "gpu" ? new FormerPlaces(memory) : null,
      updates: this.#updates(launches, targets),
      lastWrites: lastWritesOf(launches, this.#slots.length),
      ...targets,
      offsets,
      seed: presentSeed(),
    };
  }

  /** The blocks of values that outlive the call. */
  #freshBlocks(tensors: readonly Tensor[]): Set<Block> {
    const fresh = new Set<Block>();
    for (const tensor of tensors) {
      const node = nodeOf(tensor);
      const { handle } = node.storage!;
      if (this.#recording.produces(handle)) fresh.add(handle);
    }
    return fresh;
  }

  #target(tensor: Tensor): Target {
    return {
      slot: this.#slot(nodeOf(tensor).storage!.handle, nodeOf(tensor)),
      like: new Node({ kind: "buffer" }, [], tensor.shape, tensor.dtype),
    };
  }

  #slot(block: Block, node?: Node): number {
    let slot = this.#slotOf.get(block);
    if (slot === undefined) {
      const found = this.#recording.external.get(block) ??
        { node: node!, token: node!.owner, kept: null };
      slot = this.#slots.push(this.#external(block, found)) - 1;
      this.#slotOf.set(block, slot);
    }
    return slot;
  }

  #external(block: Block, { node, token, kept }: ExternalValue): BlockSlot {
    const refs = this.#roles.blocks.get(block);
    if (refs) return { kind: "role", refs };
    // The value of a tensor that is gone, such as a table that an operation made, is the same for ever.
    if (token !== null && token.node !== null) return { kind: "state", token };
    return { kind: "constant", storage: (kept ?? node.storage!).retain() };
  }

  /**
   * Next values that are written where the former ones lie: the launch that does it is the last that reads those,
   * and nobody is given them.
   */
  #updates(
    launches: readonly ReplayLaunch[],
    { assigned, results, gradients, carried }: Pick<
      RecordedProgram,
      "assigned" | "results" | "gradients" | "carried"
    >,
  ): ReadonlyMap<number, number> {
    const formerOf = new Map(assigned.map(({ slot, to }) => [slot, this.#formerSlot(to)]));
    const given = new Set([...assigned, ...results, ...gradients, ...carried].map((t) => t?.slot));
    const uses = usesOf(launches), found = new Map<number, number>();
    this.#recording.launches.forEach(({ updates }, k) => {
      const { inputs, outputs } = launches[k]!;
      for (const [from, to] of updates) {
        const former = inputs[from]!, next = outputs[to]!;
        if (formerOf.get(next) !== former || given.has(former)) continue;
        const isAlone = uses.reads.get(former)!.at(-1) === k && !uses.writes.has(former) &&
          inputs.indexOf(former) === inputs.lastIndexOf(former);
        if (isAlone && uses.writes.get(next)!.length === 1) found.set(next, former);
      }
    });
    return found;
  }

  /** The slot of a tensor's value before the call, if it has one and nobody else has that. */
  #formerSlot(to: Ref | Tensor): number {
    return this.#slots.findIndex((slot) =>
      isTensor(to)
        ? slot.kind === "state" && slot.token === nodeOf(to).owner
        : slot.kind === "role" && slot.refs.length === 1 && slot.refs[0] === to
    );
  }

  #isOwn(slot: number): boolean {
    const { kind } = this.#slots[slot]!;
    return kind === "fresh" || kind === "scratch";
  }

  #varies(slot: number): boolean {
    const { kind } = this.#slots[slot]!;
    return kind !== "constant" && kind !== "scratch";
  }

  /** Gives results on the way, and those that outlive the call, their slots. */
  #planOutputs(fresh: ReadonlySet<Block>): Block[] {
    const recording = this.#recording, { memory } = backendOf(this.#device);
    const isInterior = (block: Block): boolean => recording.produces(block) && !fresh.has(block);
    const { blocks, owned } = planScratch(memory, recording.launches, isInterior);
    for (const { outputs } of recording.launches) {
      for (const block of outputs) {
        if (this.#slotOf.has(block) || recording.external.has(block)) continue;
        const own = blocks.get(block);
        const slot: BlockSlot = own
          ? { kind: "scratch", block: own }
          : { kind: "fresh", nbytes: block.nbytes };
        this.#slotOf.set(block, this.#slots.push(slot) - 1);
      }
    }
    return owned;
  }
}
