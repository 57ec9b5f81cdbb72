/** Compiled functions: the launches of one call, replayed for later ones. */
import {
  backendOf,
  type Block,
  type DeviceHandle,
  Node,
  realize,
  record,
  type RecordedLaunch,
  type Recording,
  type Token,
} from "../backend/engine.ts";
import { Storage } from "../memory/mod.ts";
import { isAnomalyEnabled } from "./anomaly.ts";
import { nextOrder, observeAssignments, observeGradients } from "./base.ts";
import { isGradEnabled } from "./grad_mode.ts";
import { GradientNotes, type NotedGradient } from "./gradient_notes.ts";
import { isPlain, tensorsIn, withTensors } from "./nested.ts";
import { drawStream, observeStreams, presentSeed } from "./random_state.ts";
import { realizeAll, realizeAwaited } from "./realization.ts";
import { Tensor } from "./tensor.ts";

/** Where a replay finds, or puts, the block that the recording used. */
type Slot =
  /** One of the tensors among the arguments of the call. */
  | { readonly kind: "argument"; readonly index: number }
  /** What a tensor holds at that time: a parameter, an optimizer's state. */
  | { readonly kind: "tensor"; readonly token: Token; readonly what: string }
  /** The gradient that a tensor has at that time, which the function adds to. */
  | { readonly kind: "gradient"; readonly of: Tensor }
  /** A value that never changes. */
  | { readonly kind: "constant"; readonly storage: Storage }
  /** Memory of the compiled function itself, for results on the way. */
  | { readonly kind: "scratch"; readonly block: Block }
  /** A new block with every call: a result, or a tensor's next value. */
  | { readonly kind: "fresh"; readonly nbytes: number };

interface ReplayLaunch {
  readonly recorded: RecordedLaunch;
  readonly inputs: readonly number[];
  readonly outputs: readonly number[];
}

/** What becomes of a fresh block. */
interface Target {
  readonly slot: number;
  readonly like: Node;
}

/** What a call returns: a new tensor, or one that was there before it, itself. */
type Result = Target | { readonly argument: number } | { readonly tensor: Tensor };

interface Program {
  readonly device: DeviceHandle;
  readonly slots: Slot[];
  readonly launches: readonly ReplayLaunch[];
  readonly assigned: readonly (Target & { readonly tensor: Tensor })[];
  readonly results: readonly Result[];
  readonly gradients: readonly NotedGradient<Target>[];
  readonly streams: readonly { value: number }[];
  /** What its random numbers are made from. */
  readonly seed: number;
  /** Puts the results where the function had them. */
  readonly rebuild: (tensors: readonly Tensor[]) => unknown;
}

/**
 * Makes a function that records what one call launches and replays it in later calls, without
 * building a graph. Calls are told apart by the shapes, types and devices of the tensors among the
 * arguments, also within arrays and plain objects, and by the other arguments themselves; the first
 * call of a kind runs as usual, the second is recorded, all later ones are replayed.
 *
 * A replay reads the present values of the tensors that the function uses (parameters, optimizer
 * state), gives assigned tensors their next values and draws new random numbers. Numbers that the
 * function takes from elsewhere stay what they were, and so do modes, such as whether a module trains:
 * pass them as arguments, or keep them in tensors. Gradients are left as the function leaves them, but
 * for those of parameters that it steps itself: these are part of the step, and null after it.
 *
 * @param fn A function of tensors that reads no value; typically a training step.
 * @returns The compiled function.
 * @throws {TypeError} When `fn` is no function; from the call, when it is asynchronous.
 * @throws {Error} From the call, when `fn` reads a value (`item`, `toHost`) that it computes.
 *
 * @example
 * ```ts
 * import { compile, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const step = compile((x: Tensor) => x.mul(2).add(1).sum());
 * using x = Tensor.ones([100]);
 * for (let i = 0; i < 5; i++) {
 *   using y = step(x);
 *   assertEquals(await y.item(), 300);
 * }
 * ```
 */
