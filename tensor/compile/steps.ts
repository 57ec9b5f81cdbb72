/** The operations that a compiled function called, as a tree: one path for each recorded call. */
import { type DeviceHandle, manager } from "../../backend/internal.ts";
import { autocast, type HalfType, presentHalfType } from "../core/autocast.ts";
import type { Operation, OperationKind } from "../core/calls.ts";
import { enableGrad, isGradEnabled, noGrad } from "../core/modes/grad_mode.ts";
import { tensorsIn } from "../core/nested.ts";
import type { Tensor } from "../core/mod.ts";
import { type Argument, type Output, type Pattern, type Ref, refsIn } from "./patterns.ts";
import type { RecordedProgram } from "./program.ts";

/** Effect of an operation on a gradient; the same before and after where it only used it. */
export interface Touch {
  readonly leaf: Ref;
  readonly before: Ref | null;
  readonly after: Ref | null;
  /** True when the leaf has hooks, at which `backward` stops. */
  readonly isHooked: boolean;
}

/** An operation that was called, and what was called after it. */
export interface Step {
  /** Null for the end of the function. */
  readonly fn: Operation | null;
  readonly kind: OperationKind;
  readonly self: Pattern;
  readonly args: readonly Pattern[];
  /** The modes that it was called in; the active device matters where no tensor has one. */
  readonly grad: boolean;
  readonly half: HalfType | null;
  readonly device: DeviceHandle | null;
  readonly result: Pattern;
  readonly outputs: readonly Output[];
  readonly touches: readonly Touch[];
  /** The tensors that it assigned, from outside. */
  readonly assigned: readonly (Ref | Tensor)[];
  readonly children: Step[];
  /** At the end: what is replayed. */
  program: RecordedProgram | null;
}

/** Start of calls with arguments of one kind. */
export interface Root {
  readonly arguments: readonly Argument[];
  readonly children: Step[];
}

const nothing: Pattern = { kind: "value", value: undefined };

/** A step in the present modes; what is not named has nothing in it. */
export function stepOf(step: Partial<Step> & Pick<Step, "fn" | "kind" | "self">): Step {
  return {
    args: [],
    grad: isGradEnabled(),
    half: presentHalfType(),
    device: null,
    result: nothing,
    outputs: [],
    touches: [],
    assigned: [],
    children: [],
    program: null,
    ...step,
  };
}

/** Stands for a change of a number in memory. */
export const written: Operation = () => {};

/** True where the modes are those that a step was recorded in. */
export function isInMode({ grad, half, device }: Step): boolean {
  return grad === isGradEnabled() && half === presentHalfType() &&
    (device === null || device === manager.active);
}

/** Runs `fn` in the modes of a step. */
export function inMode<T>({ grad, half }: Step, fn: () => T): T {
  const mode = grad ? enableGrad : noGrad;
  return mode(() => autocast(half ?? "float32", fn));
}

/** Calls `visit` for each tensor of a value with its role in a pattern. */
export function pairs(
  pattern: Pattern,
  value: unknown,
  visit: (ref: Ref, tensor: Tensor) => void,
): void {
  const tensors = tensorsIn(value);
  refsIn(pattern).forEach((ref, k) => visit(ref, tensors[k]!));
}
