/**
 * Variables of a matrix program: scopes, types, and the values that differ from lane to lane.
 */
import {
  type BinaryOperator,
  type Expression,
  type MatrixProgram,
  someExpression,
  type ValueType,
} from "../../../matrix/language.ts";
import type { Local } from "../assembler.ts";

/** A variable: its type and where its value is; arrays are addresses. */
export interface Variable {
  readonly type: ValueType;
  readonly isArray: boolean;
  readonly local: Local;
  /** Differs from lane to lane. */
  readonly isVarying: boolean;
  /** Of a whole number that differs from lane to lane: what stands for it. */
  readonly meaning: Expression | null;
}

/** Joins values of lanes: a sum or an extreme. */
export type Join = "+" | "fmax" | "fmin";

/** A sum or an extreme that is joined in lanes. */
export interface Part {
  readonly local: Local;
  readonly how: Join;
}

/** The variable whose values lie in lanes. */
export interface Lanes {
  readonly name: string;
  /** Sums and extremes of a fold, and what is joined in them. */
  readonly parts: ReadonlyMap<string, Part>;
  /** Variables that were there before the lanes: no lane may change them. */
  readonly outer: ReadonlySet<string>;
}

/** Thrown where something does not go by lanes; it is written one by one then. */
export class NotByLanes extends Error {}

const comparisons = ["<", ">", "<=", ">=", "==", "!="] as const;

/** An operator that compares two values. */
export type Comparison = typeof comparisons[number];

/** True for an operator that compares two values. */
export function isComparison(op: BinaryOperator): op is Comparison {
  return (comparisons as readonly string[]).includes(op);
}

/** The variables at the present instruction, in the scopes around it. */
export class Variables {
  readonly #program: MatrixProgram;
  readonly #scopes: Map<string, Variable>[] = [new Map()];
  #lanes: Lanes | null = null;

  constructor(program: MatrixProgram) {
    this.#program = program;
  }

  /** The lanes that instructions are written for; null where they go one by one. */
  get lanes(): Lanes | null {
    return this.#lanes;
  }

  /** Writes for lanes, or one by one where they are null. */
  inLanes<R>(lanes: Lanes | null, write: () => R): R {
    const before = this.#lanes;
    this.#lanes = lanes;
    try {
      return write();
    } finally {
      this.#lanes = before;
    }
  }

  /** Writes in a scope of its own, which ends even where something is {@linkcode NotByLanes}. */
  inScope(write: () => void): void {
    this.#scopes.push(new Map());
    try {
      write();
    } finally {
      this.#scopes.pop();
    }
  }

  declare(
    name: string,
    type: ValueType,
    local: Local,
    options: Partial<Pick<Variable, "isArray" | "isVarying" | "meaning">> = {},
  ): void {
    const plain = { type, local, isArray: false, isVarying: false, meaning: null };
    this.#scopes.at(-1)!.set(name, { ...plain, ...options });
  }

  find(name: string): Variable {
    const scope = this.#scopes.findLast((scope) => scope.has(name));
    if (scope === undefined) throw new Error(`A matrix program has no variable ${name}`);
    return scope.get(name)!;
  }

  /** The names of all scopes. */
  names(): Set<string> {
    return new Set(this.#scopes.flatMap((scope) => [...scope.keys()]));
  }

  /** The value of a constant of the program; undefined for another name. */
  constant(name: string): number | undefined {
    return this.#program.constants[name];
  }

  isWholeArray(array: string): boolean {
    return this.#program.arrays.some(({ name, isWhole }) => isWhole && name === array);
  }

  typeOf(e: Expression): ValueType {
    switch (e.e) {
      case "number":
        return "int";
      case "name":
        return this.constant(e.name) === undefined ? this.find(e.name).type : "T";
      case "at":
        return this.isWholeArray(e.array) ? "int" : "T";
      case "unary":
        return e.op === "!" ? "int" : this.typeOf(e.of);
      case "binary":
        if (isComparison(e.op) || e.op === "&&" || e.op === "||") return "int";
        return this.#commonType(e.left, e.right);
      case "choose":
        return this.#commonType(e.then, e.otherwise);
      case "cast":
        return e.to;
      case "call":
        return "T";
      default:
        throw e satisfies never;
    }
  }

  #commonType(a: Expression, b: Expression): ValueType {
    return this.typeOf(a) === "T" || this.typeOf(b) === "T" ? "T" : "int";
  }

  /** True for what differs from lane to lane. */
  isVarying(e: Expression): boolean {
    const lanes = this.#lanes;
    if (lanes === null) return false;
    return someExpression(
      e,
      (part) =>
        part.e === "name" && this.constant(part.name) === undefined &&
        (part.name === lanes.name || this.find(part.name).isVarying),
    );
  }
}
