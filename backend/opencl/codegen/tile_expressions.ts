/**
 * Expressions of tile programs as OpenCL C: a table of operations, by the names that the language gives them.
 */
import type { DType } from "../../graph/dtype.ts";
import { fillTemplate, type PrimitiveName, textOf as formOf } from "../../graph/primitives.ts";
import type { ArgReduceFn } from "../../graph/reductions.ts";
import { nameParts } from "../../tile/language/elements.ts";
import type { E, Element, Kind, Place } from "../../tile/language/expression.ts";
import type { WordOperation } from "../../tile/language/values.ts";
import { castText, indexText, prefersText } from "./dialect.ts";
import { renderScalar } from "./scalar_primitives.ts";
import { computeType, laneText, laneValue, literal, loadText, vectorType } from "./types.ts";

/** Whole numbers that 31 bits do not hold are unsigned words. */
const isWord = ({ kind, range: [low, high] }: Pick<E, "kind" | "range">): boolean =>
  kind === "int" && low === 0 && high === 2 ** 32 - 1;

export function typeOf({ kind, width, range }: Pick<E, "kind" | "width" | "range">): string {
  const lanes = width > 1 ? `${width}` : "";
  switch (kind) {
    case "float":
      return `float${lanes}`;
    case "bool":
      return `int${lanes}`;
    case "word":
      return "uint";
    case "int":
      return isWord({ kind, range }) ? `uint${lanes}` : width > 1 ? `int${lanes}` : "Index";
    default:
      return width > 1 ? vectorType(kind, width) : computeType(kind);
  }
}

export const scalarType = (kind: Kind): string => typeOf({ kind, width: 1, range: [0, 0] });

/** A scalar as a vector, where a function wants all of one width. */
const wide = (e: E, width: number): string =>
  e.width === width ? textOf(e) : `(${typeOf({ ...e, width })})(${textOf(e)})`;

/** Converts the rest of a word to a number. */
function narrowed(e: E, text: string): string {
  if (!isWord(e.args[0]!) || isWord(e)) return `(${text})`;
  return e.width > 1 ? `convert_int${e.width}(${text})` : `(int)(${text})`;
}

const laneNumbers = (type: string, width: number): string =>
  `(${type}${width})(${Array.from({ length: width }, (_, k) => k).join(", ")})`;

/** A whole number beside vectors, which are of 32 bits. */
const whole = (a: E, { width }: E): string =>
  width > 1 && a.width === 1 ? `(int)(${textOf(a)})` : textOf(a);

/** A condition beside those of vectors, of which the highest bit says. */
const condition = (a: E, { width }: E): string =>
  width > 1 && a.width === 1 ? `-(${textOf(a)})` : textOf(a);

/** A number of 16 bits in all lanes, where a vector is of such. */
const short = (a: E, { width }: E): string =>
  a.width === width ? textOf(a) : `(short)(${textOf(a)})`;

/** Lanes of the vectors of 16 bits that OpenCL C has no type for. */
const WIDEST = 32;

/** Operations on vectors of numbers of 16 bits. */
const shortOperations: Readonly<Record<string, (e: E) => string>> = {
  load: ({ place, args, width }) => {
    const { buffer, space, element } = place!, type = elements[element];
    const pointer = space === "global" ? `((global const ${type}*)${buffer})` : buffer;
    const from = `${pointer} + ${args.map(textOf).join(" + ")}`;
    if (width === WIDEST) return `load_short32(${from})`;
    const all = `vload${width}(0, ${from})`;
    return element === "int16" ? all : `convert_short${width}(${all})`;
  },
  "%": (e) => `(${textOf(e.args[0]!)} & (short)${e.args[1]!.value - 1})`,
  ">>": (e) => `(${e.args.map((a) => short(a, e)).join(" >> ")})`,
  sum: (e) =>
    `(${
      e.args.map((a, k) =>
        e.factors[k] === 1 ? short(a, e) : `${short(a, e)} * (short)${e.factors[k]}`
      )
        .join(" + ")
    })`,
  laneBits: ({ args: [a, first], width }) =>
    `(-(((short${width})(short)(${textOf(a!)} >> ${textOf(first!)}) & ${
      bitsOfLanes(width)
    }) != (short)0) & (short)1)`,
  short: ({ args: [a], width }) => `convert_short${width}(${textOf(a!)})`,
  repeated: ({ args: [a], width }) => `pair_short${width}(${textOf(a!)})`,
};

