/**
 * Floating point numbers of a matrix program: one for all lanes, or one in each.
 */
import type { Expression } from "../../../matrix/language.ts";
import type { Local } from "../assembler.ts";
import { IntegerExpressions, type RealSource } from "./integer_expressions.ts";
import { splitByLane } from "./sums.ts";
import { type Comparison, isComparison, NotByLanes } from "./variables.ts";
import type { Writer } from "./writer.ts";

/** Thrown for a program that WebAssembly has no instructions for. */
export class NoInstruction extends Error {}

/** Writes floating point numbers. */
export class RealExpressions implements RealSource {
  readonly integers: IntegerExpressions;
  readonly #writer: Writer;

  constructor(writer: Writer) {
    this.#writer = writer;
    this.integers = new IntegerExpressions(writer, this);
  }

  of(e: Expression): Local {
    const { variables, vectors } = this.#writer, constant = this.#constantOf(e);
    if (constant !== null) return vectors.constant(constant);
    if (variables.typeOf(e) === "int" && e.e !== "choose") return this.#ofInteger(e);
    switch (e.e) {
      case "name":
        if (variables.lanes?.parts.has(e.name)) throw new NotByLanes();
        return variables.find(e.name).local;
      case "at":
        return this.#element(e.array, e.index);
      case "unary":
        return vectors.neg(this.of(e.of));
      case "binary":
        return this.#pair(e);
      case "choose":
        return this.#chosen(e);
      case "cast":
        return this.of(e.of);
      case "call": {
        const found = vectors.call(e.name, e.args.map((arg) => this.of(arg)));
        if (found === null) throw new NoInstruction(`WebAssembly has no ${e.name}`);
        return found;
      }
      case "number":
        return vectors.constant(e.value);
      default:
        throw e satisfies never;
    }
  }

  /** A mask of the lanes where a comparison holds. */
  compare(op: Comparison, left: Expression, right: Expression): Local {
    return this.#writer.vectors.compare(op, this.of(left), this.of(right));
  }

  /** A value without its fraction, as a whole number. */
  truncated(e: Expression): Local {
    return this.#writer.vectors.toInteger(this.of(e));
  }

  /** `old op value`; what adds a product is one instruction where there is one. */
  updated(old: Local, op: "" | "+" | "-" | "*" | "/", value: Expression): Local {
    const { variables, vectors } = this.#writer;
    if (
      (op === "+" || op === "-") && value.e === "binary" && value.op === "*" &&
      variables.typeOf(value) === "T"
    ) {
      return vectors.accumulate(old, this.of(value.left), this.of(value.right), op === "-");
    }
    const right = this.of(value);
    switch (op) {
      case "":
        return right;
      case "+":
        return vectors.add(old, right);
      case "-":
        return vectors.sub(old, right);
      case "*":
        return vectors.mul(old, right);
      case "/":
        return vectors.div(old, right);
      default:
        throw op satisfies never;
    }
  }

  #element(array: string, index: Expression): Local {
    const { vectors } = this.#writer;
    const { address, offset, step } = this.integers.address(array, index);
    if (step === null) return vectors.loadOne(address, offset);
    if (step === "one") return vectors.loadRow(address, offset);
    return vectors.loadEach(address, offset, step);
  }

  #ofInteger(e: Expression): Local {
    const { f, variables, vectors } = this.#writer;
    const { rest, factor } = splitByLane(e, variables);
    if (factor === null) return vectors.fromInteger(this.integers.of(e));
    const start = rest === null ? f.integer(0) : this.integers.first(rest);
    return vectors.fromLanes(start, this.integers.of(factor));
  }

  #pair({ op, left, right }: Expression & { readonly e: "binary" }): Local {
    if (op === "+" || op === "-" || op === "*" || op === "/") {
      const first = this.of(left);
      return this.updated(first, op, right);
    }
    throw new Error(`A matrix program has no ${op} of floating point numbers`);
  }

  #chosen({ condition, then, otherwise }: Expression & { readonly e: "choose" }): Local {
    const { variables, vectors } = this.#writer;
    if (variables.isVarying(condition)) {
      if (condition.e !== "binary" || !isComparison(condition.op)) throw new NotByLanes();
      const mask = this.compare(condition.op, condition.left, condition.right);
      return vectors.select(mask, this.of(then), this.of(otherwise));
    }
    const found = vectors.variable(variables.isVarying(then) || variables.isVarying(otherwise));
    this.integers.branch(
      condition,
      () => vectors.assign(found, this.of(then)),
      () => vectors.assign(found, this.of(otherwise)),
    );
    return found;
  }

  /** The value of what is made of numbers alone. */
  #constantOf(e: Expression): number | null {
    const { variables } = this.#writer;
    switch (e.e) {
      case "number":
        return e.value;
      case "name":
        return variables.constant(e.name) ?? null;
      case "cast":
        return e.to === "T" ? this.#constantOf(e.of) : null;
      case "unary": {
        const value = this.#constantOf(e.of);
        return value === null || e.op === "!" ? null : -value;
      }
      case "binary":
        return variables.typeOf(e) === "T" ? this.#constantPair(e) : null;
      default:
        return null;
    }
  }

  #constantPair({ op, left, right }: Expression & { readonly e: "binary" }): number | null {
    const [a, b] = [this.#constantOf(left), this.#constantOf(right)];
    if (a === null || b === null) return null;
    const round = this.#writer.vectors.bytes === 4 ? Math.fround : (x: number) => x;
    if (op === "+") return round(a + b);
    if (op === "-") return round(a - b);
    return op === "*" ? round(a * b) : op === "/" ? round(a / b) : null;
  }
}