export function compile<A extends unknown[], R>(fn: (...args: A) => R): (...args: A) => R {
  if (typeof fn !== "function") {
    throw new TypeError(`Cannot compile ${typeof fn} "${fn}": pass a function of tensors`);
  }
  const programs = new Map<string, Program[]>();
  const compiled = (...args: A): R => {
    // A replay has no operations to name.
    if (isAnomalyEnabled()) return fn(...args);
    const given = tensorsIn(args);
    realizeAll(given);
    // What was assigned before is no part of the call.
    realizeAwaited();
    const key = keyOf(args, given);
    const known = programs.get(key);
    if (known === undefined) {
      programs.set(key, []);
      // Recorded as well, so that what it does not allow is an error at once.
      return record(() => {
        const result = called(fn, args);
        realizeAll(tensorsIn(result));
        return result;
      }).result;
    }
    const at = known.findIndex(isAsRecorded);
    const found = known[at];
    if (found) {
      // Kernels of random numbers have the seed in them: another one needs another recording.
      if (found.streams.length === 0 || found.seed === presentSeed()) {
        return replay(found, given) as R;
      }
      giveBack(found.slots);
      known.splice(at, 1);
    }
    const { result, program } = recordCall(fn, args, given);
    known.push(program);
    scratchOf.register(compiled, program.slots);
    return result;
  };
  return compiled;
}

/** True where the function would find the gradients that it found when it was recorded. */
function isAsRecorded({ gradients }: Program): boolean {
  return gradients.every(({ of, wasThere }) => (of.grad !== null) === wasThere);
}

/** Gives back the memory of compiled functions that nobody can call any more. */
const scratchOf = new FinalizationRegistry<Slot[]>(giveBack);

function giveBack(slots: Slot[]): void {
  for (const slot of slots.splice(0)) if (slot.kind === "scratch") slot.block.release();
}

/** Calls a function that must be done when it returns. */
function called<A extends unknown[], R>(fn: (...args: A) => R, args: A): R {
  const value = fn(...args);
  if (!(value instanceof Promise)) return value;
  throw new TypeError(
    "Cannot compile an asynchronous function: what it does after an await is not part of the call; " +
      "await its inputs before, and read its results after the call",
  );
}

/** Tells calls apart: also those in which tensors share memory, which a recording cannot tell apart. */
function keyOf(args: readonly unknown[], given: readonly Tensor[]): string {
  const blocks = given.map(({ node }) => node.storage?.handle ?? node);
  const isShared = new Set(blocks).size < blocks.length;
  const sharing = isShared ? blocks.map((block) => blocks.indexOf(block)).join() : "";
  return `${isGradEnabled()}${sharing}(${args.map(keyOfValue).join("|")})`;
}

function keyOfValue(value: unknown): string {
  if (value instanceof Tensor) return `${value.dtype}[${value.shape}]@${value.device.selector}`;
  if (Array.isArray(value)) return `[${value.map(keyOfValue).join("|")}]`;
  if (!isPlain(value)) return `${typeof value}:${identityOf(value)}`;
  const entries = Object.entries(value).map(([name, item]) => `${name}:${keyOfValue(item)}`);
  return `{${entries.join("|")}}`;
}

const identities = new WeakMap<object, number>();
let nextIdentity = 0;

function identityOf(value: unknown): string {
  if (typeof value !== "object" && typeof value !== "function" || value === null) {
    return String(value);
  }
  let id = identities.get(value);
  if (id === undefined) identities.set(value, id = nextIdentity++);
  return `#${id}`;
}

function recordCall<A extends unknown[], R>(
  fn: (...args: A) => R,
  args: A,
  given: readonly Tensor[],
): { result: R; program: Program } {
  const start = nextOrder();
  const streams: { value: number }[] = [];
  const assigned = new Set<Tensor>();
  const gradients = new GradientNotes();
  const run = (): R => {
    const value = called(fn, args);
    gradients.settle(assigned);
    const states = [...assigned].filter((t) => !t.disposed);
    realizeAll([...tensorsIn(value), ...states, ...gradients.made()]);
    return value;
  };
  const { result, recording } = record(() =>
    observeStreams(
      (stream) => streams.push(stream),
      () =>
        observeAssignments(
          (tensor) => assigned.add(tensor),
          () => observeGradients((tensor, gradient) => gradients.note(tensor, gradient), run),
        ),
    )
  );
  const results = tensorsIn(result);
  const device = (results[0] ?? given[0] ?? [...assigned][0])?.device;
  if (!device) {
    throw new Error(
      "Cannot compile a function without tensors: it takes, returns and assigns none",
    );
  }
  const builder = new ProgramBuilder(device, recording, given, start);
  const program = builder.build(results, [...assigned], gradients, streams, result);
  return { result, program };
}