const bitsOfLanes = (width: number): string =>
  `(short${width})(${Array.from({ length: width }, (_, k) => 2 ** k << 16 >> 16).join(", ")})`;

const chain = (operator: string) => (e: E): string => `(${e.args.map(textOf).join(operator)})`;

/** An operation as text. */
const operations: Readonly<Record<string, (e: E) => string>> = {
  const: (e) => e.kind === "float" ? literal(e.value, "float32") : `${e.value}`,
  var: (e) => e.name,
  register: (e) => e.name,
  "+": (e) => `(${e.args.map((a) => whole(a, e)).join(" + ")})`,
  sum: (e) =>
    `(${
      e.args.map((a, k) => e.factors[k] === 1 ? whole(a, e) : `${whole(a, e)} * ${e.factors[k]}`)
        .join(" + ")
    })`,
  product: chain(" * "),
  "/": (e) => narrowed(e, `${textOf(e.args[0]!)} ${quotient(e.args[1]!.value)}`),
  "%": (e) => narrowed(e, `${textOf(e.args[0]!)} ${remainder(e.args[1]!.value)}`),
  ">>": chain(" >> "),
  "^": chain(" ^ "),
  pair: ({ args: [low, high] }) => `((uint)${textOf(low!)} | (uint)${textOf(high!)} << 16)`,
  bit: (e) => narrowed(e, `(${textOf(e.args[0]!)} >> ${textOf(e.args[1]!)}) & 1`),
  laneBits: ({ args: [a, first], width }) =>
    `convert_int${width}(((uint${width})(${textOf(a!)} >> ${textOf(first!)}) >> ${
      laneNumbers("uint", width)
    }) & 1)`,
  lanes: (e) => laneNumbers("int", e.width),
  min: (e) => `min((Index)${textOf(e.args[0]!)}, (Index)${textOf(e.args[1]!)})`,
  "<": chain(" < "),
  within: ({ args }) => args.map((a) => `(unsigned Index)(${textOf(a)})`).join(" < "),
  "?": (e) =>
    `(${textOf(e.args[0]!)} ? ${wide(e.args[1]!, e.width)} : ${wide(e.args[2]!, e.width)})`,
  not: ({ args: [a] }) => `!${textOf(a!)}`,
  above: chain(" > "),
  same: chain(" == "),
  any: ({ args: [a] }) => `any_16(${textOf(a!)})`,
  splat: ({ args: [a], width }) => `(float${width})(${textOf(a!)})`,
  signed: (e) => `(int)(char)(${textOf(e.args[0]!)})`,
  float: (e) => `convert_float${e.width > 1 ? e.width : ""}(${textOf(e.args[0]!)})`,
  fromHalf: (e) =>
    e.width > 1
      ? `from_float16_${e.width}(convert_ushort${e.width}(${textOf(e.args[0]!)}))`
      : `from_float16((ushort)(${textOf(e.args[0]!)}))`,
  fadd: chain(" + "),
  fmul: chain(" * "),
  fma: (e) => `fma(${e.args.map((a) => wide(a, e.width)).join(", ")})`,
  exp2: ({ args: [a] }) => `MMA_EXP2(${textOf(a!)})`,
  larger: ({ args, width }) => {
    const [a, b] = args.map(textOf) as [string, string];
    return width > 1 ? `select(${a}, ${b}, ${b} > ${a})` : `fmax(${a}, ${b})`;
  },
  packed: ({ name, args: [low, high] }) =>
    `MMA_PAIR_${halfNames[name]}(${textOf(low!)}, ${textOf(high!)})`,
  lanesFrom: ({ args: [a], value, width }) => {
    const at = (k: number): string => k < width ? `${textOf(a!)}.s${k.toString(16)}` : "0";
    return `(float${width})(${Array.from({ length: width }, (_, k) => at(k + value)).join(", ")})`;
  },
  interleaved: ({ args, value, width }) => {
    const [a, b] = args.map(textOf) as [string, string];
    const at = (k: number): string => (value * width / 2 + k).toString(16);
    const pairs = Array.from({ length: width / 2 }, (_, k) => `${a}.s${at(k)}, ${b}.s${at(k)}`);
    return `(float${width})(${pairs.join(", ")})`;
  },
  laneSum: ({ args: [a] }) => `sum_float${a!.width}(${textOf(a!)})`,
  words: (e) => wordText[e.name as WordOperation](e.args.map(textOf), e.value),
  unpacked: (e) => unpackedText[e.name]!(textOf(e.args[0]!), e.value),
  dot: ({ args }) => `dot_short${args[0]!.width}(${args.map(textOf).join(", ")})`,
  nearest: ({ args: [a], width }) => `convert_int${width > 1 ? width : ""}_rte(${textOf(a!)})`,
  lane: (e) => `${textOf(e.args[0]!)}.s${e.value.toString(16)}`,
  load: loadOf,
  loadBetween: ({ place, args: [first, low, high] }) =>
    `load_between_float(${place!.buffer} + ${textOf(first!)}, ${textOf(low!)}, ${textOf(high!)})`,
  everySecond: ({ args, value, width }) => {
    const part = value === 0 ? "even" : "odd";
    return `(float${width})(${args.map((a) => `${textOf(a)}.${part}`).join(", ")})`;
  },
  loadPart: ({ place, args: [first, count], value }) => {
    const from = `${place!.buffer} + ${textOf(first!)}`, end = textOf(count!);
    return value === 1
      ? `load_part_float(${from}, ${end})`
      : `load_apart_float(${from}, 0, ${end})`;
  },
  quotient: chain(" / "),
  remainder: chain(" % "),
  and: (e) => `(${e.args.map((a) => condition(a, e)).join(" & ")})`,
  or: chain(" | "),
  value: (e) => {
    const [dtype, number] = nameParts(e) as [DType, string];
    return literal(dtype === "int64" ? BigInt(number) : Number(number), dtype);
  },
  primitive: (e) => {
    const [fn, dtype, result] = nameParts(e) as [PrimitiveName, DType, DType];
    if (e.width > 1) return fillTemplate(formOf("lanes", fn, "float")!, e.args.map(textOf));
    return renderScalar(fn, e.args.map(textOf), dtype, result);
  },
  cast: (e) => {
    const [from, to] = nameParts(e) as [DType, DType];
    return castText(textOf(e.args[0]!), from, to);
  },
  index: (e) => indexText(textOf(e.args[0]!), e.name as DType),
  flag: (e) => `(uchar)${textOf(e.args[0]!)}`,
  random: ({ args: [index, seed, stream, step] }) => {
    const key = `(uint)${textOf(seed!)}, (uint)${textOf(stream!)}`,
      first = `(ulong)(${textOf(index!)})`;
    return step
      ? `philox_16(${first}, (ulong)(${textOf(step)}), ${key})`
      : `philox(${first}, ${key})`;
  },
  checked: ({ args: [a, size, operation] }) =>
    `checked_index((long)${textOf(a!)}, ${textOf(size!)}, (int)${textOf(operation!)}, errors)`,
  prefers: (e) => {
    const [fn, dtype] = nameParts(e) as [ArgReduceFn, DType];
    return prefersText(fn, dtype, textOf(e.args[0]!), textOf(e.args[1]!));
  },
  ties: ({ args }) => {
    const [a, b] = args.map(textOf);
    return `(!(${a} < ${b}) & !(${a} > ${b}) & ((${a} == ${a}) == (${b} == ${b})))`;
  },
  element: ({ place, args }) => {
    const { space, buffer, element } = place!, index = textOf(args.at(-1)!);
    const from = args.length > 1 ? `(${buffer} + ${textOf(args[0]!)})` : buffer;
    if (space === "global") return loadText(from, element as DType, index);
    return args.length > 1 ? `${from}[${index}]` : `${arrayText(place!)}[${index}]`;
  },
  neighbours: ({ place, kind, args }) =>
    `*(global const ${vectorType(kind as DType)}*)(${place!.buffer} + ${textOf(args[0]!)})`,
  neighbour: (e) => laneValue(e.name as DType, `${textOf(e.args[0]!)}.s${e.value}`),
  sideBySide: ({ kind, args }) => {
    const dtype = kind as DType, values = args.map((a) => laneText(dtype, textOf(a)));
    return `(${neighboursType(dtype, args.length)})(${values.join(", ")})`;
  },
};

