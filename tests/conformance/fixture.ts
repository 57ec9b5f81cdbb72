/** The expected values that the scripts in `tests/fixtures/ops` wrote with PyTorch. */
import { assert } from "@std/assert";
import type { DType } from "../../mod.ts";

/** A tensor on paper; numbers that JSON lacks, and large integers, are strings. */
export interface Value {
  readonly shape: readonly number[];
  readonly dtype: DType;
  readonly data: readonly (number | string)[];
}

/** One call of an operation, with what PyTorch gets from it. */
export interface Case {
  readonly op: string;
  readonly variant: string;
  readonly inputs: readonly Value[];
  /** The arguments behind the tensors. */
  readonly args: readonly unknown[];
  readonly outputs: readonly Value[];
  /** The gradients of the inputs for {@linkcode cotangent}; absent where there are none. */
  readonly grads?: readonly (readonly (number | string)[] | null)[];
}

const folder = new URL("../fixtures/ops/", import.meta.url);

/** The lines of a fixture. */
export function readLines<T>(name: string): T[] {
  const text = Deno.readTextFileSync(new URL(`${name}.jsonl`, folder));
  return text.trimEnd().split("\n").map((line) => JSON.parse(line) as T);
}

/** The names of the fixtures that hold cases. */
export const families: readonly string[] =
  "unary binary cast reduction product shape indexing creation pieces layers selection scans statistics \
numeric narrow".split(" ");

/** The cases of a family of operations. */
export function readCases(family: string): Case[] {
  return readLines<Case>(family);
}

/** The cases of all families. */
export function allCases(): Case[] {
  return families.flatMap(readCases);
}

/** A name for messages. */
export function titleOf(c: Case): string {
  return `${c.op} (${c.variant})`;
}

/** A number of the fixture, as a double. */
export function decode(value: number | string): number {
  if (typeof value === "number") return value;
  if (value === "nan") return NaN;
  if (value === "inf") return Infinity;
  return value === "-inf" ? -Infinity : Number(value);
}

/** Factors that gradients are taken with: the same numbers as in the script. */
export function cotangent(n: number): number[] {
  return Array.from({ length: n }, (_, k) => ((7 * k) % 11 - 5) / 4);
}

/** Fails with the faults of cases, if there are any. */
export function assertNoProblems(problems: readonly string[], count: number): void {
  assert(problems.length === 0, `${problems.length} of ${count}:\n${problems.join("\n")}`);
}