class ProgramBuilder {
  readonly #device: DeviceHandle;
  readonly #recording: Recording;
  readonly #given: readonly Tensor[];
  readonly #arguments = new Map<Block, number>();
  readonly #start: number;
  #gradients: GradientNotes | null = null;
  readonly #slots: Slot[] = [];
  readonly #slotOf = new Map<Block, number>();

  /** `start` is the `order` of the first tensor that the call made. */
  constructor(
    device: DeviceHandle,
    recording: Recording,
    given: readonly Tensor[],
    start: number,
  ) {
    this.#device = device;
    this.#recording = recording;
    this.#given = given;
    this.#start = start;
    given.forEach(({ node }, index) => this.#arguments.set(node.storage!.handle, index));
  }

  build(
    results: readonly Tensor[],
    assigned: readonly Tensor[],
    gradients: GradientNotes,
    streams: readonly { value: number }[],
    shape: unknown,
  ): Program {
    this.#gradients = gradients;
    const live = assigned.filter((tensor) => !tensor.disposed);
    const fresh = new Map<Block, number>();
    for (const tensor of [...results, ...live, ...gradients.made()]) {
      const { handle } = tensor.node.storage!;
      if (this.#recording.produces(handle)) fresh.set(handle, handle.nbytes);
    }
    this.#planScratch(fresh);
    const launches = this.#recording.launches.map((recorded): ReplayLaunch => ({
      recorded,
      inputs: recorded.inputs.map((block) => this.#slot(block)),
      outputs: recorded.outputs.map((block) => this.#slot(block)),
    }));
    const target = (tensor: Tensor): Target => ({
      slot: this.#slot(tensor.node.storage!.handle, tensor.node),
      like: new Node({ kind: "buffer" }, [], tensor.shape, tensor.dtype),
    });
    return {
      device: this.#device,
      slots: this.#slots,
      launches,
      assigned: live.map((tensor) => ({ ...target(tensor), tensor })),
      results: results.map((tensor): Result => {
        const argument = this.#given.indexOf(tensor);
        if (argument >= 0) return { argument };
        return tensor.order < this.#start ? { tensor } : target(tensor);
      }),
      gradients: gradients.describe(target),
      streams,
      seed: presentSeed(),
      rebuild: (tensors) => {
        let at = 0;
        return withTensors(shape, () => tensors[at++]!);
      },
    };
  }

  #slot(block: Block, node?: Node): number {
    let slot = this.#slotOf.get(block);
    if (slot === undefined) {
      const found = this.#recording.external.get(block) ?? { node: node!, token: node!.owner };
      slot = this.#slots.push(this.#external(block, found.node, found.token)) - 1;
      this.#slotOf.set(block, slot);
    }
    return slot;
  }

