/**
 * Whole numbers of a matrix program: counts, conditions and places, the same in all lanes.
 */
import type { BinaryOperator, Expression } from "../../../matrix/language.ts";
import type { Local } from "../assembler.ts";
import { i32 } from "../opcodes.ts";
import { type Address, Addresses } from "./addresses.ts";
import { type Comparison, isComparison, NotByLanes } from "./variables.ts";
import type { Writer } from "./writer.ts";

const integerOps: Readonly<Partial<Record<BinaryOperator, number>>> = {
  "+": i32.add,
  "-": i32.sub,
  "*": i32.mul,
  "/": i32.divS,
  "%": i32.remS,
  "<": i32.ltS,
  ">": i32.gtS,
  "<=": i32.leS,
  ">=": i32.geS,
  "==": i32.eq,
  "!=": i32.ne,
};

/** Floating point numbers as whole ones take them. */
export interface RealSource {
  /** A mask of the lanes where a comparison holds. */
  compare(op: Comparison, left: Expression, right: Expression): Local;
  /** A value without its fraction, as a whole number. */
  truncated(e: Expression): Local;
}

/** Writes whole numbers, and branches by them. */
export class IntegerExpressions {
  readonly #writer: Writer;
  readonly #reals: RealSource;
  readonly #addresses: Addresses;

  constructor(writer: Writer, reals: RealSource) {
    this.#writer = writer;
    this.#reals = reals;
    this.#addresses = new Addresses(writer, (e) => this.first(e));
  }

  of(e: Expression): Local {
    const { f, variables } = this.#writer;
    switch (e.e) {
      case "number":
        return f.integer(e.value);
      case "name": {
        const found = variables.find(e.name);
        if (found.isVarying || e.name === variables.lanes?.name) throw new NotByLanes();
        return found.local;
      }
      case "at": {
        const { address, offset, step } = this.address(e.array, e.index);
        if (step !== null) throw new NotByLanes();
        return f.loadNumber(i32.load, address, offset);
      }
      case "unary":
        if (e.op === "!") return f.iWith(i32.eq, this.of(e.of), 0);
        return f.i(i32.sub, f.integer(0), this.of(e.of));
      case "binary":
        return this.#pair(e);
      case "choose":
        return this.#chosen(e, (side) => this.of(side));
      case "cast":
        return variables.typeOf(e.of) === "T" ? this.#reals.truncated(e.of) : this.of(e.of);
      case "call":
        throw new Error(`A matrix program has no whole number ${e.name}`);
      default:
        throw e satisfies never;
    }
  }

  /** A whole number of the first lane. */
  first(e: Expression): Local {
    return this.#writer.variables.inLanes(null, () => this.of(e));
  }

  /** 1 where a condition holds; all lanes go the same way. */
  truth(e: Expression): Local {
    if (this.#writer.variables.isVarying(e)) throw new NotByLanes();
    return this.of(e);
  }

  /** Runs one of two parts. */
  branch(condition: Expression, then: () => void, otherwise?: () => void): void {
    this.#writer.control.branch(this.truth(condition), then, otherwise);
  }

  /** The place of an element. */
  address(array: string, index: Expression): Address {
    return this.#addresses.of(array, index);
  }

  /** The address of the array that an expression chooses. */
  array(e: Expression): Local {
    if (e.e === "name") return this.#writer.variables.find(e.name).local;
    if (e.e !== "choose") throw new Error("An array is a name, or one of two");
    return this.#chosen(e, (side) => this.array(side));
  }

  /** `old op value`. */
  updated(
    old: () => Local,
    op: "" | "+" | "-" | "*" | "/",
    value: Expression,
  ): Local {
    const right = this.of(value);
    return op === "" ? right : this.#writer.f.i(integerOps[op]!, old(), right);
  }

  #chosen(
    { condition, then, otherwise }: Expression & { readonly e: "choose" },
    write: (side: Expression) => Local,
  ): Local {
    const { f } = this.#writer, found = f.number();
    this.branch(
      condition,
      () => f.assign(found, write(then)),
      () => f.assign(found, write(otherwise)),
    );
    return found;
  }

  #pair(e: Expression & { readonly e: "binary" }): Local {
    const { f, variables } = this.#writer, { op, left, right } = e;
    if (op === "&&" || op === "||") return this.#logical(op, left, right);
    if (isComparison(op) && (variables.typeOf(left) === "T" || variables.typeOf(right) === "T")) {
      return f.anyTrue(this.#reals.compare(op, left, right));
    }
    const make = () => f.i(integerOps[op]!, this.of(left), this.of(right));
    if (op !== "+" && op !== "-" && op !== "*") return make();
    return this.#addresses.placed(e, make);
  }

  /** The right side is looked at where the left one does not decide. */
  #logical(op: "&&" | "||", left: Expression, right: Expression): Local {
    const { f, control } = this.#writer;
    const found = f.copy(f.iWith(i32.ne, this.of(left), 0));
    const isOpen = op === "&&" ? found : f.iWith(i32.eq, found, 0);
    control.branch(isOpen, () => f.assign(found, f.iWith(i32.ne, this.of(right), 0)));
    return found;
  }
}
