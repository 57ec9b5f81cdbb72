/** Vectors as several shorter ones, for devices whose own have fewer lanes. */
import { add, type E, lanes, make, mul } from "../language/expression.ts";
import { mapStatement, type Statement } from "../language/statements.ts";
import { fadd, lane, laneSum, load, or, splat } from "../language/values.ts";

/** The statements with vectors of at most so many lanes; squares that are transposed stay whole. */
export function splitVectors(body: readonly Statement[], width: number): Statement[] {
  return new Splitting(width).block(body);
}

class Splitting {
  readonly #width: number;
  readonly #parts = new Map<E, readonly E[]>();
  readonly #wholes = new Map<E, E>();

  constructor(width: number) {
    this.#width = width;
  }

  block(body: readonly Statement[]): Statement[] {
    return body.flatMap((s) => this.#statement(s));
  }

  #statement(s: Statement): Statement[] {
    const wide = "to" in s && "value" in s ? s.to : s.s === "store" ? s.value : null;
    if (wide === null || !this.#isLong(wide)) {
      return [mapStatement(s, (e) => this.#whole(e), (all) => this.block(all))];
    }
    const count = wide.width / this.#width;
    return Array.from({ length: count }, (_, k): Statement => {
      if (s.s === "let" || s.s === "set") {
        return { ...s, to: this.#part(s.to, k), value: this.#part(s.value, k) };
      }
      const { index, value, ...rest } = s as Extract<Statement, { s: "store" }>;
      return {
        ...rest,
        index: add(this.#whole(index), k * this.#width),
        value: this.#part(value, k),
      };
    });
  }

  /** Vectors of 16 bits have twice as many lanes. */
  #isLong({ width, kind }: E): boolean {
    return width > (kind === "int16" ? 2 : 1) * this.#width;
  }

  /** An expression of short vectors and single numbers. */
  #whole(e: E): E {
    if (e.args.length === 0) return e;
    return this.#wholes.getOrInsertComputed(e, () => {
      const [first] = e.args as readonly [E];
      if (!this.#isLong(first) || this.#isLong(e)) return rebuilt(e, (a) => this.#whole(a));
      const parts = this.#partsOf(first);
      switch (e.op) {
        case "laneSum":
          return laneSum(parts.reduce(fadd));
        case "any":
          return parts.map((part) => make("any", "bool", [part], { width: 1 })).reduce(or);
        case "lane":
          return lane(parts[Math.floor(e.value / this.#width)]!, e.value % this.#width);
        default:
          throw new Error(`Cannot split the vector of ${e.op}`);
      }
    });
  }

  #part(e: E, k: number): E {
    return this.#isLong(e) ? this.#partsOf(e)[k]! : this.#whole(e);
  }

  #partsOf(e: E): readonly E[] {
    const count = e.width / this.#width;
    return this.#parts.getOrInsertComputed(
      e,
      () => Array.from({ length: count }, (_, k) => this.#partOf(e, k)),
    );
  }

  #partOf(e: E, k: number): E {
    const width = this.#width, first = k * width, args = e.args.map((a) => this.#part(a, k));
    switch (e.op) {
      case "var":
      case "register":
        return make(e.op, e.kind, [], { ...e, name: `${e.name}_${k}`, width });
      case "lanes":
        return add(lanes(width), first);
      case "sum":
        return add(...args.map((a, n) => mul(a, e.factors[n]!)));
      case "+":
        return add(...args);
      case "load":
        return load(e.place!, add(args[0]!, first, lanes(width)));
      case "splat":
        return splat(args[0]!, width);
      case "random": {
        const [index, seed, stream, step] = args as [E, E, E, E];
        return make("random", "float", [add(index, mul(step, first)), seed, stream, step], {
          width,
        });
      }
      case "loadBetween":
      case "loadPart":
      case "lanesFrom":
      case "interleaved":
      case "everySecond":
        throw new Error(`Cannot split ${e.op}`);
      default:
        return make(e.op, e.kind, args, { ...e, width });
    }
  }
}

function rebuilt(e: E, of: (e: E) => E): E {
  const args = e.args.map(of);
  return args.every((a, k) => a === e.args[k]) ? e : make(e.op, e.kind, args, e);
}
