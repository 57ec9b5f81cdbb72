/**
 * The row program: the statements of one row of a kernel, made once. A mapping to work-items, groups,
 * vectors or lanes sets how its sums are cut and how many of them run side by side; writers render the
 * steps in order, and decide nothing.
 */
import { neededBy, reductionStages, usesInner, variesWith } from "./analysis.ts";
import type { Blocks } from "./accumulation.ts";
import type { LoopKernel } from "./kernel.ts";

/** Computes values that are the same for all elements of the row. */
export interface ComputeStep {
  readonly kind: "compute";
  readonly exprs: readonly number[];
}

/**
 * Walks the elements of the row, joins values of each into the results of reductions, and stores those
 * that are outputs.
 */
export interface ReduceStep {
  readonly kind: "reduce";
  /** Expressions computed of each element. */
  readonly exprs: readonly number[];
  /** The reductions that share the walk. */
  readonly reductions: readonly number[];
  /** The sums that are added up in blocks, with the blocks; null where none is long enough. */
  readonly blocked: BlockedSums | null;
  /** Accumulators of each reduction that run side by side. */
  readonly copies: number;
  /** A value that is stored on the way, for the step that stores elements. */
  readonly keeps: KeptValue | null;
  /** Outputs with an element for each of the row's, stored on the way: the step computes their values. */
  readonly outputs: readonly number[];
}

/** Stores outputs that have one element in a row. */
export interface StoreStep {
  readonly kind: "store";
  readonly outputs: readonly number[];
}

/** Walks the elements of the row, and stores outputs that have an element for each. */
export interface StoreEachStep {
  readonly kind: "storeEach";
  /** Expressions computed of each element; a value that was kept is read back in its place. */
  readonly exprs: readonly number[];
  readonly outputs: readonly number[];
  readonly keeps: KeptValue | null;
}

/** One step of a row. */
export type RowStep = ComputeStep | ReduceStep | StoreStep | StoreEachStep;

/** The steps of a row, in order. */
export type RowProgram = readonly RowStep[];

/** Sums that are added up in blocks of one loop. */
export interface BlockedSums {
  readonly blocks: Blocks;
  readonly sums: readonly number[];
}

/**
 * A costly value that an output holds in its place from the last reduction until the output itself is
 * stored, such as the exponentials of a softmax.
 */
export interface KeptValue {
  readonly expr: number;
  readonly output: number;
}

/** The program of a kernel's rows. */
export function rowProgram(kernel: LoopKernel, keeps: KeptValue | null = null): RowProgram {
  const varies = variesWith(kernel, kernel.inner);
  const steps: RowStep[] = [], done = new Set<number>();
  const exprsOf = (outputs: readonly number[]): number[] =>
    outputs.map((o) => kernel.outputs[o]!.expr);
  /** Adds a step for what is not computed yet, and gives what is left to compute of each element. */
  const compute = (needed: readonly number[]): number[] => {
    const exprs = needed.filter((id) => !varies[id] && !done.has(id));
    for (const id of exprs) done.add(id);
    if (exprs.length > 0) steps.push({ kind: "compute", exprs });
    return needed.filter((id) => varies[id]);
  };
  const all = kernel.outputs.map((_, o) => o), stored = new Set<number>();
  const each = all.filter((o) => varies[kernel.outputs[o]!.expr] || usesInner(kernel, o));
  const stages = reductionStages(kernel);
  stages.forEach((reductions, k) => {
    const exprs = compute(neededBy(kernel, reductions.map((r) => kernel.reductions[r]!.expr)));
    const isLast = k === stages.length - 1;
    // All of them or none: what another walk reads may lie where an output is stored.
    const isComputed = each.every((o) => exprs.includes(kernel.outputs[o]!.expr));
    const outputs = isLast && keeps === null && isComputed ? each : [];
    for (const o of outputs) stored.add(o);
    const kept = isLast ? keeps : null;
    steps.push({
      kind: "reduce",
      exprs,
      reductions,
      blocked: null,
      copies: 1,
      keeps: kept,
      outputs,
    });
  });
  const once = all.filter((o) => !each.includes(o));
  compute(neededBy(kernel, exprsOf(once)));
  if (once.length > 0) steps.push({ kind: "store", outputs: once });
  if (stored.size < each.length) {
    const known = new Set(keeps ? [keeps.expr] : []);
    const exprs = compute(neededBy(kernel, exprsOf(each), known)).filter((id) => !known.has(id));
    steps.push({ kind: "storeEach", exprs, outputs: each, keeps });
  }
  return steps;
}

/** The step of a program that joins the last reductions; null where nothing is reduced. */
export function lastReduction(program: RowProgram): ReduceStep | null {
  return program.findLast((step) => step.kind === "reduce") ?? null;
}

/** The step that stores an element for each of the row's; null where there is none. */
export function elementStores(program: RowProgram): StoreEachStep | null {
  return program.find((step) => step.kind === "storeEach") ?? null;
}

/** A mapping: the program with other cuts or copies of its reductions. */
export function mapReductions(
  program: RowProgram,
  map: (step: ReduceStep) => Partial<Pick<ReduceStep, "blocked" | "copies">>,
): RowProgram {
  return program.map((step) => step.kind === "reduce" ? { ...step, ...map(step) } : step);
}

/** Writer of the steps of a row. */
export interface RowWriter {
  compute(exprs: readonly number[]): void;
  reduce(step: ReduceStep): void;
  store(outputs: readonly number[]): void;
  storeEach(step: StoreEachStep): void;
}

/** Renders a program, step by step. */
export function writeRow(program: RowProgram, writer: RowWriter): void {
  for (const step of program) {
    switch (step.kind) {
      case "compute":
        writer.compute(step.exprs);
        break;
      case "reduce":
        writer.reduce(step);
        break;
      case "store":
        writer.store(step.outputs);
        break;
      case "storeEach":
        writer.storeEach(step);
        break;
      default:
        step satisfies never;
    }
  }
}
