/** Functions of one sample as functions of a batch of samples. */
import { formatShape, isEager, nextNodeId, Node } from "../../backend/internal.ts";
import { questionOf } from "../autograd/backward_walk.ts";
import { isHooked } from "../autograd/gradient_hooks.ts";
import { answerTo } from "../autograd/hooked_walk.ts";
import { ReverseWalk } from "../autograd/reverse_walk.ts";
import { newGradFn } from "../core/apply.ts";
import {
  giveUpReplay,
  observeAssignments,
  resolved,
  transforming,
  unobserved,
} from "../core/calls.ts";
import { neededInputs } from "../core/grad_fn.ts";
import { makeTensor, nodeOf, stateOf } from "../core/internals.ts";
import { isGradEnabled, recording } from "../core/modes/grad_mode.ts";
import { notingTemporaries, type Temporary, withTemporaries } from "../core/modes/temporaries.ts";
import { isPlain, tensorsIn, withTensors } from "../core/nested.ts";
import { randomPosition, rewindRandom } from "../core/random_state.ts";
import { DisposedError, shapeError } from "../core/rules/errors.ts";
import { checkOptions, requireValue, type Rules, shown, takes } from "../core/rules/options.ts";
import { Tensor } from "../class/tensor.ts";
import { nextOrder, TensorState } from "../core/tensor_state.ts";
import { withoutRoutines } from "../ops/routine.ts";
import { normalizeAxis } from "../ops/shaping/axes.ts";
import { dependents, type Lifted, liftNodes, liftRandom, NoBatchingRule } from "./batching.ts";

/**
 * Axes of samples: one for all tensors, null where each sample gets all of it, or a list or plain object of these
 * in the shape of the value.
 */
export type SampleAxes = number | null | readonly SampleAxes[] | {
  readonly [key: string]: SampleAxes;
};

/** Options of {@linkcode vmap}. */
export interface VmapOptions {
  /**
   * The axis of the samples in the arguments: one, or null, for all of them, or a list with one for each, which
   * for arrays and plain objects may be shaped like them; default: 0.
   */
  inAxes?: SampleAxes;
  /**
   * The axis of the samples in what is returned: one for all tensors, or shaped like what is returned; default: 0.
   */
  outAxis?: SampleAxes;
  /** Random numbers that `f` draws: the "same" for all samples (default), or "different" ones for each. */
  randomness?: "same" | "different";
}

const isAxes = (value: unknown): boolean =>
  value === null || Number.isSafeInteger(value) ||
  Array.isArray(value) && value.every(isAxes) ||
  isPlain(value) && Object.values(value).every(isAxes);
const sampleAxes = {
  takes: "an axis, null, or lists and objects of these in the shape of the values",
  accepts: isAxes,
};
const vmapRules: Rules<VmapOptions> = {
  inAxes: sampleAxes,
  outAxis: sampleAxes,
  randomness: takes.oneOf("same", "different"),
};

/**
 * A function of one sample as a function of a batch. It is called once, with tensors that stand for a
 * sample, and what it computes gets a further axis by a rule for each operation: a product with weights
 * that all samples share stays one product. Where an operation has no rule, or the function reads a value,
 * it is called sample by sample, which is said once on the console.
 *
 * It may be nested, differentiated, and applied to gradients: `vmap(grad(loss))` has the gradients of
 * each sample.
 *
 * @param f Takes and gives tensors, also within arrays and plain objects; other arguments are handed on.
 * @param options Which axes the samples are along.
 * @returns The function of batches.
 * @throws {ShapeError} When called with batches of several sizes, or without one.
 * @throws {TypeError} When `f` is asynchronous, or gives something else than tensors.
 * @throws {Error} When `f` assigns to a tensor.
 *
 * @example Gradients of each sample
 * ```ts
 * import { func, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const loss = (w: Tensor, x: Tensor) => w.mul(x).sum().square();
 * const w = Tensor.fromHost([1, 2]), x = Tensor.fromHost([[1, 0], [0, 1], [1, 1]]);
 * const each = func.vmap(func.grad(loss), { inAxes: [null, 0] });
 * assertEquals(await each(w, x).toArray(), [[2, 0], [0, 4], [6, 6]]);
 * ```
 */
