/** Checkpoints: parts of a model whose inner values are computed again in `backward`, not kept. */
import { AsyncLocalStorage } from "node:async_hooks";
import { formatShape, manager, NEED, type Node, withDevice } from "../../backend/internal.ts";
import { newGradFn } from "../core/apply.ts";
import { resolved } from "../core/calls.ts";
import { type HookList, nextOrder } from "../core/tensor_state.ts";
import { nodeOf, stateOf } from "../core/internals.ts";
import { enableGrad, isGradEnabled } from "../core/modes/grad_mode.ts";
import { noteLeaves, repeatLeaves } from "../core/repeated_leaves.ts";
import { calledByUser } from "../core/modes/temporaries.ts";
import { tensorsIn } from "../core/nested.ts";
import { noteRandomKeys, type RandomKey, repeatRandomKeys } from "../core/random_state.ts";
import type { Tensor } from "../core/mod.ts";
import { requireValue, takes } from "../core/rules/options.ts";
import { neededInputs, type Repetition } from "../core/grad_fn.ts";
import { hooksOf } from "./gradient_hooks.ts";
import { whileRecomputing } from "./recomputing.ts";

/**
 * Runs `fn(...args)` without keeping for `backward` what it computes on the way: backward runs it
 * again. That trades time (one more forward pass through `fn`) for memory: of a deep model with a
 * checkpoint around each block, only the blocks' inputs and one block's inner values are held at a
 * time.
 *
 * The second run draws the same random numbers as the first, on the same active device and with the
 * same autocast, and running statistics of batch normalization count the batch once. Gradients reach the
 * arguments and every tensor that `fn` uses otherwise, such as parameters. Second derivatives work;
 * for them what is computed again is kept. Gradients are those without a checkpoint but for rounding (1e-7 in
 * float32): what is computed again is fused with the gradients, and its sums may add up in another order, as
 * those of a loss that is read before `backward` may. Under `noGrad` it just calls `fn`. With NETCL_EAGER=1 it
 * saves no memory: there every operation keeps its result.
 *
 * @param fn A function of tensors without side effects that matter: it is called again by `backward`,
 * with the same arguments, and must do the same.
 * @param args Its arguments.
 * @returns What `fn` returns: a tensor, or tensors within arrays and plain objects.
 * @throws {TypeError} When `fn` is asynchronous.
 * @throws {Error} From `backward`, when `fn` does not do the same again, or an argument was assigned
 * another value since.
 *
 * @example
 * ```ts
 * import { checkpoint, nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const blocks = Array.from({ length: 8 }, () => {
 *   return new nn.Sequential(new nn.Linear(16, 16), new nn.GELU(), new nn.Dropout(0.1));
 * });
 * let x = Tensor.randn([4, 16]);
 * for (const block of blocks) x = checkpoint((x: Tensor) => block.forward(x), x);
 * x.square().mean().backward();
 * assertEquals(blocks[0]!.parameters()[0]!.grad!.shape, [16, 16]);
 * ```
 */
export function checkpoint<A extends unknown[], R>(fn: (...args: A) => R, ...args: A): R {
  requireValue("checkpoint", "fn", fn, takes.callback);
  if (!isGradEnabled()) return fn(...args);
  const start = nextOrder();
  const { value: { value: given, leaves }, keys } = noteRandomKeys(() =>
    noteLeaves(() => fn(...args))
  );
  try {
    return recordedAgain(resolved(given), { fn, args, keys, leaves, start });
  } finally {
    // The record holds their values.
    for (const leaf of leaves) leaf.dispose();
  }
}

/** The first run of a checkpointed function. */
interface FirstRun {
  readonly fn: (...args: never[]) => unknown;
  readonly args: readonly unknown[];
  /** Keys of the random tensors that it made. */
  readonly keys: readonly RandomKey[];
  /** Tensors of host data that it made, where the second run takes them. */
  readonly leaves: readonly Tensor[];
  /** The order at which it began. */
  readonly start: number;
}

/** The value of a run, whose tensors `backward` computes again. */
function recordedAgain<R>(value: R, first: FirstRun): R {
  if (value instanceof Promise) {
    throw new TypeError(
      "Cannot checkpoint an asynchronous function: backward calls it again and cannot wait; read " +
        "values outside of it",
    );
  }
  const { args, leaves, start } = first, outputs = recordedIn(value, start);
  if (outputs.length === 0) return value;
  const outer = outerInputs(outputs, start);
  const inputs = [...new Set([...tensorsIn(args), ...outer, ...leaves])];
  const repetition = new SecondRun(first, outputs);
  const gradFn = newGradFn("checkpoint", inputs, () => [], {
    outputs: outputs.map((output) => stateOf(output).order),
    repetition,
  });
  for (const inner of innerTensors(outputs, start)) stateOf(inner).gradFn!.end?.();
  for (const output of outputs) stateOf(output).record(gradFn);
  return value;
}

