/** Anomaly detection: finds the operation whose gradient became NaN, and where it was computed. */
import { AsyncLocalStorage } from "node:async_hooks";
import { formatShape } from "../../backend/engine.ts";
import type { Edge } from "./autograd.ts";
import { realizeAll } from "../execution/realization.ts";
import type { Tensor } from "../tensor.ts";
import { requireValue, takes } from "../core/options.ts";

const scope = new AsyncLocalStorage<boolean>();
let always = false;
/** Nobody pays for a look at the scope before the first use. */
let everUsed = false;

/** True where `backward` looks for NaN and operations note where they were called. */
export function isAnomalyEnabled(): boolean {
  return everUsed && (scope.getStore() ?? always);
}

/**
 * Runs `fn` with anomaly detection: operations note where they were called, and `backward` (and
 * `grad`) throws an {@linkcode AnomalyError} if a gradient is NaN, which names the operation that
 * made it so and where that was called. Put the forward pass and `backward` inside. It is for
 * finding bugs: backward computes at once, and more than it otherwise would; functions made by
 * `compile` run as they are written. Safe across await.
 *
 * @param fn What to run.
 * @returns What `fn` returns.
 *
 * @example
 * ```ts
 * import { AnomalyError, detectAnomaly, Tensor } from "@netcl/netcl";
 * import { assertThrows } from "@std/assert";
 *
 * const x = Tensor.fromHost([0, 4], { requiresGrad: true });
 * assertThrows(
 *   () => detectAnomaly(() => x.sqrt().mul(0).sum().backward()),
 *   AnomalyError,
 *   "Cannot go backward through sqrt",
 * );
 * ```
 */
export function detectAnomaly<T>(fn: () => T): T {
  requireValue("detect anomalies", "fn", fn, takes.callback);
  everUsed = true;
  return scope.run(true, fn);
}

/**
 * Turns anomaly detection on or off for the whole program, where no {@linkcode detectAnomaly} says
 * otherwise.
 *
 * @param on Whether to look for NaN.
 */
export function setDetectAnomaly(on: boolean): void {
  requireValue("set the detection of anomalies", "on", on, takes.bool);
  everUsed ||= on;
  always = on;
}

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

const here = new URL("../", import.meta.url).href;
const layers = new URL("nn/", here).href;
const MOST_FRAMES = 64;

function isInside(frame: string): boolean {
  return frame.includes(here) && !frame.includes(layers);
}

/** Where the running operation was called: the stack without the library's own first frames. */
export function callerStack(): string {
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = MOST_FRAMES;
  const frames = (new Error().stack ?? "").split("\n").slice(1);
  Error.stackTraceLimit = limit;
  const first = frames.findIndex((frame) => !isInside(frame));
  return frames.slice(Math.max(0, first)).join("\n");
}

/** One gradient that may be NaN. */
interface Suspect {
  readonly gradient: Tensor;
  readonly edge: Edge | null;
  /** What it is the gradient of, for the message. */
  readonly role: string;
}

/** The gradients of one walk, looked at together when it is done. */
export class AnomalyWatch {
  readonly #suspects: Suspect[] = [];
  readonly #edges = new Map<Tensor, Edge>();

  /** Notes a gradient that `backward` starts from. */
  addSeed(gradient: Tensor): void {
    this.#suspects.push({ gradient, edge: null, role: "the gradient that backward starts from" });
  }

  /** Notes the sum of what several users of a tensor want changed. */
  addSum(edge: Edge | null, gradient: Tensor): void {
    const role = "the sum of the gradients that meet at its result";
    if (edge) this.#suspects.push({ gradient, edge, role });
  }

  /** Notes what the gradient function of an operation returned. */
  addResults(tensor: Tensor, edge: Edge, results: readonly (Tensor | null)[]): void {
    this.#edges.set(tensor, edge);
    results.forEach((gradient, k) => {
      if (gradient) this.#suspects.push({ gradient, edge, role: `the gradient of its input ${k}` });
    });
  }

  /** @throws {AnomalyError} When one of the gradients is NaN; it names the first in backward order. */
  check(): void {
    const at = firstNaN(this.#suspects.map((s) => s.gradient));
    if (at) throw this.#error(this.#suspects[at.index]!, at.count);
  }

  #error({ gradient, edge, role }: Suspect, count: number): AnomalyError {
    const what = `${role}, of shape ${formatShape(gradient.shape)}, is NaN in ${count} of ` +
      `${gradient.size} elements`;
    if (!edge) return new AnomalyError(`Cannot go backward: ${what}`, null);
    return new AnomalyError(
      `Cannot go backward through ${edge.name}: ${what}${whereOf(edge)}\n${this.#origin()}`,
      edge.name,
    );
  }

  /** Whether the forward pass brought the NaN, and where it began. */
  #origin(): string {
    const values = new Set([...this.#edges].flatMap(([tensor, { inputs }]) => [tensor, ...inputs]));
    const tensors = [...values].filter((t) => !t.disposed).sort((a, b) => a.order - b.order);
    const at = firstNaN(tensors);
    if (!at) {
      return "The values of the forward pass are not NaN: look for 0 * Infinity, as from a division " +
        "by 0, or from sqrt, log or pow at 0; select the elements before such an operation, not after";
    }
    const tensor = tensors[at.index]!, edge = this.#edges.get(tensor);
    return edge
      ? `The forward pass brought it: the first NaN was the value of ${edge.name}${whereOf(edge)}`
      : `The forward pass brought it: a tensor of shape ${
        formatShape(tensor.shape)
      } that it started ` +
        `from is NaN in ${at.count} of ${tensor.size} elements`;
  }
}

function whereOf({ name, stack }: Edge): string {
  return stack === undefined
    ? `; to see where ${name} was called, run the forward pass in detectAnomaly too`
    : `; ${name} was called\n${stack}`;
}

/** The first tensor with NaN, and how many elements are. */
function firstNaN(tensors: readonly Tensor[]): { index: number; count: number } | null {
  const counts = tensors.map((t) => t.isNaN().sum());
  realizeAll(counts);
  for (const [index, total] of counts.entries()) {
    const count = total.itemSync();
    if (count > 0) return { index, count };
  }
  return null;
}
