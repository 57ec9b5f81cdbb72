/**
 * The functions of `backend/codegen/functions` in OpenCL C, of vectors of 16 lanes (`exp_16`) and of one
 * number (`exp_1`). A CPU driver's own are accurate but slow, or compute one lane after the other (PoCL 3.1:
 * erf at a fifth of this speed, pow at a thirtieth), and have other bits than WebAssembly's.
 *
 * Each operation is a statement of its own, so that the compiler contracts `a * b + c` where that is written
 * and nowhere else. A device without doubles takes the driver's own where they are needed.
 */
import {
  binaryFunctions,
  type FunctionName,
  functions,
} from "../../../codegen/functions/functions.ts";
import type {
  DoubleWriter,
  LaneWriter,
  ReducedAngle,
} from "../../../codegen/functions/lane_writer.ts";

/** A value: an expression without operators, or a constant, and what its bits are. */
interface Value {
  readonly text: string;
  readonly kind: "float" | "int" | "double";
}

type Width = 16 | 1;

/** Writes an operation on values. */
type Operation = (...values: readonly Value[]) => Value;

/** A helper's text, or what writes it. */
type Helper = string | (() => string);

/** A literal of a finite or other number; `suffix` is that of its type. */
function literalOf(value: number, suffix: string): string {
  if (Number.isNaN(value)) return "NAN";
  if (!Number.isFinite(value)) return value > 0 ? "INFINITY" : "-INFINITY";
  const text = `${value}`;
  return `${/[.e]/.test(text) ? text : `${text}.0`}${suffix}`;
}

/** Writes the statements of one function. */
class LaneText implements LaneWriter<Value> {
  readonly #width: Width;
  readonly #lines: string[] = [];
  #indent = "  ";
  #count = 0;

  constructor(width: Width) {
    this.#width = width;
  }

  /** The statements so far. */
  get lines(): readonly string[] {
    return this.#lines;
  }

