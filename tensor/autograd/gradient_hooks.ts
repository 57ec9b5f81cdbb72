/** Hooks of users on gradients on their way: see `Tensor.registerHook`. */
import { sameShape } from "../../backend/internal.ts";
import { withoutAutocast } from "../core/autocast.ts";
import { distinct, requireTensor } from "../core/apply.ts";
import type { GradientHook, HookHandle } from "../core/arguments.ts";
import { isObserved } from "../core/calls.ts";
import { stateOf } from "../core/internals.ts";
import { recording } from "../core/modes/grad_mode.ts";
import { calledByUser } from "../core/modes/temporaries.ts";
import { act, compute } from "../core/operations.ts";
import { shapeError } from "../core/rules/errors.ts";
import { requireValue, takes } from "../core/rules/options.ts";
import type { Tensor } from "../core/mod.ts";
import { hookHandle, HookList, type TensorState } from "../core/tensor_state.ts";
import { isRecomputing } from "./recomputing.ts";

/** The hooks of a tensor, which those of what is computed again in its place are, too. */
export function hooksOf(state: TensorState): HookList {
  return state.hooks ??= new HookList();
}

/** True where a gradient stops for hooks. */
export function isHooked({ hooks }: TensorState): boolean {
  return hooks !== null && hooks.count > 0;
}

/** Tells `compile` that a tensor has more hooks now, or fewer. */
function countHooks(tensor: Tensor, by: number): void {
  hooksOf(stateOf(tensor)).count += by;
}

/** True for what a call of a compiled function promised that is over. */
function isOver(tensor: Tensor): boolean {
  const { lifecycle, standsFor } = stateOf(tensor);
  return lifecycle === "stand-in" && (standsFor as { tensor?: unknown }).tensor !== tensor;
}

/**
 * Adds a hook, until what it returns is removed. In what a checkpoint computes again it is
 * there already.
 *
 * @throws {TypeError} When the tensor requires no gradient.
 */
export function addGradientHook(tensor: Tensor, run: GradientHook): HookHandle {
  requireValue("register a hook", "hook", run, takes.callback);
  if (!tensor.requiresGrad) {
    throw new TypeError(
      `Cannot register a hook of ${tensor}: it requires no gradient; set requiresGrad, or what it is ` +
        `computed from`,
    );
  }
  if (isRecomputing()) return hookHandle(() => {});
  const entry = { run };
  act("hook", countHooks, tensor, 1);
  const list = hooksOf(stateOf(tensor));
  list.entries.add(entry);
  if (isObserved()) list.tensor = tensor;
  return hookHandle(() => {
    if (!list.entries.delete(entry)) return;
    if (isOver(tensor)) list.count--;
    else act("hook", countHooks, tensor, -1);
  });
}

/** Calls the hooks of a tensor as `backward` would: recorded only where its gradients are. */
export function hookedGradient(tensor: Tensor, gradient: Tensor, createGraph: boolean): Tensor {
  const entries = stateOf(tensor).hooks?.entries;
  if (!entries) return gradient;
  return recording(
    createGraph,
    () =>
      withoutAutocast(() =>
        [...entries].reduce((current, { run }) => {
          // The user may keep what he gets.
          const next: unknown = calledByUser(() => run(compute(distinct, "hook", current))) ?? null;
          return next === null ? current : checked(next, tensor);
        }, gradient)
      ),
  );
}

function checked(next: unknown, { shape, dtype }: Tensor): Tensor {
  requireTensor("go backward", next, " from a hook, or nothing");
  if (sameShape(next.shape, shape)) return next.cast(dtype);
  throw shapeError("backward")`
    Cannot go backward with a gradient of shape ${next.shape} from a hook of a tensor of shape
    ${shape}: return one of its shape`;
}
