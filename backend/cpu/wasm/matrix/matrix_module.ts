/**
 * Programs of matrices as WebAssembly. A thread has a matrix for itself, and `each` is a loop whose rounds lie
 * side by side in the lanes of vectors where its body lets them: where it reads and writes elements at places
 * that are sums with multiples of the round, and asks nothing of a round that sends it another way. `fold`
 * goes by lanes, too: each lane has a part of the sum. What does not go by lanes is done one by one. This file
 * is long because it has a method for each form of statement and expression.
 */
import {
  assignedNames,
  type BinaryOperator,
  type Expression,
  innerStatements,
  type MatrixProgram,
  partsOf,
  type Range,
  someExpression,
  type Statement,
  type ValueType,
} from "../../../matrix/language.ts";
import { FunctionBuilder, type Local } from "../assembler.ts";
import { VectorMath } from "../math.ts";
import { core, i32 } from "../opcodes.ts";
import { type Depth, HERE, Places } from "./places.ts";
import { RealVectors } from "./values.ts";

/** A variable: its type and where its value is; arrays are addresses. */
interface Variable {
  readonly type: ValueType;
  readonly isArray: boolean;
  readonly local: Local;
  /** Differs from lane to lane. */
  readonly isVarying: boolean;
  /** Of a whole number that differs from lane to lane: what stands for it. */
  readonly meaning: Expression | null;
}

/** A sum or an extreme that is joined in lanes. */
interface Part {
  readonly local: Local;
  readonly how: Join;
}

type Join = "+" | "fmax" | "fmin";

/** The variable whose values lie in lanes. */
interface Lanes {
  readonly name: string;
  /** Sums and extremes of a fold, and what is joined in them. */
  readonly parts: ReadonlyMap<string, Part>;
  /** Variables that were there before the lanes: no lane may change them. */
  readonly outer: ReadonlySet<string>;
}

/** Thrown where something does not go by lanes; it is written one by one then. */
class NotByLanes extends Error {}

/** Thrown for a program that WebAssembly has no instructions for. */
export class NoInstruction extends Error {}

/** Vectors side by side, where the engine has registers for so many variables of a body. */
function vectorsOf(body: readonly Statement[]): number {
  const variables = (list: readonly Statement[]): number =>
    list.reduce((sum, s) => {
      const own = s.s === "declare" && s.type === "T" ? 1 : 0;
      return sum + own + variables(innerStatements(s));
    }, 0);
  const count = variables(body);
  return count <= 4 ? 4 : count <= 8 ? 2 : 1;
}

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

const comparisons = ["<", ">", "<=", ">=", "==", "!="] as const;
type Comparison = typeof comparisons[number];

function isComparison(op: BinaryOperator): op is Comparison {
  return (comparisons as readonly string[]).includes(op);
}

/** Words of arguments: the address of each array, the bytes from matrix to matrix, the numbers. */
export function argumentWords({ arrays, numbers }: MatrixProgram): number {
  return 2 * arrays.length + numbers.length;
}

/**
 * The module of a program, which runs a range of matrices.
 *
 * @throws {NoInstruction} When it calls a function that is not here.
 */
export function matrixModule(program: MatrixProgram, relaxed: boolean): Uint8Array<ArrayBuffer> {
  return new MatrixModule(program, relaxed).write();
}

class MatrixModule {
  readonly #program: MatrixProgram;
  readonly #f = new FunctionBuilder();
  readonly #places = new Places(this.#f);
  readonly #reals: RealVectors;
  #scopes: Map<string, Variable>[] = [new Map()];
  #lanes: Lanes | null = null;
  /** Blocks around the present instruction within the innermost loop, for `break`. */
  #depth = 0;