/** Vector of so many neighbours as they lie in memory. */
export const neighboursType = (dtype: DType, width: number): string =>
  vectorType(dtype).replace(/\d+$/, `${width}`);

const isPower = (n: number): boolean => Number.isInteger(Math.log2(n));
const quotient = (n: number): string => isPower(n) ? `>> ${Math.log2(n)}` : `/ ${n}`;
const remainder = (n: number): string => isPower(n) ? `& ${n - 1}` : `% ${n}`;

const isShorts = ({ kind, width }: E): boolean => kind === "int16" && width > 1;

export function textOf(e: E): string {
  const operation = (isShorts(e) ? shortOperations : operations)[e.op] ?? operations[e.op];
  if (operation === undefined) throw new Error(`OpenCL C has no text for ${e.op}`);
  return operation(e);
}

export const halfNames: Readonly<Record<string, string>> = { float16: "F16", bfloat16: "BF16" };

/** Operations on the bits of words. */
const wordText: Readonly<Record<WordOperation, (args: string[], value: number) => string>> = {
  mask: ([word, by], mask) => `(${word}${by === "0" ? "" : ` >> ${by}`} & ${mask}u)`,
  flip: ([word], mask) => `(${word} ^ ${mask}u)`,
  left: ([word], by) => `((uint)${word} << ${by})`,
  join: ([a, b]) => `(${a} | ${b})`,
  spread: ([bits]) => `(${bits} * 0x204081u & 0x1010101u)`,
};