  #external(block: Block, node: Node, token: Token | null): Slot {
    const index = this.#arguments.get(block);
    if (index !== undefined) return { kind: "argument", index };
    const of = this.#gradients!.owner(node);
    if (of) return { kind: "gradient", of };
    if (token) return { kind: "tensor", token, what: `[${node.shape}] ${node.dtype}` };
    node.hold();
    return { kind: "constant", storage: node.storage! };
  }

  /**
   * The static memory plan: results on the way get memory that the compiled function keeps, shared by
   * those that are not needed at the same time.
   */
  #planScratch(fresh: ReadonlyMap<Block, number>): void {
    const last = new Map<Block, number>();
    this.#recording.launches.forEach(({ inputs, outputs }, k) => {
      for (const block of [...outputs, ...inputs]) {
        if (this.#recording.produces(block) && !fresh.has(block)) last.set(block, k);
      }
    });
    const free: { slot: number; nbytes: number }[] = [];
    const memory = backendOf(this.#device).memory;
    this.#recording.launches.forEach(({ outputs }, k) => {
      for (const block of outputs) {
        if (this.#slotOf.has(block)) continue;
        if (fresh.has(block)) {
          this.#slotOf.set(block, this.#slots.push({ kind: "fresh", nbytes: block.nbytes }) - 1);
          continue;
        }
        const fit = free.filter((f) =>
          f.nbytes >= block.nbytes
        ).sort((a, b) => a.nbytes - b.nbytes)[0];
        if (fit) {
          free.splice(free.indexOf(fit), 1);
          this.#slotOf.set(block, fit.slot);
          continue;
        }
        const own = memory.allocate(block.nbytes, { label: "compiled" });
        this.#slotOf.set(block, this.#slots.push({ kind: "scratch", block: own }) - 1);
      }
      for (const [block, at] of last) {
        if (at !== k) continue;
        const slot = this.#slotOf.get(block)!;
        free.push({ slot, nbytes: (this.#slots[slot] as { block: Block }).block.nbytes });
      }
    });
  }
}

function replay(program: Program, given: readonly Tensor[]): unknown {
  for (const stream of program.streams) stream.value = drawStream();
  const blocks: Block[] = [];
  try {
    for (const slot of program.slots) blocks.push(blockOf(slot, program.device, given));
    for (const { recorded, inputs, outputs } of program.launches) {
      recorded.launch.run(
        inputs.map((slot) => blocks[slot]!),
        outputs.map((slot) => blocks[slot]!),
      );
    }
  } catch (error) {
    blocks.forEach((block, k) => program.slots[k]!.kind === "fresh" && block.release());
    throw error;
  }
  return deliver(program, blocks, given);
}

function blockOf(slot: Slot, device: DeviceHandle, given: readonly Tensor[]): Block {
  switch (slot.kind) {
    case "argument":
      return given[slot.index]!.node.storage!.handle;
    case "tensor":
      return presentBlock(slot.token, slot.what, device);
    case "gradient":
      return slot.of.grad!.realize().node.storage!.handle;
    case "constant":
      return slot.storage.handle;
    case "fresh":
      return backendOf(device).memory.allocate(slot.nbytes);
    case "scratch":
      return slot.block;
  }
}

/** Who has the value of a slot already, where it is no new one. */
function holderOf(slot: Slot, given: readonly Tensor[]): Storage | null {
  switch (slot.kind) {
    case "argument":
      return given[slot.index]!.node.storage;
    case "tensor":
      return slot.token.node!.storage;
    case "gradient":
      return slot.of.grad!.node.storage;
    case "constant":
      return slot.storage;
    default:
      return null;
  }
}

/** Gives assigned tensors their next values and makes the tensors that the function returns. */
function deliver(
  { device, slots, assigned, results, gradients, rebuild }: Program,
  blocks: readonly Block[],
  given: readonly Tensor[],
): unknown {
  const { memory } = backendOf(device);
  const storages = new Map<number, Storage>();
  const take = ({ slot, like }: Target): Node => {
    const known = storages.get(slot) ?? holderOf(slots[slot]!, given);
    const storage = known?.retain() ?? new Storage(memory, blocks[slot]!);
    storages.set(slot, storage);
    return Node.stored(storage, like.shape, like.dtype);
  };
  // All are taken before one is replaced: a tensor may get the value that another had.
  const next = assigned.map(take);
  const returned = results.map((result): Tensor => {
    if ("argument" in result) return given[result.argument]!;
    return "tensor" in result ? result.tensor : new Tensor(take(result), device);
  });
  const made = gradients.map(({ next }) =>
    typeof next === "string" ? null : new Tensor(take(next.made), device)
  );
  assigned.forEach(({ tensor }, k) => tensor.replaceNode(next[k]!));
  gradients.forEach(({ of, next }, k) => {
    if (next === "same") return;
    of.grad?.dispose();
    of.grad = made[k]!;
  });
  return rebuild(returned);
}

/** What a tensor that the function uses holds now. */
function presentBlock(token: Token, what: string, device: DeviceHandle): Block {
  const { node } = token;
  if (!node) {
    throw new Error(`Cannot replay: a tensor (${what}) that the function uses was disposed`);
  }
  if (!node.storage) realize(backendOf(device), [node]);
  return node.storage!.handle;
}
