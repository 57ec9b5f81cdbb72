/**
 * Declarations and assignments of a matrix program: to variables, to elements, and to the parts of a fold.
 */
import type { Expression, Statement } from "../../../matrix/language.ts";
import type { Local } from "../assembler.ts";
import type { RealExpressions } from "./real_expressions.ts";
import { NotByLanes, type Part } from "./variables.ts";
import type { Writer } from "./writer.ts";

type Declaration = Statement & { readonly s: "declare" };
type Assignment = Statement & { readonly s: "assign" };

/** Writes declarations and assignments. */
export class Assignments {
  readonly #writer: Writer;
  readonly #reals: RealExpressions;

  constructor(writer: Writer, reals: RealExpressions) {
    this.#writer = writer;
    this.#reals = reals;
  }

  declare({ name, type, isArray, isConstant, value }: Declaration): void {
    const { variables, vectors } = this.#writer, { integers } = this.#reals;
    if (isArray) {
      const local = this.#number(() => integers.array(value));
      return variables.declare(name, "int", local, { isArray });
    }
    const isVarying = variables.isVarying(value);
    if (type === "int" && isVarying) {
      if (!isConstant) throw new NotByLanes();
      return variables.declare(name, "int", -1, { isVarying, meaning: value });
    }
    if (type === "int") {
      return variables.declare(name, type, this.#number(() => integers.of(value)));
    }
    // A variable may get another value of each lane later.
    const isWide = isVarying || variables.lanes !== null && !isConstant;
    const local = vectors.variable(isWide);
    vectors.assign(local, this.#reals.of(value));
    variables.declare(name, type, local, { isVarying: isWide });
  }

  /** A new variable of a whole number. */
  #number(value: () => Local): Local {
    const { f } = this.#writer, local = f.number();
    f.assign(local, value());
    return local;
  }

  assign(s: Assignment): void {
    const { to, op, value } = s, { f, variables, vectors } = this.#writer;
    if (to.e === "at") return this.#store(to, op, value);
    const part = variables.lanes?.parts.get(to.name);
    if (part) return this.#join(part, to.name, op, value);
    const { type, local, isArray, isVarying } = variables.find(to.name);
    if (variables.lanes?.outer.has(to.name)) throw new NotByLanes();
    if (isArray) return f.assign(local, this.#reals.integers.array(value));
    if (variables.isVarying(value) && !isVarying) throw new NotByLanes();
    if (type === "T") return vectors.assign(local, this.#reals.updated(local, op, value));
    f.assign(local, this.#reals.integers.updated(() => local, op, value));
  }

  /** Adds to the part of a sum that is kept in lanes, or takes an extreme with it. */
  #join({ local, how }: Part, name: string, op: Assignment["op"], value: Expression): void {
    const { vectors } = this.#writer;
    if (how === "+" && (op === "+" || op === "-")) {
      return vectors.assign(local, this.#reals.updated(local, op, value));
    }
    if (op !== "" || value.e !== "call" || value.name !== how) throw new NotByLanes();
    const [first, second] = value.args as [Expression, Expression];
    if (first.e !== "name" || first.name !== name) throw new NotByLanes();
    vectors.assign(local, vectors.call(how, [local, this.#reals.of(second)])!);
  }

  #store(
    to: Expression & { readonly e: "at" },
    op: Assignment["op"],
    value: Expression,
  ): void {
    const { f, variables, vectors } = this.#writer, { integers } = this.#reals;
    const { address, offset, step } = integers.address(to.array, to.index);
    if (variables.isWholeArray(to.array)) {
      if (step !== null || variables.isVarying(value)) throw new NotByLanes();
      const whole = integers.updated(() => integers.of(to), op, value);
      return f.storeNumber(address, whole, offset);
    }
    const found = op === ""
      ? this.#reals.of(value)
      : this.#reals.updated(this.#reals.of(to), op, value);
    if (variables.lanes === null) return vectors.storeOne(address, offset, found);
    if (step === null) throw new NotByLanes();
    if (step === "one") return vectors.storeRow(address, offset, found);
    vectors.storeEach(address, offset, step, found);
  }
}