export function vmap<A extends unknown[], R>(
  f: (...args: A) => R,
  options: VmapOptions = {},
): (...args: A) => R {
  requireValue("vmap", "f", f, takes.callback);
  checkOptions("vmap", options, vmapRules);
  const loops = { areSaid: false };
  return (...args) => {
    giveUpReplay("it calls vmap");
    const batch = batchOf(resolved(args), options);
    return unobserved(() =>
      mapped(f, batch, options.outAxis === undefined ? 0 : options.outAxis, loops)
    ) as R;
  };
}

/** The arguments of all samples. */
interface Batch {
  readonly args: readonly unknown[];
  /** Of which tensors in the arguments each sample has its own. */
  readonly isOwn: readonly boolean[];
  /** These tensors, samples along axis 0. */
  readonly tensors: readonly Tensor[];
  readonly size: number;
  readonly isRandomOwn: boolean;
}

function batchOf(args: readonly unknown[], { inAxes = 0, randomness }: VmapOptions): Batch {
  if (Array.isArray(inAxes) && inAxes.length !== args.length) {
    throw new TypeError(
      `Cannot vmap ${args.length} arguments along ${inAxes.length} axes: pass one of inAxes for each`,
    );
  }
  const axes = axesOf(args, inAxes), given = tensorsIn(args);
  const isOwn = axes.map((axis) => axis !== null);
  const tensors = given.flatMap((x, k) => isOwn[k] ? [movedAxis(x, axes[k]!, 0)] : []);
  const sizes = new Set(tensors.map((x) => x.shape[0]!)), isRandomOwn = randomness === "different";
  if (sizes.size === 1) return { args, isOwn, tensors, size: [...sizes][0]!, isRandomOwn };
  if (sizes.size > 1) {
    throw shapeError("vmap")`
      Cannot vmap over batches of ${[...sizes].join(", ")} samples, of tensors of shapes
      ${tensors.map(({ shape }) => shape)}: the axes in inAxes must have one length`;
  }
  throw shapeError("vmap")`
    Cannot vmap without a tensor that has an axis of samples: pass one, and its axis in inAxes`;
}

/** The axis of each tensor in a value. */
function axesOf(value: unknown, axes: SampleAxes): (number | null)[] {
  if (axes === null || typeof axes === "number") return tensorsIn(value).map(() => axes);
  const isList = Array.isArray(axes);
  const fits = isList ? Array.isArray(value) : isPlain(value) && !Array.isArray(axes);
  const keys = Object.keys(fits ? value as object : {});
  if (!fits || keys.length !== Object.keys(axes).length || keys.some((key) => !(key in axes))) {
    throw new TypeError(
      `Cannot vmap ${shown(value)} along the axes ${
        JSON.stringify(axes)
      }: they must have its shape`,
    );
  }
  const [all, items] = [axes as Record<string, SampleAxes>, value as Record<string, unknown>];
  return keys.flatMap((key) => axesOf(items[key], all[key]!));
}

function movedAxis(x: Tensor, from: number, to: number): Tensor {
  const at = normalizeAxis("vmap", from, x.shape), behind = normalizeAxis("vmap", to, x.shape);
  if (at === behind) return x;
  const axes = x.shape.map((_, axis) => axis);
  axes.splice(behind, 0, ...axes.splice(at, 1));
  return x.permute(axes);
}

// deno-lint-ignore no-explicit-any -- it gets what the user passes
type UserFunction = (...args: any[]) => unknown;

function mapped(
  f: UserFunction,
  batch: Batch,
  outAxis: SampleAxes,
  loops: { areSaid: boolean },
): unknown {
  const place = (value: unknown): unknown => {
    const made = tensorsIn(value).values(), axes = axesOf(value, outAxis).values();
    return withTensors(value, () => placed(made.next().value!, axes.next().value!));
  };
  // There each operation is computed when it is called, and needs a value.
  if (isEager()) return place(looped(f, batch));
  try {
    return place(batched(f, batch));
  } catch (error) {
    if (!(error instanceof NoBatchingRule || error instanceof DisposedError)) throw error;
    const value = looped(f, batch);
    const reason = error instanceof NoBatchingRule ? error.message : "it reads a value";
    if (!loops.areSaid) {
      console.warn(`vmap calls ${f.name || "a function"} for each of the samples: ${reason}`);
    }
    loops.areSaid = true;
    return place(value);
  }
}

