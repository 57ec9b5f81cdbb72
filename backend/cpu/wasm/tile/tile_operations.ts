/** Operations of tile programs as WebAssembly: a table of them, with the few instructions of each. */
import type { DType } from "../../../graph/dtype.ts";
import type { PrimitiveName } from "../../../graph/primitives.ts";
import { nameParts } from "../../../tile/language/elements.ts";
import type { E, Place } from "../../../tile/language/expression.ts";
import type { FunctionBuilder, Local } from "../assembler.ts";
import { randomKey, uniform } from "../functions/random.ts";
import type { LaneAccess } from "../lanes.ts";
import { writeCast, writePrimitive } from "../loops/primitives.ts";
import type { VectorMath } from "../math.ts";
import { f32x4, i32, i32x4, v128 } from "../opcodes.ts";

/** The values around an operation, which are those of its operands. */
export interface Values {
  /** The function that they are computed in. */
  readonly f: FunctionBuilder;
  readonly math: VectorMath;
  readonly lanes: LaneAccess;
  /** The local of a value. */
  value(e: E): Local;
  /** A number in all lanes. */
  wide(e: E): Local;
  /** True for a condition of lanes, or of floats: all bits of a lane are set where it holds. */
  isMask(e: E): boolean;
  /** A condition as a mask of lanes. */
  mask(e: E): Local;
  /** A number times a constant. */
  times(value: Local, factor: number): Local;
  /** The address of an element, and what is constant of it. */
  address(place: Place, ...indices: readonly E[]): readonly [address: Local, offset: number];
  /** The place of an argument among them all, in bytes. */
  argumentAt(argument: E): number;
}

type Operation = (values: Values, e: E) => Local;

/** The instructions of each operation but loads, by its name. */
export const operations: Readonly<Record<string, Operation>> = {
  const: ({ f }, e) => e.kind === "float" ? f.float(e.value) : f.integer(e.value),
  loadPart: (values, { place, args: [index, count] }) => {
    const { f } = values;
    const all = values.lanes.loadFour("float32", 4, ...values.address(place!, index!));
    return f.v(v128.and, all, f.v(i32x4.ltS, laneNumbers(values), values.wide(count!)));
  },
  lanes: (values) => laneNumbers(values),
  splat: (values, { args: [a] }) => values.value(a!),
  everySecond: (values, { args: [a, b], value }) => {
    const lanes = [0, 2, 4, 6].map((lane) => lane + value);
    return values.f.shuffle32(values.value(a!), values.value(b!), lanes);
  },
  lanesFrom: (values, { args: [a], value }) => {
    const { f } = values, lanes = [0, 1, 2, 3].map((k) => Math.min(k + value, 4));
    return f.shuffle32(values.value(a!), f.splat(0), lanes);
  },
  laneSum: (values, { args: [a] }) => {
    const { f } = values, all = values.value(a!);
    const halves = f.v(f32x4.add, all, f.shuffle32(all, all, [2, 3, 0, 1]));
    return f.v(f32x4.add, halves, f.shuffle32(halves, halves, [1, 0, 3, 2]));
  },
  within: whole(i32.ltU),
  and: (values, e) => both(values, e, "and"),
  or: (values, e) => both(values, e, "or"),
  not: (values, e) => {
    const { f } = values, a = values.value(e.args[0]!);
    return values.isMask(e) ? f.v(v128.not, a) : f.i(i32.eq, a, f.integer(0));
  },
  any: (values, { args: [a] }) => values.f.anyTrue(values.value(a!)),
  above: vector(f32x4.gt),
  same: vector(f32x4.eq),
  larger: vector(f32x4.pmax),
  primitive: (values, e) => {
    const [fn, from, to] = nameParts(e) as [PrimitiveName, DType, DType];
    const args = e.args.map((a) => values.wide(a));
    return writePrimitive(values.f, values.math, fn, args, from, to);
  },
  cast: (values, e) => {
    const [from, to] = nameParts(e) as [DType, DType];
    return writeCast(values.f, values.math, values.wide(e.args[0]!), from, to);
  },
  random,
  quotient: whole(i32.divU),
  remainder: whole(i32.remU),
  sum: (values, e) => e.width === 1 ? sum(values, e) : wideSum(values, e),
  product: (values, { args }) =>
    args.map((a) => values.value(a)).reduce((a, b) => values.f.i(i32.mul, a, b)),
  "+": (values, { args: [a, b], width }) =>
    width === 1
      ? values.f.iWith(i32.add, values.value(a!), b!.value)
      : values.f.v(i32x4.add, values.wide(a!), values.wide(b!)),
  "/": (values, e) => shifted(values, e, Math.log2(e.args[1]!.value)),
  "%": (values, e) => {
    const { f } = values, by = e.args[1]!.value, a = values.value(e.args[0]!);
    if (!Number.isInteger(Math.log2(by))) return f.i(i32.remU, a, values.value(e.args[1]!));
    return e.width === 1 ? f.iWith(i32.and, a, by - 1) : f.v(v128.and, a, f.splat(by - 1));
  },
  words: (values, e) => values.f.iWith(i32.and, whole(i32.shrU)(values, e), e.value),
  ">>": whole(i32.shrU),
  bit,
  laneBits: (values, e) => {
    const { f } = values, word = f.v(i32x4.splat, whole(i32.shrU)(values, e));
    const bits = f.v(v128.and, word, f.lanes([1, 2, 4, 8]));
    return f.v(v128.and, f.v(i32x4.ne, bits, f.splat(0)), f.splat(1));
  },
  min: (values, { args: [a, b] }) => values.f.smaller(values.value(a!), values.value(b!)),
  "<": (values, e) =>
    e.width === 1
      ? less(values, e)
      : values.f.v(i32x4.ltS, values.wide(e.args[0]!), values.wide(e.args[1]!)),
  "?": (values, { args, width, kind }) => {
    const [condition, a, b] = args as readonly [E, E, E], { f } = values;
    return width === 1 && kind !== "float"
      ? f.choose(values.value(condition), values.value(a), values.value(b))
      : f.v(v128.bitselect, values.wide(a), values.wide(b), values.mask(condition));
  },
  signed: (values, { args: [a] }) => {
    const { f } = values;
    return f.iWith(i32.shrS, f.iWith(i32.shl, values.value(a!), 24), 24);
  },
  float: (values, { args: [a] }) => values.f.v(f32x4.convert, values.wide(a!)),
  fromHalf: (values, { args: [a] }) => values.math.fromFloat16(values.wide(a!)),
  fadd: vector(f32x4.add),
  fmul: vector(f32x4.mul),
  fma: (values, { args }) =>
    values.math.madd(...args.map((a) => values.value(a)) as [Local, Local, Local]),
  dot: vector(i32x4.dot),
  nearest: (values, { args: [a] }) => {
    const { f } = values;
    return f.v(i32x4.truncate, f.v(f32x4.nearest, values.value(a!)));
  },
  lane: (values, { args: [a], kind, value }) => {
    const { f } = values, all = values.value(a!);
    if (kind !== "float") return f.laneOf(all, value);
    return f.shuffle32(all, all, new Array<number>(4).fill(value));
  },
};

