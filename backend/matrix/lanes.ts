/** The rounds of a loop in the lanes of vectors: which values differ in them, and which bodies have vectors. */
import { type Expression, partsOf, type Statement, type ValueType } from "./language.ts";

/** A value of all rounds: the same in each, one more than in the round before, or a vector of numbers. */
export type Lanes = "one" | "next" | "many" | "none";

/** A value: its type, and what it is in lanes; "none" where vectors have no form of it. */
export interface Value {
  readonly type: ValueType;
  readonly lanes: Lanes;
  /** The statement that declares a name of vectors. */
  readonly declared?: Statement;
}

/** Names with their values. */
export type Names = Map<string, Value>;

const arithmetic: readonly string[] = ["+", "-", "*", "/"];
/** Functions that OpenCL C has for vectors, too. */
const functions: readonly string[] = ["sqrt", "fabs", "fmax", "fmin"];

/** The value of an expression. */
export function valueOf(e: Expression, names: Names): Value {
  switch (e.e) {
    case "number":
      return { type: "int", lanes: "one" };
    case "name":
      return names.get(e.name) ?? { type: "T", lanes: "none" };
    case "at": {
      const { lanes } = valueOf(e.index, names), { type } = names.get(e.array)!;
      if (lanes === "one") return { type, lanes };
      return { type, lanes: lanes === "next" && type === "T" ? "many" : "none" };
    }
    case "cast": {
      const { lanes } = valueOf(e.of, names);
      return { type: e.to, lanes: lanes === "one" ? "one" : "none" };
    }
    case "call": {
      const all = e.args.map((part) => valueOf(part, names).lanes);
      const isMany = functions.includes(e.name) && all.every((lanes) => /one|many/.test(lanes));
      return { type: "T", lanes: all.every((l) => l === "one") ? "one" : isMany ? "many" : "none" };
    }
    case "choose": {
      const [condition, ...values] = partsOf(e).map((part) => valueOf(part, names));
      const joined = join(values[0]!, values[1]!);
      return condition!.lanes === "one" ? joined : { ...joined, lanes: "none" };
    }
    case "unary": {
      const value = valueOf(e.of, names);
      const keeps = value.lanes === "one" || value.lanes === "many" && e.op === "-";
      return { type: e.op === "!" ? "int" : value.type, lanes: keeps ? value.lanes : "none" };
    }
    case "binary":
      return ofBinary(e, names);
    default:
      throw e satisfies never;
  }
}

/** The value of one of two, or of both together. */
function join(a: Value, b: Value): Value {
  const type = a.type === "T" || b.type === "T" ? "T" : "int";
  if (a.lanes === "one" && b.lanes === "one") return { type, lanes: "one" };
  const isMany = [a, b].every(({ lanes }) => lanes === "one" || lanes === "many");
  return { type, lanes: isMany ? "many" : "none" };
}

function ofBinary({ op, left, right }: Expression & { e: "binary" }, names: Names): Value {
  const a = valueOf(left, names), b = valueOf(right, names), both = join(a, b);
  if (!arithmetic.includes(op) && op !== "%") {
    return { type: "int", lanes: both.lanes === "one" ? "one" : "none" };
  }
  const isNext = both.type === "int" &&
    (a.lanes === "next" && b.lanes === "one" && (op === "+" || op === "-") ||
      a.lanes === "one" && b.lanes === "next" && op === "+");
  return isNext ? { type: "int", lanes: "next" } : both;
}

/**
 * The names of a body whose rounds lie in lanes, or null where it has no vectors.
 *
 * @param lane The number of the round.
 * @param outer Names around the loop.
 */
export function lanesOf(lane: string, body: readonly Statement[], outer: Names): Names | null {
  const names = new Map(outer).set(lane, { type: "int", lanes: "next" });
  const many = new Set<Statement>();
  // A name is a vector once anything gives it one; what is made of it then is one, too.
  for (;;) {
    const before = many.size, isWhole = walk(body, new Map(names), many);
    if (many.size > before) continue;
    if (!isWhole) return null;
    return withVectors(names, many);
  }
}

/** True where all statements have vectors; adds the declarations of names that are vectors to `many`. */
function walk(body: readonly Statement[], names: Names, many: Set<Statement>): boolean {
  const all = (part: readonly Statement[]): boolean => walk(part, new Map(names), many);
  const isOne = (e: Expression): boolean => valueOf(e, names).lanes === "one";
  return body.every((s) => {
    switch (s.s) {
      case "declare": {
        const value = valueOf(s.value, names);
        if (s.isArray || value.lanes === "none") return false;
        if (value.lanes === "many") many.add(s);
        const lanes = many.has(s) ? "many" : value.lanes;
        names.set(s.name, { type: s.type, lanes, declared: s });
        return value.lanes !== "next" || s.isConstant;
      }
      case "assign": {
        const value = valueOf(s.value, names), to = valueOf(s.to, names);
        if (value.lanes === "none" || value.lanes === "next") return false;
        if (s.to.e === "at") return to.lanes === "many";
        const { declared } = names.get(s.to.name)!;
        // What stands around the loop is no round's.
        if (declared === undefined) return false;
        if (value.lanes === "many") many.add(declared);
        return to.lanes !== "next";
      }
      case "if":
        return isOne(s.condition) && all(s.then) && all(s.otherwise);
      case "while":
        return isOne(s.condition) && all(s.body);
      case "for": {
        const own = new Map(names);
        return walk([s.start], own, many) && valueOf(s.condition, own).lanes === "one" &&
          walk([s.step, ...s.body], own, many);
      }
      case "block":
        return all(s.body);
      case "break":
        return true;
      default: // loops within rounds are left to scalar code
        return false;
    }
  });
}

/** Names of vectors as the writer finds them: a name has one declaration in a body. */
function withVectors(
  names: Names,
  many: ReadonlySet<Statement>,
): Names | null {
  const found = new Map(names);
  for (const s of many) {
    if (s.s !== "declare") continue;
    if (found.get(s.name)?.declared) return null;
    found.set(s.name, { type: s.type, lanes: "many", declared: s });
  }
  return found;
}