/** The tensors in a function's result that it recorded, each once. */
function recordedIn(value: unknown, start: number): Tensor[] {
  return [...new Set(tensorsIn(value))].filter((t) =>
    stateOf(t).gradFn && stateOf(t).order >= start
  );
}

/** Tensors recorded by the function, on the way to its outputs. */
function innerTensors(outputs: readonly Tensor[], start: number): ReadonlySet<Tensor> {
  const inner = new Set(outputs);
  for (const tensor of inner) {
    for (const input of stateOf(tensor).gradFn!.inputs) {
      if (stateOf(input).gradFn && stateOf(input).order >= start) inner.add(input);
    }
  }
  return inner;
}

/** Outside tensors used by the function, to which backward goes on. */
function outerInputs(outputs: readonly Tensor[], start: number): ReadonlySet<Tensor> {
  const outer = new Set<Tensor>();
  for (const tensor of innerTensors(outputs, start)) {
    for (const input of neededInputs(stateOf(tensor).gradFn!)) {
      if (stateOf(input).order < start) outer.add(input);
      else if (!stateOf(input).gradFn) {
        throw new Error(
          `Cannot checkpoint a function that makes a tensor that requires a gradient ` +
            `(${formatShape(input.shape)}): it would be another one in backward; make it outside`,
        );
      }
    }
  }
  return outer;
}

/** A tensor that the function made on the way to its outputs, with a gradient that hooks may see. */
interface Place {
  readonly operation: string;
  readonly hooks: HookList;
  /** Of a result of a checkpoint within: that one's tensors. */
  readonly within: SecondRun | null;
}

/** The tensors that a run made on the way to its outputs, in an order that is the same in each run. */
function placesOf(outputs: readonly Tensor[], start: number): Place[] {
  return [...innerTensors(outputs, start)].map((tensor) => {
    const state = stateOf(tensor), { name, repetition } = state.gradFn!;
    const within = repetition instanceof SecondRun ? repetition : null;
    return { operation: name, hooks: hooksOf(state), within };
  });
}

/** Runs the function again where and as it ran, and gives the outputs of the first run again. */
class SecondRun implements Repetition {
  kept: readonly Tensor[] | null = null;
  readonly hasHooks = true;
  readonly #run: () => unknown;
  readonly #expected: readonly string[];
  readonly #onTheWay: readonly Node[];
  /** The hooks of the first run: they are those of the second. */
  #places: readonly Place[];

  /** The repetition of a run that gave these outputs. */
  constructor({ fn, args, keys, leaves, start }: FirstRun, outputs: readonly Tensor[]) {
    const inContext = AsyncLocalStorage.snapshot(), device = manager.active;
    const known = leaves.map((leaf) => ({ node: nodeOf(leaf), device: leaf.device }));
    const call = (): unknown => whileRecomputing(() => calledByUser(() => fn(...args as never[])));
    const again = (): unknown => repeatRandomKeys(keys, () => repeatLeaves(known, call));
    this.#run = () => inContext(() => withDevice(device, () => enableGrad(again)));
    this.#expected = outputs.map((t) => `${t}`);
    this.#places = placesOf(outputs, start);
    this.#onTheWay = [...innerTensors(outputs, start)].map((tensor) => stateOf(tensor).node);
  }

  run(): readonly Tensor[] {
    // Backward goes through them now, as far as anybody can see.
    for (const node of this.#onTheWay) node.exposure = NEED.transient;
    const start = nextOrder(), repeated = recordedIn(this.#run(), start);
    const expected = this.#expected;
    if (repeated.length !== expected.length || repeated.some((t, k) => `${t}` !== expected[k])) {
      throw new Error(
        `Cannot go backward through checkpoint: the function gave ${
          expected.join(", ")
        } and gives ` +
          `${
            repeated.join(", ") || "nothing that requires a gradient"
          } now; it must do the same again`,
      );
    }
    this.#shareHooks(repeated, start);
    return repeated;
  }

  #shareHooks(repeated: readonly Tensor[], start: number): void {
    const places = this.#places, tensors = [...innerTensors(repeated, start)];
    const isSame = tensors.length === places.length &&
      tensors.every((tensor, k) => stateOf(tensor).gradFn!.name === places[k]!.operation);
    if (!isSame) {
      if (places.every(({ hooks }) => hooks.count === 0)) return;
      throw new Error(
        `Cannot go backward through checkpoint: the function called other operations the second time, ` +
          `and has hooks on what the first gave; it must do the same again`,
      );
    }
    tensors.forEach((tensor, k) => {
      const state = stateOf(tensor), { hooks, within } = places[k]!, { repetition } = state.gradFn!;
      state.hooks = hooks;
      if (within && repetition instanceof SecondRun) repetition.#places = within.#places;
    });
  }
}