  #line(text: string): void {
    this.#lines.push(this.#indent + text);
  }

  #type(kind: Value["kind"]): string {
    if (this.#width === 1) return kind;
    return kind === "double" ? "double8" : `${kind}16`;
  }

  #new(kind: Value["kind"], text: string, qualifier = "const "): Value {
    const name = `v${this.#count++}`;
    this.#line(`${qualifier}${this.#type(kind)} ${name} = ${text};`);
    return { text: name, kind };
  }

  /** The bits of a value as another kind. */
  as({ text, kind }: Value, wanted: "float" | "int"): string {
    return kind === wanted ? text : `as_${this.#type(wanted)}(${text})`;
  }

  #floats(write: (...operands: string[]) => string): Operation {
    return (...values) => this.#new("float", write(...values.map((v) => this.as(v, "float"))));
  }

  #ints(write: (...operands: string[]) => string): Operation {
    return (...values) => this.#new("int", write(...values.map((v) => this.as(v, "int"))));
  }

  /** A comparison of scalars is 1, of vectors -1. */
  #mask(operator: string): Operation {
    return (...values) => {
      const text = values.map((v) => this.as(v, "float")).join(` ${operator} `);
      return this.#new("int", this.#width === 1 ? `-(${text})` : text);
    };
  }

  float(value: number): Value {
    const text = literalOf(Math.fround(value), "f");
    return { text: `(${this.#type("float")})(${text})`, kind: "float" };
  }
  int(bits: number): Value {
    const text = bits === -0x80000000 ? "INT_MIN" : `${bits | 0}`;
    return { text: `(${this.#type("int")})(${text})`, kind: "int" };
  }
  readonly add: Operation = this.#floats((x, y) => `${x} + ${y}`);
  readonly sub: Operation = this.#floats((x, y) => `${x} - ${y}`);
  readonly mul: Operation = this.#floats((x, y) => `${x} * ${y}`);
  readonly div: Operation = this.#floats((x, y) => `${x} / ${y}`);
  readonly madd: Operation = this.#floats((x, y, z) => `${x} * ${y} + ${z}`);
  readonly neg: Operation = this.#floats((x) => `-${x}`);
  readonly abs: Operation = this.#floats((x) => `fabs(${x})`);
  readonly sqrt: Operation = this.#floats((x) => `sqrt(${x})`);
  readonly trunc: Operation = this.#floats((x) => `trunc(${x})`);
  readonly lt: Operation = this.#mask("<");
  readonly gt: Operation = this.#mask(">");
  readonly ge: Operation = this.#mask(">=");
  readonly eq: Operation = this.#mask("==");
  readonly and: Operation = this.#ints((x, y) => `${x} & ${y}`);
  readonly or: Operation = this.#ints((x, y) => `${x} | ${y}`);
  readonly xor: Operation = this.#ints((x, y) => `${x} ^ ${y}`);
  readonly not: Operation = this.#ints((x) => `~${x}`);
  readonly addInt: Operation = this.#ints((x, y) => `${x} + ${y}`);
  readonly subInt: Operation = this.#ints((x, y) => `${x} - ${y}`);
  readonly shiftLeft = (a: Value, by: number): Value => this.#ints((x) => `${x} << ${by}`)(a);
  readonly shiftRight = (a: Value, by: number): Value => this.#ints((x) => `${x} >> ${by}`)(a);
  select(mask: Value, a: Value, b: Value): Value {
    const kind = a.kind === "int" && b.kind === "int" ? "int" : "float";
    return this.#new(kind, this.#selection(mask, this.as(a, kind), this.as(b, kind)));
  }
  #selection(mask: Value, a: string, b: string): string {
    const test = this.as(mask, "int");
    return this.#width === 1 ? `${test} ? ${a} : ${b}` : `select(${b}, ${a}, ${test})`;
  }
  toFloat(a: Value): Value {
    return this.#new("float", `convert_${this.#type("float")}(${this.as(a, "int")})`);
  }

  whereAny(mask: Value, values: readonly Value[], make: () => readonly Value[]): Value[] {
    const found = values.map((value) => this.#new(value.kind, value.text, ""));
    const test = this.as(mask, "int"), isWide = this.#width > 1;
    this.#line(`if (${isWide ? `any_16(${test})` : test}) {`);
    const outer = this.#indent;
    this.#indent += "  ";
    make().forEach((value, k) => {
      const { text, kind } = found[k]!, made = this.as(value, kind as "float" | "int");
      this.#line(`${text} = ${isWide ? this.#selection(mask, made, text) : made};`);
    });
    this.#indent = outer;
    this.#line("}");
    return found;
  }

  inDoubles(
    operands: readonly Value[],
    write: (d: DoubleWriter<Value>, ...doubles: Value[]) => Value,
  ): Value {
    const halves = this.#width === 1 ? [""] : [".lo", ".hi"];
    const results = halves.map((half) => {
      const doubles = operands.map((v) =>
        this.#new("double", `convert_${this.#type("double")}(${this.as(v, "float")}${half})`)
      );
      const { text } = write(this.#doubles, ...doubles);
      return `convert_float${half === "" ? "" : "8"}(${text})`;
    });
    return this.#new("float", `(${this.#type("float")})(${results.join(", ")})`);
  }

  readonly #doubles: DoubleWriter<Value> = {
    constant: (value) => ({
      text: `(${this.#type("double")})(${literalOf(value, "")})`,
      kind: "double",
    }),
    add: (a, b) => this.#new("double", `${a.text} + ${b.text}`),
    sub: (a, b) => this.#new("double", `${a.text} - ${b.text}`),
    mul: (a, b) => this.#new("double", `${a.text} * ${b.text}`),
    div: (a, b) => this.#new("double", `${a.text} / ${b.text}`),
    madd: (a, b, c) => this.#new("double", `${a.text} * ${b.text} + ${c.text}`),
    clamp: (x, low, high) => {
      const held = this.#bound(x, "<", low);
      return this.#bound(held, ">", high);
    },
    powerOfTwo: (shifted) => {
      const [long, double] = this.#width === 1 ? ["long", "double"] : ["long8", "double8"];
      return this.#new("double", `as_${double}(as_${long}(${shifted.text}) << 52)`);
    },
  };

  #bound(x: Value, operator: "<" | ">", bound: number): Value {
    const limit = this.#doubles.constant(bound).text, test = `${x.text} ${operator} ${limit}`;
    const text = this.#width === 1
      ? `${test} ? ${limit} : ${x.text}`
      : `select(${x.text}, ${limit}, ${test})`;
    return this.#new("double", text);
  }

  largeAngle(x: Value, fn: "sin" | "cos" | "tan"): ReducedAngle<Value> {
    const odd = this.#new("int", this.int(0).text, "");
    const [bits, quarters] = [fn === "tan" ? 2 : 1, fn === "cos" ? 1 : 0];
    const call = `large_angle_${this.#width}(${
      this.as(x, "float")
    }, ${bits}, ${quarters}, &${odd.text})`;
    return { rest: this.#new("float", call), odd };
  }
}

