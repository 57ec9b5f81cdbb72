/**
 * Sums and products of whole numbers as expressions: their terms, and their multiples of a lane.
 */
import type { Expression } from "../../../matrix/language.ts";
import { NotByLanes, type Variables } from "./variables.ts";

/** A whole number as `rest + factor * lane`; null for what is not there. */
export interface Split {
  readonly rest: Expression | null;
  readonly factor: Expression | null;
}

/**
 * Splits a whole number by the lane.
 *
 * @throws {NotByLanes} When it is no sum with a multiple of the lane.
 */
export function splitByLane(e: Expression, variables: Variables): Split {
  const { lanes } = variables;
  if (lanes === null || !variables.isVarying(e)) return { rest: e, factor: null };
  if (e.e === "name") {
    // The lane's own number is the rest: its variable stands for the first lane.
    if (e.name === lanes.name) return { rest: e, factor: { e: "number", value: 1 } };
    const { meaning } = variables.find(e.name);
    if (meaning === null) throw new NotByLanes();
    return splitByLane(meaning, variables);
  }
  if (e.e !== "binary" || !"+-*".includes(e.op)) throw new NotByLanes();
  const [left, right] = [splitByLane(e.left, variables), splitByLane(e.right, variables)];
  if (e.op === "*") {
    if (left.factor !== null && right.factor !== null) throw new NotByLanes();
    const [by, of] = left.factor === null ? [e.left, right] : [e.right, left];
    return { rest: pair("*", by, of.rest), factor: pair("*", by, of.factor) };
  }
  const op = e.op as "+" | "-";
  return {
    rest: pair(op, left.rest, right.rest),
    factor: left.factor === null && op === "-"
      ? pair("-", { e: "number", value: 0 }, right.factor)
      : pair(op, left.factor, right.factor),
  };
}

/** A sum or product, where one side may be missing: 0 of a sum, and all of a product. */
function pair(
  op: "+" | "-" | "*",
  left: Expression | null,
  right: Expression | null,
): Expression | null {
  if (op === "*") {
    if (left === null || right === null) return null;
    if (left.e === "number" && left.value === 1) return right;
    if (right.e === "number" && right.value === 1) return left;
    return { e: "binary", op, left, right };
  }
  if (right === null) return left;
  if (left === null) {
    return op === "+" ? right : { e: "binary", op, left: { e: "number", value: 0 }, right };
  }
  return { e: "binary", op, left, right };
}

/** A part of a sum. */
export interface Term {
  readonly term: Expression;
  readonly isMinus: boolean;
}

/** The terms of a sum. */
export function termsOf(e: Expression, isMinus = false): Term[] {
  if (e.e !== "binary" || e.op !== "+" && e.op !== "-") return [{ term: e, isMinus }];
  return [...termsOf(e.left, isMinus), ...termsOf(e.right, e.op === "-" ? !isMinus : isMinus)];
}
