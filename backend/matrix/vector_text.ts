/**
 * Programs of matrices as OpenCL C for one work-item, whose rounds lie in the lanes of vectors: a compiler
 * for CPUs has no vectors for an outer loop, and walks columns of matrices one by one.
 */
import type { Expression, MatrixProgram, Range, Statement } from "./language.ts";
import { lanesOf, type Names, valueOf } from "./lanes.ts";

/** Elements of a vector, and the name of their type. */
const kinds = {
  float32: { element: "float", width: 16 },
  float64: { element: "double", width: 8 },
} as const;

/** The body of a kernel; its arrays, numbers and constants have their names. */
export function vectorText({ dtype, arrays, numbers, constants, body }: MatrixProgram): string {
  const names: Names = new Map();
  for (const { name, isWhole } of arrays) {
    names.set(name, { type: isWhole ? "int" : "T", lanes: "one" });
  }
  for (const name of numbers) names.set(name, { type: "int", lanes: "one" });
  for (const name of Object.keys(constants)) names.set(name, { type: "T", lanes: "one" });
  return new VectorWriter(kinds[dtype]).block(body, names);
}

class VectorWriter {
  readonly #element: string;
  readonly #width: number;

  constructor({ element, width }: { element: string; width: number }) {
    this.#element = element;
    this.#width = width;
  }

