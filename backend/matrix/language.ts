/**
 * The language of kernels that work on a matrix a work-group: C without pointers to elements, of two types
 * of values. Programs are plain data; OpenCL compiles the text itself, the built-in backend this.
 *
 * This folder (`matrix/`) has the language, its parser, and its writer as JavaScript; it imports nothing.
 * `cpu/wasm/matrix` writes programs as WebAssembly.
 */

/** Type of a value: floating point numbers of the kernel's type, and whole ones of 32 bits. */
export type ValueType = "T" | "int";

/** An expression. */
export type Expression =
  | { readonly e: "number"; readonly value: number }
  | { readonly e: "name"; readonly name: string }
  | { readonly e: "at"; readonly array: string; readonly index: Expression }
  | { readonly e: "unary"; readonly op: "-" | "!"; readonly of: Expression }
  | {
    readonly e: "binary";
    readonly op: BinaryOperator;
    readonly left: Expression;
    readonly right: Expression;
  }
  | {
    readonly e: "choose";
    readonly condition: Expression;
    readonly then: Expression;
    readonly otherwise: Expression;
  }
  | { readonly e: "cast"; readonly to: ValueType; readonly of: Expression }
  | { readonly e: "call"; readonly name: string; readonly args: readonly Expression[] };

/** An operator of two values. */
export type BinaryOperator =
  | "+"
  | "-"
  | "*"
  | "/"
  | "%"
  | "<"
  | ">"
  | "<="
  | ">="
  | "=="
  | "!="
  | "&&"
  | "||";

/** A variable of a loop and its bounds; the second is not reached. */
export interface Range {
  readonly name: string;
  readonly from: Expression;
  readonly to: Expression;
}

/** A statement. */
export type Statement =
  | {
    readonly s: "declare";
    readonly type: ValueType;
    /** A variable that stands for one of several arrays. */
    readonly isArray: boolean;
    readonly isConstant: boolean;
    readonly name: string;
    readonly value: Expression;
  }
  | {
    readonly s: "assign";
    readonly to: Expression & { readonly e: "name" | "at" };
    readonly op: "" | "+" | "-" | "*" | "/";
    readonly value: Expression;
  }
  | {
    readonly s: "if";
    readonly condition: Expression;
    readonly then: readonly Statement[];
    readonly otherwise: readonly Statement[];
  }
  | { readonly s: "while"; readonly condition: Expression; readonly body: readonly Statement[] }
  | {
    readonly s: "for";
    readonly start: Statement;
    readonly condition: Expression;
    readonly step: Statement;
    readonly body: readonly Statement[];
  }
  /** Each round by a work-item, of two ranges each pair of rounds: no round sees what another one writes. */
  | { readonly s: "each"; readonly ranges: readonly Range[]; readonly body: readonly Statement[] }
  /** Rounds of one work-item in any order: the body adds to outer variables, or takes extremes with them. */
  | { readonly s: "fold"; readonly range: Range; readonly body: readonly Statement[] }
  | { readonly s: "block"; readonly body: readonly Statement[] }
  | { readonly s: "sync" }
  | { readonly s: "break" };

/** An argument that is an array. */
export interface ArrayParameter {
  readonly name: string;
  readonly isWhole: boolean;
  /** The same for all matrices. */
  readonly isShared: boolean;
  /** Elements of one matrix, of the values of the numbers. */
  readonly size: (numbers: Readonly<Record<string, number>>) => number;
}

/** A program: what a work-group does with its matrix. */
export interface MatrixProgram {
  readonly name: string;
  readonly dtype: "float32" | "float64";
  /** Inputs, then outputs. */
  readonly arrays: readonly ArrayParameter[];
  /** Names of the whole numbers behind them. */
  readonly numbers: readonly string[];
  /** Numbers of the type that texts have by name. */
  readonly constants: Readonly<Record<string, number>>;
  readonly body: readonly Statement[];
}

/** The statements within a statement, and the conditions are left out. */
export function innerStatements(s: Statement): readonly Statement[] {
  switch (s.s) {
    case "if":
      return [...s.then, ...s.otherwise];
    case "for":
      return [s.start, s.step, ...s.body];
    case "while":
    case "each":
    case "fold":
    case "block":
      return s.body;
    case "declare":
    case "assign":
    case "sync":
    case "break":
      return [];
    default:
      throw s satisfies never;
  }
}

/** The names that statements give values to, with those of their loops. */
export function assignedNames(body: readonly Statement[], into = new Set<string>()): Set<string> {
  for (const s of body) {
    if (s.s === "declare") into.add(s.name);
    if (s.s === "assign" && s.to.e === "name") into.add(s.to.name);
    if (s.s === "each") s.ranges.forEach(({ name }) => into.add(name));
    if (s.s === "fold") into.add(s.range.name);
    assignedNames(innerStatements(s), into);
  }
  return into;
}

/** True where any expression within an expression, and it itself, is one that is looked for. */
export function someExpression(e: Expression, isFound: (e: Expression) => boolean): boolean {
  if (isFound(e)) return true;
  return partsOf(e).some((part) => someExpression(part, isFound));
}

/** The operands of an expression. */
export function partsOf(e: Expression): readonly Expression[] {
  switch (e.e) {
    case "number":
    case "name":
      return [];
    case "at":
      return [e.index];
    case "unary":
    case "cast":
      return [e.of];
    case "binary":
      return [e.left, e.right];
    case "choose":
      return [e.condition, e.then, e.otherwise];
    case "call":
      return e.args;
    default:
      throw e satisfies never;
  }
}
