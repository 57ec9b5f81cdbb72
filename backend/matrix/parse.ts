/** The parser of kernels of matrices: a pass over words, an operator at a time by its precedence. */
import type { BinaryOperator, Expression, Range, Statement, ValueType } from "./language.ts";

const levels: readonly (readonly BinaryOperator[])[] = [
  ["||"],
  ["&&"],
  ["==", "!="],
  ["<", ">", "<=", ">="],
  ["+", "-"],
  ["*", "/", "%"],
];

const WORD = /\s*(\/\/[^\n]*\n\s*)*(\d+|\w+|[-+*/]=|\+\+|--|&&|\|\||[<>=!]=|[^\s\w])/y;

/**
 * The statements of a text.
 *
 * @throws {SyntaxError} Where the text is none of the language; the message has what stands there.
 */
export const parseMatrixText = (text: string): Statement[] => new Parser(text).all();

class Parser {
  readonly #words: string[] = [];
  #at = 0;

  constructor(text: string) {
    WORD.lastIndex = 0;
    for (let found = WORD.exec(text); found !== null; found = WORD.exec(text)) {
      this.#words.push(found[2]!);
    }
  }

  all(): Statement[] {
    const body: Statement[] = [];
    while (this.#at < this.#words.length) body.push(...this.#statement());
    return body;
  }

  #is(word: string): boolean {
    return this.#words[this.#at] === word;
  }

  #take(word: string): boolean {
    if (!this.#is(word)) return false;
    this.#at++;
    return true;
  }

  #expect(word: string): void {
    if (!this.#take(word)) this.#fail(`"${word}"`);
  }

  #fail(wanted: string): never {
    const near = this.#words.slice(Math.max(0, this.#at - 6), this.#at + 4).join(" ");
    throw new SyntaxError(
      `Cannot read the text of a matrix kernel: ${wanted} is missing near "${near}"`,
    );
  }

  #name(): string {
    const word = this.#words[this.#at++];
    if (word === undefined || !/^[A-Za-z_]/.test(word)) this.#fail("a name");
    return word;
  }

  #body(): Statement[] {
    if (!this.#take("{")) return this.#statement();
    const body: Statement[] = [];
    while (!this.#take("}")) body.push(...this.#statement());
    return body;
  }

  /** The statements of one, which are several where several variables are declared. */
  #statement(): Statement[] {
    if (this.#is("{")) return [{ s: "block", body: this.#body() }];
    if (this.#take("if")) return [this.#if()];
    if (this.#take("while")) {
      this.#expect("(");
      const condition = this.#expression();
      this.#expect(")");
      return [{ s: "while", condition, body: this.#body() }];
    }
    if (this.#take("for")) return [this.#for()];
    if (this.#take("each") || this.#take("pairs")) {
      return [{ s: "each", ranges: this.#ranges(), body: this.#body() }];
    }
    if (this.#take("fold")) return [{ s: "fold", range: this.#ranges()[0]!, body: this.#body() }];
    const plain = this.#plain();
    this.#expect(";");
    return [plain];
  }

  #if(): Statement {
    this.#expect("(");
    const condition = this.#expression();
    this.#expect(")");
    const then = this.#body();
    return { s: "if", condition, then, otherwise: this.#take("else") ? this.#body() : [] };
  }

  #for(): Statement {
    this.#expect("(");
    const start = this.#plain();
    this.#expect(";");
    const condition = this.#expression();
    this.#expect(";");
    const step = this.#plain();
    this.#expect(")");
    return { s: "for", start, condition, step, body: this.#body() };
  }

  #ranges(): Range[] {
    const ranges: Range[] = [];
    this.#expect("(");
    do {
      const name = this.#name();
      this.#expect(",");
      const from = this.#expression();
      this.#expect(",");
      ranges.push({ name, from, to: this.#expression() });
    } while (this.#take(","));
    this.#expect(")");
    return ranges;
  }

  #plain(): Statement {
    if (this.#take("sync")) return { s: "sync" };
    if (this.#take("break")) return { s: "break" };
    const isConstant = this.#take("const");
    if (isConstant || this.#is("T") || this.#is("int")) return this.#declaration(isConstant);
    return this.#assignment();
  }

  #declaration(isConstant: boolean): Statement {
    const type = this.#name() as ValueType, isArray = this.#take("*"), name = this.#name();
    this.#expect("=");
    return { s: "declare", type, isArray, isConstant, name, value: this.#expression() };
  }

  #assignment(): Statement {
    const to = this.#primary();
    if (to.e !== "name" && to.e !== "at") this.#fail("a variable");
    const one: Expression = { e: "number", value: 1 };
    if (this.#take("++")) return { s: "assign", to, op: "+", value: one };
    if (this.#take("--")) return { s: "assign", to, op: "-", value: one };
    for (const op of ["+", "-", "*", "/"] as const) {
      if (this.#take(`${op}=`)) return { s: "assign", to, op, value: this.#expression() };
    }
    this.#expect("=");
    return { s: "assign", to, op: "", value: this.#expression() };
  }

  #expression(): Expression {
    const condition = this.#binary(0);
    if (!this.#take("?")) return condition;
    const then = this.#expression();
    this.#expect(":");
    return { e: "choose", condition, then, otherwise: this.#expression() };
  }

  #binary(level: number): Expression {
    if (level === levels.length) return this.#unary();
    let left = this.#binary(level + 1);
    for (;;) {
      const op = levels[level]!.find((op) => this.#is(op));
      if (op === undefined) return left;
      this.#at++;
      left = { e: "binary", op, left, right: this.#binary(level + 1) };
    }
  }

  #unary(): Expression {
    if (this.#take("-")) return { e: "unary", op: "-", of: this.#unary() };
    if (this.#take("!")) return { e: "unary", op: "!", of: this.#unary() };
    const [word, type, end] = this.#words.slice(this.#at, this.#at + 3);
    if (word === "(" && (type === "T" || type === "int") && end === ")") {
      this.#at += 3;
      return { e: "cast", to: type, of: this.#unary() };
    }
    return this.#primary();
  }

  #primary(): Expression {
    if (this.#take("(")) {
      const inner = this.#expression();
      this.#expect(")");
      return inner;
    }
    const word = this.#words[this.#at]!;
    if (/^\d/.test(word)) {
      this.#at++;
      return { e: "number", value: Number(word) };
    }
    const name = this.#name();
    if (this.#take("[")) {
      const index = this.#expression();
      this.#expect("]");
      return { e: "at", array: name, index };
    }
    if (!this.#take("(")) return { e: "name", name };
    const args: Expression[] = [];
    do args.push(this.#expression()); while (this.#take(","));
    this.#expect(")");
    return { e: "call", name, args };
  }
}
