/** How generated kernels are written in JavaScript. */
import { type DType, dtypes } from "../../graph/dtype.ts";
import { type Dialect, Emitter } from "../../codegen/emit.ts";
import type { Reduction } from "../../kernel/kernel.ts";
import { renderJS } from "../../kernel/primitives.ts";
import { identityText } from "../../codegen/rows.ts";

/** A number as JavaScript text of the compute type of `dtype`. */
export function literal(value: number, dtype: DType): string {
  if (dtype === "int64") return `${BigInt(Math.trunc(value))}n`;
  return Object.is(value, -0) ? "-0" : `${value}`;
}

/** An element of a buffer in its compute type. */
export function loadText(buffer: string, dtype: DType, index: string): string {
  return dtype === "bfloat16" ? `fromBfloat16Bits(${buffer}[${index}])` : `${buffer}[${index}]`;
}

/** A statement that stores a value of compute type in a buffer. */
export function storeText(buffer: string, dtype: DType, index: string, value: string): string {
  const text = dtype === "bfloat16" ? `toBfloat16Bits(${value})` : value;
  return `${buffer}[${index}] = ${text};`;
}

const extremes: Partial<Record<DType, readonly [low: string, high: string]>> = {
  int32: ["-2147483648", "2147483647"],
  int64: ["-9223372036854775808n", "9223372036854775807n"],
  uint8: ["0", "255"],
  bool: ["0", "1"],
};

/** Functions of float32 whose results are numbers of float32. */
const exact = new Set(
  "neg abs sign floor ceil trunc round roundFloat16 roundBfloat16 maximum minimum where".split(" "),
);

/** A result in the precision of its type: JavaScript computes in doubles. */
function rounded(text: string, dtype: DType): string {
  return dtypes[dtype].kind === "float" && dtype !== "float64" ? `Math.fround(${text})` : text;
}

/** The scalar function that joins partial results. */
export const joins = { sum: "add", prod: "mul", max: "maximum", min: "minimum" } as const;

/** The dialect; `accumulatorOf` gives the accumulator type of arg-reductions. */
export function scriptDialect(accumulatorOf: (reduction: Reduction) => DType): Dialect {
  return {
    declare: (_, name, text) => `const ${name} = ${text};`,
    declareIndex: (name, text) => `const ${name} = ${text};`,
    declareMutableIndex: (name, text) => `let ${name} = ${text};`,
    declareMutable: (_, name, text) => `let ${name} = ${text};`,
    loopHead: (name, start, end, step) =>
      `for (let ${name} = ${start}, e${name} = ${end}; ${name} < e${name}; ${
        step === undefined ? `++${name}` : `${name} += ${step}`
      }) {`,
    smaller: (a, b) => `Math.min(${a}, ${b})`,
    load: (input, dtype, index) => loadText(`a${input}`, dtype, index),
    store: (output, dtype, index, value) => storeText(`o${output}`, dtype, index, value),
    primitive: (fn, args, dtype, result) => {
      const text = renderJS(fn, args, dtype, result);
      return exact.has(fn) ? text : rounded(text, result);
    },
    cast: (text, from, to) => from === to ? text : rounded(castText(text, from, to), to),
    constant: literal,
    indexValue: (index, dtype) => dtype === "int64" ? `BigInt(${index})` : `(${index})`,
    random: (index, seed, stream) => `philox(${index}, ${seed}, ${stream})`,
    checkedIndex: (value, size, op) => `checkedIndex(Number(${value}), ${size}, ${op})`,
    identity: (reduction) => identityText(reduction, accumulatorOf(reduction), literal, extremes),
    sumsWide: (dtype) => dtype !== "float64",
    accumulate: (reduction, acc, value, index) => {
      const dtype = accumulatorOf(reduction);
      if (!Emitter.isArg(reduction)) {
        const fn = joins[reduction.fn as keyof typeof joins];
        return [`${acc} = ${renderJS(fn, [acc, value], dtype, dtype)};`];
      }
      const better = reduction.fn === "argmax" ? ">" : "<";
      const test = `${value} ${better} ${acc}v || (${value} !== ${value} && ${acc}v === ${acc}v)`;
      return [`if (${acc}i < 0 || ${test}) { ${acc}v = ${value}; ${acc}i = ${index}; }`];
    },
    total: rounded,
    argResult: (acc, dtype) => dtype === "int64" ? `BigInt(${acc}i)` : `${acc}i`,
  };
}

function castText(text: string, from: DType, to: DType): string {
  if (to === "bool") {
    return from === "int64" ? `(${text} !== 0n ? 1 : 0)` : `(${text} !== 0 ? 1 : 0)`;
  }
  if (from === "int64") {
    if (to === "int64") return text;
    if (to === "int32") return `Number(BigInt.asIntN(32, ${text}))`;
    return to === "uint8" ? `Number(BigInt.asUintN(8, ${text}))` : `Number(${text})`;
  }
  if (to === "int64") {
    return dtypes[from].kind === "float" ? `toBigInt(${text})` : `BigInt(${text})`;
  }
  if (to === "int32") return dtypes[from].kind === "float" ? `toInt32(${text})` : text;
  return to === "uint8" ? `(${text} & 255)` : text;
}