  get #vector(): string {
    return `${this.#element}${this.#width}`;
  }

  /** Statements with names of their own. */
  block(body: readonly Statement[], outer: Names): string {
    const names = new Map(outer);
    return `{\n${body.map((s) => this.#statement(s, names)).join("\n")}\n}`;
  }

  #statement(s: Statement, names: Names): string {
    switch (s.s) {
      case "declare":
        return this.#declare(s, names);
      case "assign":
        return this.#assign(s, names);
      case "if": {
        const otherwise = s.otherwise.length > 0 ? ` else ${this.block(s.otherwise, names)}` : "";
        return `if (${this.#text(s.condition, names)}) ${this.block(s.then, names)}${otherwise}`;
      }
      case "while":
        return `while (${this.#text(s.condition, names)}) ${this.block(s.body, names)}`;
      case "for": {
        const own = new Map(names), start = this.#statement(s.start, own);
        const step = this.#statement(s.step, own).slice(0, -1);
        return `for (${start} ${this.#text(s.condition, own)}; ${step}) ${this.block(s.body, own)}`;
      }
      case "each":
        return this.#each(s.ranges, s.body, names);
      case "fold":
        return this.#fold(s.range, s.body, names);
      case "block":
        return this.block(s.body, names);
      case "sync":
        return "";
      case "break":
        return "break;";
      default:
        throw s satisfies never;
    }
  }

  #declare(s: Statement & { s: "declare" }, names: Names): string {
    const known = names.get(s.name), { type, isArray, name } = s;
    // A name of a body in lanes has its place already.
    const isMany = known?.lanes === "many" && known.declared === s;
    if (!isMany) names.set(name, { type, lanes: isArray ? "one" : valueOf(s.value, names).lanes });
    const kind = isArray ? `global ${type}*` : isMany ? this.#vector : type;
    return `${kind} ${name} = ${isMany ? this.#wide(s.value, names) : this.#text(s.value, names)};`;
  }

  #assign({ to, op, value }: Statement & { s: "assign" }, names: Names): string {
    const { lanes } = valueOf(to, names);
    if (lanes !== "many") return `${this.#text(to, names)} ${op}= ${this.#text(value, names)};`;
    if (to.e === "name") return `${to.name} ${op}= ${this.#wide(value, names)};`;
    const place = `0, ${to.array} + (${this.#text(to.index, names)})`;
    const found = this.#wide(value, names);
    const all = op === "" ? found : `${this.#text(to, names)} ${op} ${found}`;
    return `vstore${this.#width}(${all}, ${place});`;
  }

  /** The rounds of the last range are those of the lanes, where the body has vectors. */
  #each(ranges: readonly Range[], body: readonly Statement[], names: Names): string {
    const own = new Map(names), last = ranges.at(-1)!;
    const heads = ranges.slice(0, -1).map((range) => {
      own.set(range.name, { type: "int", lanes: "one" });
      return `${this.#loop(range, own)} `;
    });
    const many = lanesOf(last.name, body, own);
    const one = new Map(own).set(last.name, { type: "int", lanes: "one" });
    const plain = this.block(body, one);
    if (many === null) return `${heads.join("")}${this.#loop(last, own)} ${plain}`;
    return `${heads.join("")}${this.#inLanes(last, own, this.block(body, many), plain)}`;
  }

  #loop({ name, from, to }: Range, names: Names): string {
    const [start, end] = [from, to].map((bound) => this.#text(bound, names));
    return `for (int ${name} = ${start}; ${name} < ${end}; ${name}++)`;
  }

  #inLanes({ name, from, to }: Range, names: Names, vectors: string, plain: string): string {
    const end = `end_${name}`, width = this.#width;
    return `{
int ${name} = ${this.#text(from, names)};
const int ${end} = ${this.#text(to, names)};
for (; ${name} + ${width} <= ${end}; ${name} += ${width}) ${vectors}
for (; ${name} < ${end}; ${name}++) ${plain}
}`;
  }

  /** Sums and extremes of lanes, joined behind the loop. */
  #fold(range: Range, body: readonly Statement[], names: Names): string {
    const one = new Map(names).set(range.name, { type: "int", lanes: "one" });
    const plain = this.block(body, one);
    const parts = body.map((s) => this.#foldPart(s, range.name, one));
    if (parts.some((part) => part === null)) return `${this.#loop(range, names)} ${plain}`;
    const found = parts as { begin: string; step: string; end: string }[];
    const vectors = `{\n${found.map(({ step }) => step).join("\n")}\n}`;
    return `{
${found.map(({ begin }) => begin).join("\n")}
${this.#inLanes(range, names, vectors, plain)}
${found.map(({ end }) => end).join("\n")}
}`;
  }

  #foldPart(s: Statement, lane: string, names: Names) {
    if (s.s !== "assign" || s.to.e !== "name") return null;
    const { name } = s.to, sum = `all_${name}`, many = new Map(names);
    many.set(lane, { type: "int", lanes: "next" });
    const isSum = s.op === "+";
    const call = s.op === "" && s.value.e === "call" && /^fm(ax|in)$/.test(s.value.name)
      ? s.value
      : null;
    const [first, rest] = call?.args ?? [];
    const isExtreme = first?.e === "name" && first.name === name;
    if (!isSum && !isExtreme || names.get(name)?.type !== "T") return null;
    const value = isSum ? s.value : rest!;
    if (valueOf(value, many).lanes !== "many") return null;
    const text = this.#text(value, many), join = call?.name;
    const halves = [8, 4, 2, 1].filter((n) => n < this.#width);
    const joined = halves.map((n) => {
      const [low, high] = n === 1 ? [`.s0`, `.s1`] : [".lo", ".hi"];
      const from = 2 * n === this.#width ? sum : `${sum}_${2 * n}`;
      const pair = isSum
        ? `${from}${low} + ${from}${high}`
        : `${join}(${from}${low}, ${from}${high})`;
      return `const ${this.#element}${n === 1 ? "" : n} ${sum}_${n} = ${pair};`;
    });
    return {
      begin: `${this.#vector} ${sum} = (${this.#vector})(${isSum ? "0" : name});`,
      step: isSum ? `${sum} += ${text};` : `${sum} = ${join}(${sum}, ${text});`,
      end: `${joined.join("\n")}\n${
        isSum ? `${name} += ${sum}_1` : `${name} = ${join}(${name}, ${sum}_1)`
      };`,
    };
  }

  /** A number in all lanes, where it is one. */
  #wide(e: Expression, names: Names): string {
    const text = this.#text(e, names);
    return valueOf(e, names).lanes === "many" ? text : `(${this.#vector})((T)(${text}))`;
  }

  #text(e: Expression, names: Names): string {
    const value = valueOf(e, names), isMany = value.lanes === "many";
    const of = (part: Expression): string => this.#text(part, names);
    // Numbers beside vectors are of the vectors' elements.
    const operand = (part: Expression): string => {
      const isNumber = isMany && valueOf(part, names).lanes !== "many";
      return isNumber ? `(T)(${of(part)})` : of(part);
    };
    switch (e.e) {
      case "number":
        return `${e.value}`;
      case "name":
        return e.name;
      case "at":
        return isMany
          ? `vload${this.#width}(0, ${e.array} + (${of(e.index)}))`
          : `${e.array}[${of(e.index)}]`;
      case "unary":
        return `(${e.op}${of(e.of)})`;
      case "binary":
        return `(${operand(e.left)} ${e.op} ${operand(e.right)})`;
      case "choose":
        return isMany
          ? `(${of(e.condition)} ? ${this.#wide(e.then, names)} : ${
            this.#wide(e.otherwise, names)
          })`
          : `(${of(e.condition)} ? ${of(e.then)} : ${of(e.otherwise)})`;
      case "cast":
        return `((${e.to})${of(e.of)})`;
      case "call":
        return `${e.name}(${
          e.args.map((part) => isMany ? this.#wide(part, names) : of(part)).join(", ")
        })`;
      default:
        throw e satisfies never;
    }
  }
}