function placed(x: Tensor, axis: number | null): Tensor {
  if (axis !== null) return movedAxis(x, 0, axis);
  throw new TypeError("Cannot vmap with null as outAxis: each sample has a result of its own");
}

/** The arguments of a call, with these in place of the tensors of which each sample has its own. */
function argumentsWith({ args, isOwn }: Batch, tensors: readonly Tensor[]): unknown[] {
  const next = tensors.values(), given = tensorsIn(args);
  let at = 0;
  return withTensors(args, () => {
    const former = given[at]!;
    return isOwn[at++] ? next.next().value! : former;
  }) as unknown[];
}

function called(f: UserFunction, args: readonly unknown[]): { value: unknown; outs: Tensor[] } {
  const value = transforming(() => f(...args)), outs = tensorsIn(value);
  if (outs.length > 0) return { value, outs };
  throw new TypeError(`Cannot vmap a function that returns ${shown(value)}: it must give tensors`);
}

function looped(f: UserFunction, batch: Batch): unknown {
  if (batch.size === 0) {
    throw shapeError("vmap")`Cannot vmap over no samples a function that must be called for each`;
  }
  const samples = batch.tensors.map((x) => x.unbind(0));
  const position = randomPosition();
  const found = Array.from({ length: batch.size }, (_, k) => {
    if (!batch.isRandomOwn) rewindRandom(position);
    return called(f, argumentsWith(batch, samples.map((each) => each[k]!)));
  });
  let at = 0;
  return withTensors(found[0]!.value, () => {
    const parts = found.map(({ outs }) => outs[at]!);
    at++;
    return Tensor.stack(parts);
  });
}

/** A tensor without a value. */
function placeholder(like: Tensor, shape: readonly number[], requiresGrad: boolean): Tensor {
  const node = new Node({ kind: "buffer" }, [], shape, like.dtype);
  const made = makeTensor(node, like.device);
  stateOf(made).requiresGrad = requiresGrad;
  return made;
}

/** The nodes that a function computes of one sample. */
interface Traced {
  /** Stand-ins for tensors of a sample, with those of all samples. */
  readonly pairs: ReadonlyMap<Tensor, Tensor>;
  readonly size: number;
  /** The order of the first tensor that the function made. */
  readonly start: number;
  /** The first node that the function made, where each sample has random numbers of its own. */
  readonly firstRandom: number | null;
  /** The nodes of all samples, as far as they are known. */
  readonly lifted: Lifted;
}

function batched(f: UserFunction, batch: Batch): unknown {
  const pairs = new Map(batch.tensors.map((x) => {
    const stand = placeholder(x, x.shape.slice(1), isGradEnabled() && x.requiresGrad);
    return [stand, x] as const;
  }));
  const temporaries: Temporary[] = [];
  const start = nextOrder(), first = nextNodeId();
  const { value, outs } = notingTemporaries(
    temporaries,
    () =>
      withTemporaries(() =>
        observeAssignments(
          refuseAssignment,
          // Rules are those of what a routine makes.
          () => withoutRoutines(() => called(f, argumentsWith(batch, [...pairs.keys()]))),
        )
      ),
  );
  const firstRandom = batch.isRandomOwn ? first : null;
  const results = lift(outs, { pairs, size: batch.size, start, firstRandom, lifted: new Map() });
  endTrace(temporaries, pairs, results.some((result) => result.requiresGrad));
  const next = results.values();
  return withTensors(value, () => next.next().value!);
}

function refuseAssignment(x: Tensor): never {
  stateOf(x).restoreFormer();
  throw new Error(
    `Cannot assign to a tensor of shape ${
      formatShape(x.shape)
    } within vmap: it would have a value ` +
      `for each sample; return the value. Batch normalization in training has running statistics: ` +
      `leave them out (func.replaceAllBatchNormModules), take GroupNorm, or call eval()`,
  );
}

/** Lets go of stand-ins for values of a sample; what `f` made otherwise, such as tables, is its own. */
function endTrace(
  temporaries: readonly Temporary[],
  pairs: Traced["pairs"],
  isRecorded: boolean,
): void {
  const states = temporaries.filter((t): t is TensorState =>
    t instanceof TensorState && t.lifecycle === "live"
  );
  const leaves = new Set([...pairs.keys()].map(nodeOf));
  const standing = new Set(dependents(states.map(({ node }) => node), leaves));
  for (const state of states) {
    if (!standing.has(state.node)) state.expose();
    else if (!isRecorded) state.dispose();
  }
}

