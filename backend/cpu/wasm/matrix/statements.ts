/**
 * Statements of a matrix program: blocks, conditions, and the choice of the way that a loop goes.
 */
import {
  assignedNames,
  type Expression,
  innerStatements,
  type Range,
  someExpression,
  type Statement,
} from "../../../matrix/language.ts";
import { Assignments } from "./assignments.ts";
import type { IntegerExpressions } from "./integer_expressions.ts";
import { RangeLoops } from "./range_loops.ts";
import { RealExpressions } from "./real_expressions.ts";
import type { Join } from "./variables.ts";
import type { Writer } from "./writer.ts";

/** Writes statements. */
export class Statements {
  readonly #writer: Writer;
  readonly #integers: IntegerExpressions;
  readonly #assignments: Assignments;
  readonly #loops: RangeLoops;

  constructor(writer: Writer) {
    const reals = new RealExpressions(writer);
    this.#writer = writer;
    this.#integers = reals.integers;
    this.#assignments = new Assignments(writer, reals);
    this.#loops = new RangeLoops(writer, reals.integers);
  }

  /** Writes statements in a scope of their own. */
  block(body: readonly Statement[]): void {
    this.#writer.variables.inScope(() => {
      for (const s of body) this.#statement(s);
    });
  }

  #statement(s: Statement): void {
    switch (s.s) {
      case "declare":
        return this.#assignments.declare(s);
      case "assign":
        return this.#assignments.assign(s);
      case "if":
        return this.#integers.branch(
          s.condition,
          () => this.block(s.then),
          s.otherwise.length > 0 ? () => this.block(s.otherwise) : undefined,
        );
      case "while":
        return this.#while(s);
      case "for":
        return this.#for(s);
      case "each":
        return s.ranges.length === 1 ? this.#each(s.ranges[0]!, s.body) : this.#pairs(s);
      case "fold":
        return this.#fold(s.range, s.body);
      case "block":
        return this.block(s.body);
      case "sync":
        return;
      case "break":
        return this.#writer.control.leave();
      default:
        throw s satisfies never;
    }
  }

  #while({ condition, body }: Statement & { readonly s: "while" }): void {
    this.#writer.control.loop({
      variable: null,
      changing: body,
      condition: () => this.#integers.truth(condition),
      body: () => this.block(body),
      step: () => {},
    });
  }

  #for({ start, condition, step, body }: Statement & { readonly s: "for" }): void {
    const { control, variables } = this.#writer;
    const name = start.s === "declare" ? start.name : null;
    // A variable that the body changes, too, is none that stays the same in a round.
    const isPlain = name !== null && !assignedNames(body).has(name);
    variables.inScope(() => {
      this.#statement(start);
      control.loop({
        variable: isPlain ? name : null,
        changing: isPlain ? body : [...body, step],
        condition: () => this.#integers.truth(condition),
        body: () => this.block(body),
        step: () => this.#statement(step),
      });
    });
  }

  /** Two loops; the inner one is the second range, where that fills a vector. */
  #pairs({ ranges, body }: Statement & { readonly s: "each" }): void {
    const [outer, inner] = ranges as [Range, Range];
    const one = (first: Range, second: Range) => () => {
      const each: Statement = { s: "each", ranges: [second], body };
      this.#loops.rounds(first, [each], () => this.#each(second, body));
    };
    // Bounds of the second may depend on the first: then there is one order.
    const depends = [inner.from, inner.to].some((e) =>
      someExpression(e, (part) => part.e === "name" && part.name === outer.name)
    );
    if (depends) return one(outer, inner)();
    const isWide: Expression = {
      e: "binary",
      op: ">=",
      left: { e: "binary", op: "-", left: inner.to, right: inner.from },
      right: { e: "number", value: this.#writer.vectors.lanes },
    };
    this.#integers.branch(isWide, one(outer, inner), one(inner, outer));
  }

  #each(range: Range, body: readonly Statement[]): void {
    const { from, to } = range, write = () => this.block(body);
    const isOne = from.e === "number" && to.e === "number" && to.value - from.value === 1;
    const isInLanes = this.#writer.variables.lanes !== null;
    if (isOne || isInLanes || hasFold(body)) return this.#loops.rounds(range, body, write);
    this.#loops.byLanes(range, body, new Map(), write);
  }

  #fold(range: Range, body: readonly Statement[]): void {
    const write = () => this.block(body);
    if (this.#writer.variables.lanes !== null) return this.#loops.rounds(range, body, write);
    this.#loops.byLanes(range, body, joinsOf(body), write);
  }
}

function hasFold(list: readonly Statement[]): boolean {
  return list.some((s) => s.s === "fold" || hasFold(innerStatements(s)));
}

/** Outer variables that a fold changes, and how: by sums, or by extremes. */
function joinsOf(body: readonly Statement[]): Map<string, Join> {
  const found = new Map<string, Join>(), own = new Set<string>();
  const visit = (list: readonly Statement[]): void => {
    for (const s of list) {
      if (s.s === "declare") own.add(s.name);
      if (s.s === "assign" && s.to.e === "name" && !own.has(s.to.name)) {
        const isExtreme = s.op === "" && s.value.e === "call";
        const name = isExtreme ? (s.value as { readonly name: string }).name : "+";
        found.set(s.to.name, name === "fmax" || name === "fmin" ? name : "+");
      }
      visit(innerStatements(s));
    }
  };
  visit(body);
  return found;
}
