/**
 * A recurrent layer over time as one kernel a pass, on devices whose cores keep its weights at hand. It
 * computes in float32, also where its tensors are of a half type.
 */
import {
  backendOf,
  type DType,
  gateCounts,
  Node,
  type RecurrenceOp,
} from "../../../backend/internal.ts";
import { result } from "../../core/apply.ts";
import { nodeOf } from "../../core/internals.ts";
import { withoutGrad } from "../../core/modes/grad_mode.ts";
import { Tensor } from "../../class/tensor.ts";
import { blocks } from "./gates.ts";
import type { RecurrenceInputs } from "./recurrence.ts";

/** Columns of the weights: kernels read so many at once. */
const LANES = 16;

/** The types that it takes. */
const types: ReadonlySet<DType> = new Set<DType>(["float32", "float16", "bfloat16"]);

/** Gradients found by going back through time. */
export interface Flows {
  /** The blocks of all steps' gradients, (T, N, blocks * H). */
  readonly found: Tensor;
  /** The gradients of the first state; null where they are not wanted. */
  readonly flowing: (Tensor | null)[];
}

/** The states of a layer, and its gradients. */
export interface FusedRecurrence {
  /** (states, T, N, H), in order of time. */
  states(): Tensor;
  /** All values of h that steps began with, (T, N, H). */
  before(): Tensor;
  /**
   * @param g The gradient of the states.
   * @param isWanted Whether the first state gets a gradient.
   */
  throughTime(g: Tensor, isWanted: boolean): Flows;
}

/** True when its steps are one kernel. */
function isFused({ input, weight, kind }: RecurrenceInputs): boolean {
  const [rows, features] = weight.shape as [number, number];
  const { maxRecurrentBytes } = backendOf(input.device).capabilities;
  return types.has(input.dtype) && input.size > 0 && features > 0 &&
    4 * rows * features <= maxRecurrentBytes && rows === gateCounts[kind].gates * features;
}

/**
 * A layer over time as one operation; null where it is computed step by step.
 *
 * @param inputs What it is computed from.
 * @param isLearned Whether `throughTime` will be called.
 */
export function fusedRecurrence(
  inputs: RecurrenceInputs,
  isLearned: boolean,
): FusedRecurrence | null {
  if (!isFused(inputs)) return null;
  const { kind, reverse, input, bias, weight } = inputs;
  const [steps, batch] = input.shape as [number, number];
  const features = weight.shape[1]!;
  const { states, kept, blocks: found } = gateCounts[kind];
  const op = { kind: "recurrence", gates: kind, isReverse: reverse } as const;
  const single = (x: Tensor): Tensor => x.cast("float32");
  const planes = withoutGrad(() => {
    const read = [single(input), transposed(inputs), single(Tensor.stack([...inputs.state]))];
    const shape = [states + (isLearned ? kept : 0), steps + 1, batch, features];
    return node({ ...op, pass: "forward" }, bias ? [...read, single(bias)] : read, shape);
  });
  const past: [number, number] = reverse ? [1, steps + 1] : [0, steps];
  const present: [number, number] = reverse ? [0, steps] : [1, steps + 1];
  return {
    states: () => withoutGrad(() => planes.slice([0, states], present).cast(input.dtype)),
    before: () => planes.slice(0, past).cast(input.dtype),
    throughTime(g, isWanted) {
      const shape = [steps + 1, batch, found * features];
      const padded = single(weight).pad([[0, 0], [0, padding(features)]]);
      const all = node({ ...op, pass: "backward" }, [planes, single(g), padded], shape);
      const first = (k: number): Tensor => blocks(all.slice(steps), [k, k + 1], features);
      return {
        found: all.slice([0, steps]).cast(input.dtype),
        flowing: Array.from(
          { length: states },
          (_, k) => isWanted ? first(k).cast(input.dtype) : null,
        ),
      };
    },
  };
  function node(op: RecurrenceOp, read: readonly Tensor[], shape: readonly number[]): Tensor {
    return result(kind, read, new Node(op, read.map(nodeOf), shape, "float32"), null);
  }
}

function padding(features: number): number {
  return Math.ceil(features / LANES) * LANES - features;
}

/** The weights (H, gates * columns) that h is multiplied by. */
function transposed({ kind, weight }: RecurrenceInputs): Tensor {
  const features = weight.shape[1]!;
  if (padding(features) === 0) return weight.cast("float32").transpose();
  return weight.cast("float32").reshape([gateCounts[kind].gates, features, features])
    .pad([[0, 0], [0, padding(features)], [0, 0]]).permute([2, 0, 1]).reshape([features, -1]);
}
