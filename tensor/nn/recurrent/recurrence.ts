/**
 * A recurrent layer over time as one operation. Forward, a step is a product and one kernel of gates.
 * Backward goes through time with one product a step, and gives the weights' gradients by one product
 * over all steps; the products with h are not kept for it but computed again, all at once.
 */
import { result } from "../../core/apply.ts";
import { compute } from "../../core/operations.ts";
import { isGradEnabled, withoutGrad } from "../../core/modes/grad_mode.ts";
import { Tensor } from "../../class/tensor.ts";
import { type Flows, type FusedRecurrence, fusedRecurrence } from "./fused_recurrence.ts";
import { blocks, type GateKind, gatesOf, type StateOf } from "./gates.ts";

/** Inputs of a recurrence; G is how many gates its kind has. */
export interface RecurrenceInputs {
  readonly kind: GateKind;
  /** True to go from the last step to the first. */
  readonly reverse: boolean;
  /** (T, N, G * H): what the inputs give each step. */
  readonly input: Tensor;
  /** (G * H, H). */
  readonly weight: Tensor;
  /** (G * H), added to the product with h. */
  readonly bias: Tensor | null;
  /** The first state, each (N, H). */
  readonly state: readonly Tensor[];
}

/** The states after each step: (states, T, N, H), in order of time. */
export function recurrence(inputs: RecurrenceInputs): Tensor {
  return compute(recurrenceOf, inputs);
}

function recurrenceOf(inputs: RecurrenceInputs): Tensor {
  const { input, weight, bias, state, kind } = inputs;
  const needed = [input, weight, ...state, ...(bias ? [bias] : [])];
  const isLearned = isGradEnabled() && needed.some(({ requiresGrad }) => requiresGrad);
  const fused = fusedRecurrence(inputs, isLearned);
  const value = fused ? fused.states() : withoutGrad(() => statesOf(inputs));
  return result(kind, needed, value, (g, y) =>
    // Second derivatives need the single operations.
    gradientsOf(
      inputs,
      fused && !isGradEnabled() ? throughKernel(inputs, fused, g) : throughSteps(inputs, g, y),
    ));
}

/** The steps in the order that the recurrence goes. */
function stepsOf({ input, reverse }: RecurrenceInputs): number[] {
  const steps = Array.from({ length: input.shape[0]! }, (_, step) => step);
  return reverse ? steps.reverse() : steps;
}

function productWith(h: Tensor, { weight, bias }: RecurrenceInputs): Tensor {
  const product = h.matmul(weight.transpose());
  return bias ? product.add(bias) : product;
}

function statesOf(inputs: RecurrenceInputs): Tensor {
  const { step: next } = gatesOf[inputs.kind];
  const after: Tensor[] = [], features = inputs.weight.shape[1]!;
  let state: StateOf = (k) => inputs.state[k]!;
  for (const step of stepsOf(inputs)) {
    const hidden = productWith(state(0), inputs);
    const packed = Tensor.stack(next({ input: inputs.input.slice(step), hidden, features, state }))
      // Stored, not computed again by everything that reads it.
      .contiguous();
    state = (k) => packed.slice(k);
    after[step] = packed;
  }
  return Tensor.stack(after, 1);
}

/** All states that steps began with, (states, T, N, H). */
function statesBefore({ state, reverse, input }: RecurrenceInputs, after: Tensor): Tensor {
  const first = Tensor.stack([...state]).unsqueeze(1), steps = input.shape[0]!;
  return reverse
    ? Tensor.concat([after.slice(null, [1, steps]), first], 1)
    : Tensor.concat([first, after.slice(null, [0, steps - 1])], 1);
}

/** Gradients found by going back through time, and h before each step, (T, N, H). */
interface Found extends Flows {
  readonly before: Tensor;
}

/** True when the first state gets a gradient. */
function wantsFirst({ state }: RecurrenceInputs): boolean {
  return state.some(({ requiresGrad }) => requiresGrad);
}