/** An instruction for two whole numbers. */
function whole(instruction: number): Operation {
  return (values, { args: [a, b] }) => values.f.i(instruction, values.value(a!), values.value(b!));
}

/** An instruction for two vectors. */
function vector(instruction: number): Operation {
  return (values, { args: [a, b] }) => values.f.v(instruction, values.value(a!), values.value(b!));
}

const laneNumbers = ({ f }: Values): Local => f.lanes([0, 1, 2, 3]);

/** Two conditions, as numbers or as masks. */
function both(values: Values, e: E, op: "and" | "or"): Local {
  if (!values.isMask(e)) return whole(i32[op])(values, e);
  return values.f.v(v128[op], ...e.args.map((a) => values.mask(a)));
}

/** A sum: what is taken away comes last. */
function sum(values: Values, { args, factors }: E): Local {
  const { f } = values, order = [...args.keys()].sort((a, b) => factors[b]! - factors[a]!);
  return order.map((k) => ({ factor: factors[k]!, value: values.value(args[k]!) }))
    .reduce<Local | null>((sum, { value, factor }) => {
      if (sum === null) return values.times(value, factor);
      return f.i(factor < 0 ? i32.sub : i32.add, sum, values.times(value, Math.abs(factor)));
    }, null)!;
}

function wideSum(values: Values, { args, factors }: E): Local {
  const { f } = values;
  const times = (value: Local, factor: number): Local =>
    factor === 1 ? value : f.v(i32x4.mul, value, f.splat(factor));
  return args.map((a, k) => times(values.wide(a), factors[k]!))
    .reduce((a, b) => f.v(i32x4.add, a, b));
}

function less(values: Values, { args }: E): Local {
  const { f } = values, [left, right] = args as readonly [E, E], [core, offset] = partsOf(left);
  const isTaken = core.op === "sum" && core.factors.length === 1 && core.factors[0] === -1;
  return isTaken && isNumber(right, 0)
    ? f.i(i32.ltS, f.integer(offset), values.value(core.args[0]!))
    : f.i(i32.ltS, values.value(left), values.value(right));
}

function shifted(values: Values, e: E, by: number): Local {
  const { f } = values, a = values.value(e.args[0]!);
  if (!Number.isInteger(by)) return f.i(i32.divU, a, values.value(e.args[1]!));
  return e.width === 1 ? f.iWith(i32.shrU, a, by) : f.shift(i32x4.shrU, a, by);
}

function bit(values: Values, { args, width }: E): Local {
  const { f } = values, [a, index] = args.map((x) => values.value(x)) as [Local, Local];
  if (width === 1) return f.iWith(i32.and, f.i(i32.shrU, a, index), 1);
  const mask = f.v(i32x4.splat, f.i(i32.shl, f.integer(1), index));
  return f.v(v128.and, f.v(i32x4.ne, f.v(v128.and, a, mask), f.splat(0)), f.splat(1));
}

/** Random numbers: of the lanes of an index, or the same in all lanes. */
function random(values: Values, { args: [index, seed, stream, step], width }: E): Local {
  const { f } = values, first = values.wide(index!);
  const key = randomKey(f, values.argumentAt(seed!), values.argumentAt(stream!));
  if (width === 1) return uniform(f, first, key);
  const apart = f.v(i32x4.mul, laneNumbers(values), values.wide(step!));
  return uniform(f, f.v(i32x4.add, first, apart), key);
}

/** A number without a constant, and that. */
const partsOf = (e: E): readonly [core: E, offset: number] =>
  e.op === "+" ? [e.args[0]!, e.args[1]!.value] : [e, 0];

/** True for this constant. */
export const isNumber = ({ op, value }: E, number: number): boolean =>
  op === "const" && value === number;
