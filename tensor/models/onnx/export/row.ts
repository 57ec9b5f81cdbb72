import type { DType } from "../../../../backend/internal.ts";
import type { GraphWriter } from "./graph_writer.ts";
import { isUsed, type RecordedCall, type Used } from "./recording.ts";

/** A call in both runs, and where it is written. */
export interface Written {
  /** The graph. */
  readonly graph: GraphWriter;
  /** The call. */
  readonly call: RecordedCall;
  /** The same call with other lengths of the axes that may have any. */
  readonly other: RecordedCall;
}

/** Writes a call; gives the names of its results, in their order. */
export type Row = (written: Written) => string | string[];

/** Attributes of a node. */
export type Attributes = Record<string, number | string | readonly number[] | readonly string[]>;

/** An argument that is a tensor; the first one unless said. */
export function input(written: Written, k = 0): Used {
  const value = written.call.args[k];
  if (isUsed(value)) return value;
  throw new TypeError(`Cannot save ${written.call.name}: its argument ${k} is no tensor`);
}

/** The element type of a result. */
export function typeOfResult({ call }: Written): DType {
  return (call.output as Used).tensor.dtype;
}

/** The shapes of a result in both runs. */
export function shapesOfResult({ call, other }: Written): [readonly number[], readonly number[]] {
  return [(call.output as Used).tensor.shape, (other.output as Used).tensor.shape];
}

/** A node on the first argument, in the type of the result. */