/** The tensors of all samples for those of one, recorded where these are. */
function lift(outs: readonly Tensor[], traced: Traced): Tensor[] {
  const { pairs, size, firstRandom } = traced;
  const lifted = new Map(traced.lifted);
  if (firstRandom !== null) liftRandom(outs.map(nodeOf), firstRandom, size, lifted);
  for (const [stand, x] of pairs) lifted.set(nodeOf(stand), nodeOf(x));
  const nodes = liftNodes(outs.map(nodeOf), lifted, size);
  const results = nodes.map((node, k) => {
    const own = new Node({ kind: "reshape" }, [node], node.shape, node.dtype);
    return makeTensor(own, outs[k]!.device);
  });
  if (isGradEnabled()) record(outs, results, { ...traced, lifted });
  return results;
}

/** Records the results of all samples: their gradients are those of a sample, lifted. */
function record(outs: readonly Tensor[], results: readonly Tensor[], traced: Traced): void {
  const { pairs, lifted, size } = traced;
  const own = [...pairs.keys()].filter((stand) => stateOf(stand).needsGrad);
  const shared = sharedBy(outs, traced), targets = [...own, ...shared];
  if (targets.length === 0) return;
  const inputs = [...own.map((stand) => pairs.get(stand)!), ...shared];
  const gradFn = newGradFn("vmap", inputs, (_, __, gradients) => {
    const used = outs.map((_, k) => k).filter((k) => gradients[k] && outs[k]!.requiresGrad);
    const seeds = used.map((k) => placeholder(outs[k]!, outs[k]!.shape, isGradEnabled()));
    const found = withoutRoutines(() =>
      gradientsTo(used.map((k) => outs[k]!), seeds, targets, pairs)
    );
    const pair = seeds.map((seed, at) => [seed, gradients[used[at]!]!] as const);
    const all = lift(found, { ...traced, pairs: new Map([...pairs, ...pair]) });
    return all.map((g, k) => k < own.length ? g : size === 1 ? g.squeeze(0) : g.sum(0));
    // Backward uses the values of all samples on the way.
  }, { kept: lifted.values(), outputs: results.map((result) => stateOf(result).order) });
  results.forEach((result, k) => {
    if (outs[k]!.requiresGrad) stateOf(result).record(gradFn);
  });
}

/** Tensors that require a gradient, are used for every sample, and was there before the function was called. */
function sharedBy(outs: readonly Tensor[], { pairs, start }: Traced): Tensor[] {
  const found = new Set(outs.filter((out) => stateOf(out).needsGrad)), shared: Tensor[] = [];
  for (const tensor of found) {
    const { order, gradFn } = stateOf(tensor);
    if (pairs.has(tensor)) continue;
    if (order < start) shared.push(tensor);
    else if (gradFn !== null) { for (const input of neededInputs(gradFn)) found.add(input); }
  }
  return shared;
}

/** The gradients of `targets`, and no farther; zeros where there is none. */
function gradientsTo(
  outs: readonly Tensor[],
  seeds: readonly Tensor[],
  targets: readonly Tensor[],
  pairs: Traced["pairs"],
): Tensor[] {
  const ends = new Set(targets), found = new Map<Tensor, Tensor>(), createGraph = isGradEnabled();
  recording(createGraph, () => {
    const walk = new ReverseWalk(outs, seeds, {
      isEnd: (tensor) => ends.has(tensor),
      // Those of what all samples share are called with the sum.
      stopsAt: (tensor) => isHooked(stateOf(tensor)) && (pairs.has(tensor) || !ends.has(tensor)),
      visit: (tensor, gradient) => void (ends.has(tensor) && found.set(tensor, gradient)),
      repeat: ({ repetition }) => repetition?.run() ?? null,
      question: questionOf,
      pass: ({ gradient, user }, results, gradients, answer) =>
        user?.gradientsIn(answer) ??
          gradient(gradients.find((g) => g !== null)!, results[0]!, gradients),
    });
    for (let stop = walk.run(); stop !== null;) stop = walk.run(answerTo(stop, createGraph));
  });
  return targets.map((target) => found.get(target) ?? target.zerosLike());
}