function helperText(name: FunctionName, width: Width): string {
  const writer = new LaneText(width), type = width === 1 ? "float" : "float16";
  const a = { text: "a", kind: "float" }, b = { text: "b", kind: "float" } as const;
  const result = functions[name](writer, a as Value, b);
  const names = name in binaryFunctions ? ["a", "b"] : ["a"];
  const lines = [...writer.lines, `  return ${writer.as(result, "float")};`];
  const body = lines.some((line) => line.includes("double"))
    ? ["#ifdef cl_khr_fp64", ...lines, "#else", `  return ${name}(${names.join(", ")});`, "#endif"]
    : lines;
  const parameters = names.map((parameter) => `${type} ${parameter}`).join(", ");
  return [`inline ${type} ${name}_${width}(${parameters}) {`, ...body, "}"].join("\n");
}

/** Most programs call few of them. */
function onceAsked(write: () => string): () => string {
  let text: string | null = null;
  return () => text ??= write();
}

/** The texts by name, `exp_16` and `exp_1`; each calls those before it. */
export const laneHelpers: Readonly<Record<string, Helper>> = {
  // Payne and Hanek's reduction, as in `cpu/wasm/large_angles.ts`, which says how: the product of an
  // angle with 96 bits of 2 / pi, modulo 4, in units of 2^-62, and `quarters` more. `bits` of it are periods.
  large_angle_1: `inline float large_angle_1(float x, int bits, int quarters, int* odd) {
  const ulong digits[7] = { 0x000000a2UL, 0xf9836e4eUL, 0x441529fcUL, 0x2757d1f5UL, 0x34ddc0dbUL, 0x6295993cUL, 0x439041feUL };
  const uint size = as_uint(x) & 0x7fffffffu, exponent = size >> 23;
  const int byte = (int)((exponent >> 3) & 15u), word = byte >> 2, skip = 8 * (byte & 3);
  const ulong scaled = (ulong)(((size & 0x7fffffu) | 0x800000u) << (exponent & 7u));
  const ulong first = ((digits[word] << 32 | digits[word + 1]) << skip) >> 32;
  const ulong second = ((digits[word + 1] << 32 | digits[word + 2]) << skip) >> 32;
  const ulong third = ((digits[word + 2] << 32 | digits[word + 3]) << skip) >> 32;
  const ulong turns = (scaled * first << 32) + scaled * second + (scaled * third >> 32) + ((ulong)quarters << 62);
  const ulong rounded = turns + (1UL << (63 - bits));
  *odd = (int)((uint)(rounded >> 32) << (bits - 1));
  const long rest = (long)(turns << bits);
#ifdef cl_khr_fp64
  const float angle = (float)((double)rest * (3.141592653589793 / (bits == 1 ? 18446744073709551616.0 : 36893488147419103232.0)));
#else
  const float angle = (float)rest * (bits == 1 ? 1.7030318e-19f : 8.515159e-20f);
#endif
  return size < 0x7f800000u ? as_float(as_int(angle) ^ (as_int(x) & INT_MIN)) : NAN;
}`,
  large_angle_16: `inline float16 large_angle_16(float16 x, int bits, int quarters, int16* odd) {
  float lanes[16];
  int periods[16];
  vstore16(x, 0, lanes);
  for (int k = 0; k < 16; ++k) lanes[k] = large_angle_1(lanes[k], bits, quarters, &periods[k]);
  *odd = vload16(0, periods);
  return vload16(0, lanes);
}`,
  ...Object.fromEntries(
    (Object.keys(functions) as FunctionName[]).flatMap((name) =>
      ([16, 1] as const).map((
        width,
      ) => [`${name}_${width}`, onceAsked(() => helperText(name, width))])
    ),
  ),
};