  constructor(program: MatrixProgram, relaxed: boolean) {
    this.#program = program;
    const math = new VectorMath(this.#f, relaxed);
    this.#reals = new RealVectors(this.#f, math, program.dtype === "float64", relaxed);
  }

  write(): Uint8Array<ArrayBuffer> {
    const f = this.#f, { args, begin, end } = FunctionBuilder.parameters;
    const { arrays, numbers, body } = this.#program;
    const word = (at: number): Local =>
      f.once(`word ${at}`, () => f.loadNumber(i32.load, args, 4 * at));
    numbers.forEach((name, k) => this.#declare(name, "int", word(2 * arrays.length + k)));
    for (const { name } of arrays) this.#declare(name, "int", f.number(), { isArray: true });
    f.loop(begin, end, 1, (matrix) => {
      arrays.forEach(({ name }, k) => {
        const moved = f.i(i32.mul, matrix, word(2 * k + 1));
        f.assign(this.#variable(name).local, f.i(i32.add, word(2 * k), moved));
      });
      // A loop of one round: what does not change in a matrix is computed before its statements.
      const once = f.copy(f.integer(1));
      this.#places.loop(
        null,
        assignedNames(body),
        () => f.get(once),
        () => this.#block(body),
        () => {
          f.assign(once, f.integer(0));
        },
      );
    });
    return f.finish();
  }

  // ---- variables

  #declare(
    name: string,
    type: ValueType,
    local: Local,
    options: Partial<Pick<Variable, "isArray" | "isVarying" | "meaning">> = {},
  ): void {
    const plain = { type, local, isArray: false, isVarying: false, meaning: null };
    this.#scopes.at(-1)!.set(name, { ...plain, ...options });
  }

  #variable(name: string): Variable {
    const scope = this.#scopes.findLast((scope) => scope.has(name));
    if (scope === undefined) throw new Error(`A matrix program has no variable ${name}`);
    return scope.get(name)!;
  }