/** By the operations of each step. */
function throughSteps(inputs: RecurrenceInputs, g: Tensor, after: Tensor): Found {
  const before = statesBefore(inputs, after).contiguous();
  const products = once(() => productWith(before.slice(0), inputs).contiguous());
  return { ...throughTime(inputs, { g, after, before, products }), before: before.slice(0) };
}

/** By the kernel of all steps. */
function throughKernel(inputs: RecurrenceInputs, fused: FusedRecurrence, g: Tensor): Found {
  return { ...fused.throughTime(g, wantsFirst(inputs)), before: fused.before() };
}

/** Back-propagation through time: P. Werbos 1990. */
function gradientsOf(
  inputs: RecurrenceInputs,
  { found, flowing, before }: Found,
): (Tensor | null)[] {
  const { weight, bias } = inputs;
  const gates = gatesOf[inputs.kind];
  const features = weight.shape[1]!;
  const flat = (x: Tensor): Tensor => x.reshape([-1, x.shape.at(-1)!]);
  // Only what is wanted: the rest would not be computed, and keep what it is made from.
  const inner = weight.requiresGrad || bias?.requiresGrad
    ? blocks(found, gates.hidden, features)
    : null;
  return [
    inputs.input.requiresGrad
      ? Tensor.concat(gates.input.map((range) => blocks(found, range, features)), -1)
      : null,
    weight.requiresGrad ? flat(inner!).transpose().matmul(flat(before)) : null,
    ...flowing,
    ...(bias ? [bias.requiresGrad ? inner!.sum([0, 1]) : null] : []),
  ];
}

/** A tensor that is made when it is first asked for: one that nobody computes keeps its inputs. */
function once(make: () => Tensor): () => Tensor {
  let made: Tensor | null = null;
  return () => made ??= make();
}

/** Facts about all steps before going backward. */
interface Known {
  readonly g: Tensor;
  readonly after: Tensor;
  readonly before: Tensor;
  /** Made when asked for: not all gates need them. */
  readonly products: () => Tensor;
}

/** The blocks of all steps' gradients, (T, N, blocks * H), and those of the first state. */
function throughTime(
  inputs: RecurrenceInputs,
  { g, after, before, products }: Known,
): Flows {
  const { gradient, direct, hidden, states } = gatesOf[inputs.kind];
  const { weight } = inputs, features = weight.shape[1]!;
  const isWanted = wantsFirst(inputs);
  const stateAt = (x: Tensor, step: number): StateOf => (k) => x.slice(k, step);
  const at = (x: Tensor, step: number): Tensor[] =>
    Array.from({ length: states }, (_, k) => x.slice(k, step));
  const found: Tensor[] = [], steps = stepsOf(inputs).reverse(), stored = g.contiguous();
  let arriving = at(stored, steps[0]!);
  steps.forEach((step, position) => {
    const input = once(() => inputs.input.slice(step));
    const product = once(() => products().slice(step));
    const known = {
      get input(): Tensor {
        return input();
      },
      get hidden(): Tensor {
        return product();
      },
      features,
      state: stateAt(before, step),
    };
    const next = steps[position + 1];
    const elsewhere = next === undefined ? [] : at(stored, next);
    const parts = gradient(known, stateAt(after, step), arriving, elsewhere);
    const packed = Tensor.concat(parts, -1).contiguous();
    found[step] = packed;
    if (next === undefined && !isWanted) return;
    const through = blocks(packed, hidden, features).matmul(weight);
    const [toH, ...others] = direct(known, arriving, packed);
    const flowing = toH ? through.add(toH) : through;
    const sum = elsewhere[0] ? flowing.add(elsewhere[0]) : flowing;
    arriving = [sum.contiguous(), ...others as Tensor[]];
  });
  return { found: Tensor.stack(found), flowing: isWanted ? arriving : arriving.map(() => null) };
}
