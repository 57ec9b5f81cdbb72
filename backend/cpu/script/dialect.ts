/** JavaScript, the language of generated kernels. */
import { type DType, dtypes } from "../../graph/dtype.ts";
import type { Dialect } from "../../codegen/emit.ts";
import { primitives } from "../../graph/primitives.ts";
import { combinerOf, isArgReduction, prefersLarger } from "../../graph/reductions.ts";
import { renderScript, wrapped } from "./primitives.ts";

/** A number as JavaScript text of the compute type of `dtype`. */
export function literal(value: number | bigint, dtype: DType): string {
  if (dtype === "int64") return `${typeof value === "bigint" ? value : BigInt(Math.trunc(value))}n`;
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

/** A result in the precision of its type: JavaScript computes in doubles. */
function rounded(text: string, dtype: DType): string {
  return dtypes[dtype].kind === "float" && dtype !== "float64" ? `Math.fround(${text})` : text;
}

/** The dialect. */
export const scriptDialect: Dialect = {
  declare: (_, name, text) => `const ${name} = ${text};`,
  declareIndex: (name, text) => `const ${name} = ${text};`,
  declareMutableIndex: (name, text) => `let ${name} = ${text};`,
  declareMutable: (_, name, text) => `let ${name} = ${text};`,
  loopHead: (name, start, end, step) =>
    `for (let ${name} = ${start}, e${name} = ${end}; ${name} < e${name}; ${
      step === undefined ? `++${name}` : `${name} += ${step}`
    }) {`,
  smaller: (a, b) => `Math.min(${a}, ${b})`,
  load: ({ input, dtype, packed }, index, blocks) =>
    packed
      ? `hostBlocks("${packed.format}").element(a${input}, ${blocks}, ${index})`
      : loadText(`a${input}`, dtype, index),
  store: (output, dtype, index, value) => storeText(`o${output}`, dtype, index, value),
  primitive: (fn, args, dtype, result) => {
    const text = renderScript(fn, args, dtype, result);
    return primitives[fn].isExact ? text : rounded(text, result);
  },
  cast: (text, from, to) => from === to ? text : rounded(castText(text, from, to), to),
  constant: literal,
  indexValue: (index, dtype) => dtype === "int64" ? `BigInt(${index})` : `(${index})`,
  random: (index, seed, stream) => `philox(${index}, ${seed}, ${stream})`,
  checkedIndex: (value, size, op) => `checkedIndex(Number(${value}), ${size}, ${op})`,
  contracts: false,
  sumsWide: (dtype) => dtype !== "float64",
  accumulate: (fn, dtype, acc, value, index) => {
    if (!isArgReduction(fn)) {
      return [`${acc} = ${renderScript(combinerOf(fn), [acc, value], dtype, dtype)};`];
    }
    const better = prefersLarger(fn) ? ">" : "<";
    const test = `${value} ${better} ${acc}v || (${value} !== ${value} && ${acc}v === ${acc}v)`;
    return [`if (${acc}i < 0 || ${test}) { ${acc}v = ${value}; ${acc}i = ${index}; }`];
  },
  total: rounded,
  argResult: (acc, dtype) => dtype === "int64" ? `BigInt(${acc}i)` : `${acc}i`,
};

function castText(text: string, from: DType, to: DType): string {
  if (to === "bool") {
    return from === "int64" ? `(${text} !== 0n ? 1 : 0)` : `(${text} !== 0 ? 1 : 0)`;
  }
  if (from === "int64") {
    if (to === "int64") return text;
    if (to === "uint32") return `Number(BigInt.asUintN(32, ${text}))`;
    if (to === "int32") return `Number(BigInt.asIntN(32, ${text}))`;
    return to === "uint8" ? `Number(BigInt.asUintN(8, ${text}))` : `Number(${text})`;
  }
  if (to === "int64") {
    return dtypes[from].kind === "float" ? `toBigInt(${text})` : `BigInt(${text})`;
  }
  if (to === "int32") return dtypes[from].kind === "float" ? `toInt32(${text})` : text;
  return to === "uint8" || dtypes[to].computedIn ? wrapped(text, to) : text;
}