/** Elements of a word; bytes are the last bits of a float, whose conversion takes GPUs four times as long. */
const unpackedText: Readonly<Record<string, (word: string, at: number) => string>> = {
  float16: (word, at) => `from_float16((ushort)(${word} >> ${16 * at}))`,
  bfloat16: (word, at) => `as_float(${at === 0 ? `${word} << 16` : `${word} & 0xffff0000u`})`,
  uint8: (word, at) => `byte_float(${word}, ${at})`,
};

/** Names of elements in memory. */
const elements: Readonly<Partial<Record<Element, string>>> = {
  int32: "int",
  float32: "float",
  float16: "half",
  bfloat16: "ushort",
  uint8: "uchar",
  int8: "char",
  int16: "short",
  uint16: "ushort",
  uint32: "uint",
};

function loadOf({ place, args, width, value }: E): string {
  const { space, buffer, element } = place!, type = elements[element];
  const qualified = `${space === "ring" ? "local" : space} const`;
  const [index, base] = args.map(textOf).reverse() as [string, string | undefined];
  const begin = `((${qualified} ${type}*)${buffer})`;
  const pointer = base === undefined ? begin : `(${begin} + ${base})`;
  if (width === 1) {
    if (element === "float16") return `half_at(${pointer}, ${index})`;
    return element === "bfloat16" ? loadText(pointer, element, index) : `${pointer}[${index}]`;
  }
  const all = `vload${width}(0, ${pointer} + ${index})`;
  switch (element) {
    case "float32":
    case "uint32":
      // Some compilers read one by one what they do not know to be aligned.
      return value === 1 && width <= 4
        ? `*(${qualified} ${type}${width}*)(${pointer} + ${index})`
        : all;
    case "float16":
      if (width === 8 && space === "global") return `halves_8(${pointer} + ${index})`;
      return `vload_half${width}(0, ${pointer} + ${index})`;
    case "bfloat16":
      return `as_float${width}(convert_uint${width}(${all}) << 16)`;
    default:
      return `convert_int${width}(${all})`;
  }
}

/** An array by the elements of a place: a ring has bytes. */
export const arrayText = ({ space, buffer, element }: Place): string =>
  space === "ring" ? `((local ${elements[element]}*)${buffer})` : buffer;
