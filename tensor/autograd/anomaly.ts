/** Anomaly detection: finds the operation whose gradient became NaN, and where it was computed. */
import { formatShape } from "../../backend/internal.ts";
import type { GradFn } from "../core/grad_fn.ts";
import { computeWithNext } from "../core/pending_work.ts";
import type { Tensor } from "../core/mod.ts";
import { stateOf } from "../core/internals.ts";

/** A gradient became NaN while anomalies were looked for. */
export class AnomalyError extends Error {
  /** The operation whose gradient became NaN; null where `backward` was given NaN. */
  readonly operation: string | null;

  /**
   * Made by `backward`.
   *
   * @param message What is NaN, since when, and where that was computed.
   * @param operation The operation.
   */
  constructor(message: string, operation: string | null) {
    super(message);
    this.name = "AnomalyError";
    this.operation = operation;
  }
}

/** One gradient that may be NaN. */
interface Suspect {
  readonly gradient: Tensor;
  readonly gradFn: GradFn | null;
  /** Name of the differentiated value, for the message. */
  readonly role: string;
}

/** The gradients of one walk, looked at together when it is done. */
export class AnomalyWatch {
  readonly #suspects: Suspect[] = [];
  readonly #gradFns = new Map<Tensor, GradFn>();

  /** Notes a gradient that `backward` starts from. */
  addSeed(gradient: Tensor): void {
    this.#suspects.push({ gradient, gradFn: null, role: "the gradient that backward starts from" });
  }

  /** Notes the sum of what several users of a tensor want changed. */
  addSum(gradFn: GradFn | null, gradient: Tensor): void {
    const role = "the sum of the gradients that meet at its result";
    if (gradFn) this.#suspects.push({ gradient, gradFn, role });
  }

  /** Notes what the gradient function of an operation returned. */
  addResults(tensor: Tensor, gradFn: GradFn, results: readonly (Tensor | null)[]): void {
    this.#gradFns.set(tensor, gradFn);
    results.forEach((gradient, k) => {
      if (gradient) {
        this.#suspects.push({ gradient, gradFn, role: `the gradient of its input ${k}` });
      }
    });
  }

  /** @throws {AnomalyError} When one of the gradients is NaN; it names the first in backward order. */
  check(): void {
    const at = firstNaN(this.#suspects.map((s) => s.gradient));
    if (at) throw this.#error(this.#suspects[at.index]!, at.count);
  }

  #error({ gradient, gradFn, role }: Suspect, count: number): AnomalyError {
    const what = `${role}, of shape ${formatShape(gradient.shape)}, is NaN in ${count} of ` +
      `${gradient.size} elements`;
    if (!gradFn) return new AnomalyError(`Cannot go backward: ${what}`, null);
    return new AnomalyError(
      `Cannot go backward through ${gradFn.name}: ${what}${whereOf(gradFn)}\n${this.#origin()}`,
      gradFn.name,
    );
  }

  /** Tells whether the forward pass brought the NaN, and where it began. */
  #origin(): string {
    const values = new Set(
      [...this.#gradFns].flatMap(([tensor, { inputs }]) => [tensor, ...inputs]),
    );
    const tensors = [...values].filter((t) => !t.disposed).sort((a, b) =>
      stateOf(a).order - stateOf(b).order
    );
    const at = firstNaN(tensors);
    if (!at) {
      return "The values of the forward pass are not NaN: look for 0 * Infinity, as from a division " +
        "by 0, or from sqrt, log or pow at 0; select the elements before such an operation, not after";
    }
    const tensor = tensors[at.index]!, gradFn = this.#gradFns.get(tensor);
    return gradFn
      ? `The forward pass brought it: the first NaN was the value of ${gradFn.name}${
        whereOf(gradFn)
      }`
      : `The forward pass brought it: a tensor of shape ${
        formatShape(tensor.shape)
      } that it started ` +
        `from is NaN in ${at.count} of ${tensor.size} elements`;
  }
}

function whereOf({ name, stack }: GradFn): string {
  return stack === undefined
    ? `; to see where ${name} was called, run the forward pass in detectAnomaly too`
    : `; ${name} was called\n${stack}`;
}

/** The first tensor with NaN, and how many elements are. */
function firstNaN(tensors: readonly Tensor[]): { index: number; count: number } | null {
  const counts = tensors.map((t) => t.isNaN().sum());
  // In one schedule.
  counts.forEach(computeWithNext);
  counts[0]?.realize();
  for (const [index, total] of counts.entries()) {
    const count = total.itemSync();
    if (count > 0) return { index, count };
  }
  return null;
}