  #isWholeArray(array: string): boolean {
    return this.#program.arrays.some(({ name, isWhole }) => isWhole && name === array);
  }

  #typeOf(e: Expression): ValueType {
    switch (e.e) {
      case "number":
        return "int";
      case "name":
        return e.name in this.#program.constants ? "T" : this.#variable(e.name).type;
      case "at":
        return this.#isWholeArray(e.array) ? "int" : "T";
      case "unary":
        return e.op === "!" ? "int" : this.#typeOf(e.of);
      case "binary":
        if (isComparison(e.op) || e.op === "&&" || e.op === "||") return "int";
        return this.#typeOf(e.left) === "T" || this.#typeOf(e.right) === "T" ? "T" : "int";
      case "choose":
        return this.#typeOf(e.then) === "T" || this.#typeOf(e.otherwise) === "T" ? "T" : "int";
      case "cast":
        return e.to;
      case "call":
        return "T";
      default:
        throw e satisfies never;
    }
  }

  #isVarying(e: Expression): boolean {
    const lanes = this.#lanes;
    if (lanes === null) return false;
    return someExpression(
      e,
      (part) =>
        part.e === "name" && !(part.name in this.#program.constants) &&
        (part.name === lanes.name || this.#variable(part.name).isVarying),
    );
  }

  // ---- statements

  #block(body: readonly Statement[]): void {
    this.#scopes.push(new Map());
    for (const s of body) this.#statement(s);
    this.#scopes.pop();
  }

  #statement(s: Statement): void {
    switch (s.s) {
      case "declare":
        return this.#declaration(s);
      case "assign":
        return this.#assignment(s);
      case "if":
        return this.#if(
          s.condition,
          () => this.#block(s.then),
          s.otherwise.length > 0 ? () => this.#block(s.otherwise) : undefined,
        );
      case "while":
        return this.#while(null, [s], s.condition, s.body, () => {});
      case "for":
        return this.#for(s);
      case "each":
        return s.ranges.length === 1 ? this.#each(s.ranges[0]!, s.body) : this.#pairs(s);
      case "fold":
        return this.#fold(s.range, s.body);
      case "block":
        return this.#block(s.body);
      case "sync":
        return;
      case "break":
        return this.#f.put(core.branch, this.#depth + 1);
      default:
        throw s satisfies never;
    }
  }

  #declaration(s: Statement & { readonly s: "declare" }): void {
    const f = this.#f, { name, type, isArray, value } = s;
    if (isArray) {
      const local = f.number();
      f.assign(local, this.#array(value));
      return this.#declare(name, "int", local, { isArray });
    }
    const isVarying = this.#isVarying(value);
    if (type === "int" && isVarying) {
      if (!s.isConstant) throw new NotByLanes();
      return this.#declare(name, "int", -1, { isVarying, meaning: value });
    }
    if (type === "int") {
      const local = f.number();
      f.assign(local, this.#integer(value));
      return this.#declare(name, type, local);
    }
    // A variable may get another value of each lane later.
    const isWide = isVarying || this.#lanes !== null && !s.isConstant;
    const local = this.#reals.variable(isWide);
    this.#reals.assign(local, this.#real(value));
    this.#declare(name, type, local, { isVarying: isWide });
  }

  #assignment({ to, op, value }: Statement & { readonly s: "assign" }): void {
    if (to.e === "at") return this.#store(to.array, to.index, op, to, value);
    const f = this.#f, part = this.#lanes?.parts.get(to.name);
    if (part) return this.#join(part.local, part.how, to.name, op, value);
    const { type, local, isArray, isVarying } = this.#variable(to.name);
    if (this.#lanes?.outer.has(to.name)) throw new NotByLanes();
    if (isArray) return f.assign(local, this.#array(value));
    if (this.#isVarying(value) && !isVarying) throw new NotByLanes();
    if (type === "T") return this.#reals.assign(local, this.#updated(local, op, value));
    const right = this.#integer(value);
    f.assign(local, op === "" ? right : f.i(integerOps[op]!, local, right));
  }

  /** `old op value`. */
  #updated(old: Local, op: "" | "+" | "-" | "*" | "/", value: Expression): Local {
    const reals = this.#reals;
    if (
      (op === "+" || op === "-") && value.e === "binary" && value.op === "*" &&
      this.#typeOf(value) === "T"
    ) {
      return reals.accumulate(old, this.#real(value.left), this.#real(value.right), op === "-");
    }
    const right = this.#real(value);
    if (op === "") return right;
    return op === "+"
      ? reals.add(old, right)
      : op === "-"
      ? reals.sub(old, right)
      : op === "*"
      ? reals.mul(old, right)
      : reals.div(old, right);
  }

  /** Adds to the part of a sum that is kept in lanes, or takes an extreme with it. */
  #join(
    local: Local,
    how: Join,
    name: string,
    op: string,
    value: Expression,
  ): void {
    if (how === "+" && (op === "+" || op === "-")) {
      return this.#reals.assign(local, this.#updated(local, op, value));
    }
    if (op !== "" || value.e !== "call" || value.name !== how) throw new NotByLanes();
    const [first, second] = value.args as [Expression, Expression];
    if (first.e !== "name" || first.name !== name) throw new NotByLanes();
    this.#reals.assign(local, this.#reals.call(how, [local, this.#real(second)])!);
  }

  #store(
    array: string,
    index: Expression,
    op: "" | "+" | "-" | "*" | "/",
    element: Expression,
    value: Expression,
  ): void {
    const place = this.#address(array, index);
    if (this.#isWholeArray(array)) {
      if (place.step !== null || this.#isVarying(value)) throw new NotByLanes();
      const right = this.#integer(value);
      const whole = op === "" ? right : this.#f.i(integerOps[op]!, this.#integer(element), right);
      return this.#f.storeNumber(place.address, whole, place.offset);
    }
    const found = op === "" ? this.#real(value) : this.#updated(this.#real(element), op, value);
    if (this.#lanes === null) return this.#reals.storeOne(place.address, place.offset, found);
    if (place.step === null) throw new NotByLanes();
    if (place.step === "one") return this.#reals.storeRow(place.address, place.offset, found);
    this.#reals.storeEach(place.address, place.offset, place.step, found);
  }

  // ---- control

  /** Runs one of two parts; each is a block more that a `break` leaves. */
  #if(condition: Expression, then: () => void, otherwise?: () => void): void {
    this.#branch(this.#truth(condition), then, otherwise);
  }

  #branch(condition: Local, then: () => void, otherwise?: () => void): void {
    this.#depth++;
    this.#f.branch(condition, then, otherwise);
    this.#depth--;
  }

  #while(
    variable: string | null,
    all: readonly Statement[],
    condition: Expression,
    body: readonly Statement[],
    step: () => void,
  ): void {
    const depth = this.#depth, assigned = assignedNames(all.flatMap(innerStatements));
    if (variable !== null) assigned.delete(variable);
    this.#depth = 0;
    this.#places.loop(
      variable,
      assigned,
      () => this.#f.get(this.#truth(condition)),
      () => this.#block(body),
      step,
    );
    this.#depth = depth;
  }

  #for(s: Statement & { readonly s: "for" }): void {
    this.#scopes.push(new Map());
    this.#statement(s.start);
    const name = s.start.s === "declare" ? s.start.name : null;
    // A variable that the body changes, too, is none that stays the same in a round.
    const isPlain = name !== null && !assignedNames(s.body).has(name);
    const all: Statement[] = [{ s: "block", body: isPlain ? s.body : [...s.body, s.step] }];
    this.#while(isPlain ? name : null, all, s.condition, s.body, () => this.#statement(s.step));
    this.#scopes.pop();
  }

  #pairs({ ranges, body }: Statement & { readonly s: "each" }): void {
    const [outer, inner] = ranges as [Range, Range];
    const one = (first: Range, second: Range) => () =>
      this.#rounds(first, [{ s: "each", ranges: [second], body }], () => this.#each(second, body));
    const isWide: Expression = {
      e: "binary",
      op: ">=",
      left: { e: "binary", op: "-", left: inner.to, right: inner.from },
      right: { e: "number", value: this.#reals.lanes },
    };
    // Bounds of the second may depend on the first: then there is one order.
    const depends = [inner.from, inner.to].some((e) =>
      someExpression(e, (part) => part.e === "name" && part.name === outer.name)
    );
    if (depends) return one(outer, inner)();
    this.#if(isWide, one(outer, inner), one(inner, outer));
  }

  /** A loop over a range, a round after the other. */
  #rounds({ name, from, to }: Range, body: readonly Statement[], write: () => void): void {
    const f = this.#f, at = f.copy(this.#integer(from)), end = f.copy(this.#integer(to));
    this.#scopes.push(new Map());
    this.#declare(name, "int", at);
    this.#counted(name, at, end, 1, assignedNames(body), write);
    this.#scopes.pop();
  }

  #counted(
    name: string,
    at: Local,
    end: Local,
    step: number,
    assigned: Set<string>,
    write: () => void,
  ): void {
    const f = this.#f, depth = this.#depth;
    assigned.delete(name);
    this.#depth = 0;
    this.#places.loop(
      name,
      assigned,
      () => f.get(f.i(i32.ltS, at, end)),
      write,
      () => f.step(at, step),
    );
    this.#depth = depth;
  }

  #each(range: Range, body: readonly Statement[]): void {
    const { from, to } = range, plain = () => this.#block(body);
    const isOne = from.e === "number" && to.e === "number" && to.value - from.value === 1;
    const hasFold = (list: readonly Statement[]): boolean =>
      list.some((s) => s.s === "fold" || hasFold(innerStatements(s)));
    if (isOne || this.#lanes !== null || hasFold(body)) return this.#rounds(range, body, plain);
    this.#byLanes(range, body, new Map());
  }

  #fold(range: Range, body: readonly Statement[]): void {
    if (this.#lanes !== null) return this.#rounds(range, body, () => this.#block(body));
    this.#byLanes(range, body, joinsOf(body));
  }

  /** Rounds by lanes, several vectors at a time, then one by one vector, then the rest one by one. */
  #byLanes(range: Range, body: readonly Statement[], joins: ReadonlyMap<string, Join>): void {
    const f = this.#f, { name } = range, most = vectorsOf(body);
    const at = f.copy(this.#integer(range.from)), end = f.copy(this.#integer(range.to));
    const outer = new Set(this.#scopes.flatMap((scope) => [...scope.keys()]));
    this.#scopes.push(new Map());
    this.#declare(name, "int", at);
    for (const vectors of most > 1 ? [most, 1] : [1]) {
      if (!this.#tryLanes({ name, at, end, body, vectors, outer, joins })) break;
    }
    this.#counted(name, at, end, 1, assignedNames(body), () => this.#block(body));
    this.#scopes.pop();
  }

  /** False, and nothing is written, where the body does not go by lanes. */
  #tryLanes(how: {
    readonly name: string;
    readonly at: Local;
    readonly end: Local;
    readonly body: readonly Statement[];
    readonly vectors: number;
    readonly outer: ReadonlySet<string>;
    readonly joins: ReadonlyMap<string, Join>;
  }): boolean {
    const f = this.#f, reals = this.#reals, { name, at, end, body, vectors, outer, joins } = how;
    const scopes = this.#scopes.length, depth = this.#depth, step = vectors * reals.lanes;
    try {
      reals.vectors = vectors;
      const code = f.detached(() => {
        const parts = new Map([...joins].map(([name, how]) => [name, this.#newPart(name, how)]));
        this.#counted(name, at, f.iWith(i32.sub, end, step - 1), step, assignedNames(body), () => {
          this.#lanes = { name, parts, outer };
          this.#block(body);
          this.#lanes = null;
        });
        for (const [name, part] of parts) this.#gather(name, part);
      });
      f.append(code);
      return true;
    } catch (error) {
      if (!(error instanceof NotByLanes)) throw error;
      this.#scopes.length = scopes;
      this.#depth = depth;
      return false;
    } finally {
      this.#lanes = null;
      reals.vectors = 1;
    }
  }

  #newPart(name: string, how: Join): Part {
    const local = this.#reals.variable(true);
    this.#reals.assign(local, how === "+" ? this.#reals.constant(0) : this.#variable(name).local);
    return { local, how };
  }

  /** Joins the lanes of a part, and them with the variable. */
  #gather(name: string, { local, how }: Part): void {
    const reals = this.#reals, own = this.#variable(name).local, all = reals.across(how, local);
    reals.assign(own, how === "+" ? reals.add(own, all) : reals.call(how, [own, all])!);
  }

  // ---- whole numbers

  /** 1 where a condition holds; all lanes go the same way. */
  #truth(e: Expression): Local {
    if (this.#isVarying(e)) throw new NotByLanes();
    return this.#integer(e);
  }

  #integer(e: Expression): Local {
    const f = this.#f;
    switch (e.e) {
      case "number":
        return f.integer(e.value);
      case "name": {
        const found = this.#variable(e.name);
        if (found.isVarying || e.name === this.#lanes?.name) throw new NotByLanes();
        return found.local;
      }
      case "at": {
        const { address, offset, step } = this.#address(e.array, e.index);
        if (step !== null) throw new NotByLanes();
        return f.loadNumber(i32.load, address, offset);
      }
      case "unary":
        if (e.op === "!") return f.iWith(i32.eq, this.#integer(e.of), 0);
        return f.i(i32.sub, f.integer(0), this.#integer(e.of));
      case "binary":
        return this.#integerPair(e);
      case "choose": {
        const found = f.number();
        this.#if(
          e.condition,
          () => f.assign(found, this.#integer(e.then)),
          () => f.assign(found, this.#integer(e.otherwise)),
        );
        return found;
      }
      case "cast":
        return this.#typeOf(e.of) === "T"
          ? this.#reals.toInteger(this.#real(e.of))
          : this.#integer(e.of);
      case "call":
        throw new Error(`A matrix program has no whole number ${e.name}`);
      default:
        throw e satisfies never;
    }
  }

  #integerPair(e: Expression & { readonly e: "binary" }): Local {
    const f = this.#f, { op, left, right } = e;
    if (op === "&&" || op === "||") {
      // The right side is looked at where the left one does not decide.
      const found = f.copy(f.iWith(i32.ne, this.#integer(left), 0));
      const isOpen = op === "&&" ? found : f.iWith(i32.eq, found, 0);
      this.#branch(isOpen, () => f.assign(found, f.iWith(i32.ne, this.#integer(right), 0)));
      return found;
    }
    if (isComparison(op) && (this.#typeOf(left) === "T" || this.#typeOf(right) === "T")) {
      return f.anyTrue(this.#reals.compare(op, this.#real(left), this.#real(right)));
    }
    const make = () => f.i(integerOps[op]!, this.#integer(left), this.#integer(right));
    if (op !== "+" && op !== "-" && op !== "*") return make();
    return this.#placed(e, make);
  }

  /** Computes a sum or product of whole numbers as early as its variables are known. */
  #placed(e: Expression, make: () => Local): Local {
    const depth = this.#depthOf(e);
    return this.#places.at(depth, depth === HERE ? "" : this.#keyOf(e), make);
  }

  #depthOf(e: Expression): Depth {
    const isPure = (part: Expression): boolean =>
      part.e === "number" || part.e === "name" ||
      part.e === "binary" && "+-*".includes(part.op) && partsOf(part).every(isPure);
    if (!isPure(e)) return HERE;
    const names: string[] = [];
    someExpression(e, (part) => (part.e === "name" && names.push(part.name), false));
    return this.#places.depthOf(names);
  }

  /** Text of a pure expression that tells variables of one name apart. */
  #keyOf(e: Expression): string {
    if (e.e === "number") return `${e.value}`;
    if (e.e === "name") return `$${this.#variable(e.name).local}`;
    if (e.e === "binary") return `(${this.#keyOf(e.left)}${e.op}${this.#keyOf(e.right)})`;
    throw new Error("Only sums and products are moved");
  }

  /** A whole number as `rest + factor * lane`; null for what is not there. */
  #split(e: Expression): { rest: Expression | null; factor: Expression | null } {
    const lanes = this.#lanes;
    if (lanes === null || !this.#isVarying(e)) return { rest: e, factor: null };
    if (e.e === "name") {
      // The lane's own number is the rest: its variable stands for the first lane.
      if (e.name === lanes.name) return { rest: e, factor: { e: "number", value: 1 } };
      const { meaning } = this.#variable(e.name);
      if (meaning === null) throw new NotByLanes();
      return this.#split(meaning);
    }
    if (e.e !== "binary" || !"+-*".includes(e.op)) throw new NotByLanes();
    const [left, right] = [this.#split(e.left), this.#split(e.right)];
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

  /** The place of an element: of lanes with the bytes from one to the next, "one" for neighbours. */
  #address(
    array: string,
    index: Expression,
  ): { address: Local; offset: number; step: Local | "one" | null } {
    const f = this.#f, bytes = this.#isWholeArray(array) ? 4 : this.#reals.bytes;
    const { rest, factor } = this.#split(index);
    const terms = rest === null ? [] : termsOf(rest);
    let offset = 0;
    const moving = terms.filter(({ term, isMinus }) => {
      if (term.e !== "number") return true;
      offset += isMinus ? -term.value : term.value;
      return false;
    });
    const own = this.#variable(array).local;
    let address = own, depth = this.#places.depthOf([array]), key = `$${own}`;
    const placed = moving.map((part) => ({ ...part, depth: this.#depthOf(part.term) }));
    for (const { term, isMinus, depth: inner } of placed.sort((a, b) => a.depth - b.depth)) {
      depth = Math.max(depth, inner);
      const name = inner === HERE ? "" : this.#keyOf(term), before = address;
      key = `${key}${isMinus ? "-" : "+"}${name}`;
      address = this.#places.at(depth, `${key} of ${bytes}`, () => {
        const scaled = this.#scaled(term, bytes, inner, name);
        return f.i(isMinus ? i32.sub : i32.add, before, scaled);
      });
    }
    if (offset < 0) {
      const by = offset * bytes, before = address;
      address = this.#places.at(
        depth,
        `${key} by ${by} of ${bytes}`,
        () => f.iWith(i32.add, before, by),
      );
      offset = 0;
    }
    const isOne = factor?.e === "number" && factor.value === 1;
    const step = factor === null ? null : isOne ? "one" : this.#scaled(factor, bytes);
    return { address, offset: offset * bytes, step };
  }

  #scaled(term: Expression, bytes: number, depth = this.#depthOf(term), name = ""): Local {
    const f = this.#f, shift = Math.log2(bytes);
    const make = () => f.iWith(i32.shl, this.#first(term), shift);
    if (depth === HERE) return make();
    return this.#places.at(depth, `${name || this.#keyOf(term)} * ${bytes}`, make);
  }

  /** The address of the array that an expression chooses. */
  #array(e: Expression): Local {
    const f = this.#f;
    if (e.e === "name") return this.#variable(e.name).local;
    if (e.e !== "choose") throw new Error("An array is a name, or one of two");
    const found = f.number();
    this.#if(
      e.condition,
      () => f.assign(found, this.#array(e.then)),
      () => f.assign(found, this.#array(e.otherwise)),
    );
    return found;
  }

  // ---- floating point numbers

  #real(e: Expression): Local {
    const f = this.#f, reals = this.#reals, constant = this.#constantOf(e);
    if (constant !== null) return reals.constant(constant);
    if (this.#typeOf(e) === "int" && e.e !== "choose") return this.#realOfInteger(e);
    switch (e.e) {
      case "name":
        if (this.#lanes?.parts.has(e.name)) throw new NotByLanes();
        return this.#variable(e.name).local;
      case "at": {
        const { address, offset, step } = this.#address(e.array, e.index);
        if (step === null) return reals.loadOne(address, offset);
        if (step === "one") return reals.loadRow(address, offset);
        return reals.loadEach(address, offset, step);
      }
      case "unary":
        return reals.neg(this.#real(e.of));
      case "binary":
        return this.#realPair(e);
      case "choose":
        return this.#chosen(e);
      case "cast":
        return this.#real(e.of);
      case "call": {
        const found = reals.call(e.name, e.args.map((arg) => this.#real(arg)));
        if (found === null) throw new NoInstruction(`WebAssembly has no ${e.name}`);
        return found;
      }
      default:
        throw new Error(`A matrix program has no number ${f}`);
    }
  }

  #realOfInteger(e: Expression): Local {
    const { rest, factor } = this.#split(e);
    if (factor === null) return this.#reals.fromInteger(this.#integer(e));
    const start = rest === null ? this.#f.integer(0) : this.#first(rest);
    return this.#reals.fromLanes(start, this.#integer(factor));
  }

  /** A whole number of the first lane. */
  #first(e: Expression): Local {
    const lanes = this.#lanes;
    this.#lanes = null;
    const found = this.#integer(e);
    this.#lanes = lanes;
    return found;
  }

  #realPair({ op, left, right }: Expression & { readonly e: "binary" }): Local {
    const reals = this.#reals;
    if (op === "+" || op === "-") return this.#updated(this.#real(left), op, right);
    const [a, b] = [this.#real(left), this.#real(right)];
    if (op === "*") return reals.mul(a, b);
    if (op === "/") return reals.div(a, b);
    throw new Error(`A matrix program has no ${op} of floating point numbers`);
  }

  #chosen({ condition, then, otherwise }: Expression & { readonly e: "choose" }): Local {
    const reals = this.#reals;
    if (this.#isVarying(condition)) {
      if (condition.e !== "binary" || !isComparison(condition.op)) throw new NotByLanes();
      const { op, left, right } = condition;
      const mask = reals.compare(op, this.#real(left), this.#real(right));
      return reals.select(mask, this.#real(then), this.#real(otherwise));
    }
    const found = reals.variable(this.#isVarying(then) || this.#isVarying(otherwise));
    this.#if(
      condition,
      () => reals.assign(found, this.#real(then)),
      () => reals.assign(found, this.#real(otherwise)),
    );
    return found;
  }

  /** The value of what is made of numbers alone. */
  #constantOf(e: Expression): number | null {
    switch (e.e) {
      case "number":
        return e.value;
      case "name":
        return this.#program.constants[e.name] ?? null;
      case "cast":
        return e.to === "T" ? this.#constantOf(e.of) : null;
      case "unary": {
        const value = this.#constantOf(e.of);
        return value === null || e.op === "!" ? null : -value;
      }
      case "binary": {
        if (this.#typeOf(e) !== "T") return null;
        const [a, b] = [this.#constantOf(e.left), this.#constantOf(e.right)];
        if (a === null || b === null) return null;
        const round = this.#reals.bytes === 4 ? Math.fround : (x: number) => x;
        if (e.op === "+") return round(a + b);
        if (e.op === "-") return round(a - b);
        return e.op === "*" ? round(a * b) : e.op === "/" ? round(a / b) : null;
      }
      default:
        return null;
    }
  }
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

/** The terms of a sum. */
function termsOf(e: Expression, isMinus = false): { term: Expression; isMinus: boolean }[] {
  if (e.e !== "binary" || e.op !== "+" && e.op !== "-") return [{ term: e, isMinus }];
  return [...termsOf(e.left, isMinus), ...termsOf(e.right, e.op === "-" ? !isMinus : isMinus)];
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
