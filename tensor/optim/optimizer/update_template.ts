/**
 * Template of a step's updates, the same expression of parameters, gradients and state: its
 * nodes are noted once, and made again without running the optimizer's operations.
 */
import { isEager, type Node, Template } from "../../../backend/internal.ts";
import { type HalfType, presentHalfType } from "../../core/autocast.ts";
import { makeTensor, nodeOf } from "../../core/internals.ts";
import type { Tensor } from "../../core/mod.ts";

/** Dependencies of the updates of a step. */
export interface UpdateKey {
  /** The parameters that are updated, in order. */
  readonly parameters: readonly Tensor[];
  /** Grows when options change, and when state is kept in other tensors. */
  readonly version: number;
  /** The tensors that the updates read. */
  readonly inputs: readonly Tensor[];
}

/** The updates of one kind of step. */
interface Known {
  readonly key: Omit<UpdateKey, "inputs">;
  readonly half: HalfType | null;
  /** The tensors that get the results of the template. */
  readonly targets: readonly Tensor[];
  readonly template: Template;
}

/** So many kinds of steps are known: those of two losses in turn, for example. */
const MAX_KNOWN = 4;

/** The updates of one optimizer. */
export class UpdateTemplates {
  /** The one that was used last comes first. */
  readonly #known: Known[] = [];

  /**
   * The next values of parameters and state, by the tensors that get them.
   *
   * @param key What they depend on.
   * @param update Computes them by operations on tensors.
   */
  nextValues(key: UpdateKey, update: () => Map<Tensor, Tensor>): Map<Tensor, Tensor> {
    if (isEager()) return update();
    const inputs = key.inputs.map(nodeOf), half = presentHalfType();
    const at = this.#known.findIndex((known) =>
      known.half === half && areEqual(known.key, key) && known.template.takes(inputs)
    );
    if (at < 0) return this.#record(key, half, inputs, update);
    if (at > 0) this.#known.unshift(...this.#known.splice(at, 1));
    const { template, targets } = this.#known[0]!, values = template.instantiate(inputs);
    return new Map(targets.map((to, k) => [to, makeTensor(values[k]!, to.device)]));
  }

  #record(
    { parameters, version }: UpdateKey,
    half: HalfType | null,
    inputs: readonly Node[],
    update: () => Map<Tensor, Tensor>,
  ): Map<Tensor, Tensor> {
    const { result: next, template } = Template.record(
      inputs,
      update,
      (values) => [...values.values()].map(nodeOf),
    );
    if (template === null) return next;
    this.#known.unshift({
      key: { parameters, version },
      half,
      targets: [...next.keys()],
      template,
    });
    if (this.#known.length > MAX_KNOWN) this.#known.pop();
    return next;
  }
}

function areEqual(a: Omit<UpdateKey, "inputs">, b: UpdateKey): boolean {
  return a.version === b.version && a.parameters.length === b.parameters.length &&
    a.parameters.every((parameter, k) => parameter === b.parameters[k]);
}
