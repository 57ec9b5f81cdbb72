/** How generated kernels are written in OpenCL C. */
import { type DType, dtypes, isFloat } from "../../graph/dtype.ts";
import { type Dialect, Emitter } from "../../codegen/emit.ts";
import type { Reduction } from "../../kernel/kernel.ts";
import { renderCL } from "../../kernel/primitives.ts";
import { identityText } from "../../codegen/rows.ts";

/** A number as OpenCL C text of the compute type of `dtype`. */
export function literal(value: number, dtype: DType): string {
  const { kind, clCompute } = dtypes[dtype];
  if (kind !== "float") return clCompute === "long" ? `${value}L` : `(${clCompute})${value}`;
  if (Number.isNaN(value)) return `(${clCompute})NAN`;
  if (!Number.isFinite(value)) {
    return value > 0 ? `(${clCompute})INFINITY` : `(-(${clCompute})INFINITY)`;
  }
  if (Object.is(value, -0)) return `(-${literal(0, dtype)})`;
  const text = Number.isInteger(value) && Math.abs(value) < 1e15 ? `${value}.0` : `${value}`;
  return clCompute === "double" ? text : `${text}f`;
}

/** An element of a buffer in its compute type. */
export function loadText(buffer: string, dtype: DType, index: string): string {
  if (dtype === "float16") return `vload_half(${index}, ${buffer})`;
  if (dtype === "bfloat16") return `from_bfloat16(${buffer}[${index}])`;
  return `${buffer}[${index}]`;
}

/** A statement that stores a value of compute type in a buffer. */
export function storeText(buffer: string, dtype: DType, index: string, value: string): string {
  if (dtype === "float16") return `vstore_half(${value}, ${index}, ${buffer});`;
  if (dtype === "bfloat16") return `${buffer}[${index}] = to_bfloat16(${value});`;
  return `${buffer}[${index}] = ${value};`;
}

const extremes: Partial<Record<DType, readonly [low: string, high: string]>> = {
  int32: ["INT_MIN", "INT_MAX"],
  int64: ["LONG_MIN", "LONG_MAX"],
  uint8: ["(uchar)0", "(uchar)255"],
  bool: ["(uchar)0", "(uchar)1"],
};

/** Two partial results of a reduction joined, as an expression. */
export function combineText(reduction: Reduction, dtype: DType, a: string, b: string): string {
  switch (reduction.fn) {
    case "sum":
      return `${a} + ${b}`;
    case "prod":
      return `${a} * ${b}`;
    case "max":
      return renderCL("maximum", [a, b], dtype, dtype);
    case "min":
      return renderCL("minimum", [a, b], dtype, dtype);
    default:
      throw new Error(`Cannot combine ${reduction.fn} in one expression`);
  }
}

/** The condition under which an arg-reduction prefers (b, j) to (a, i): NaN first, then position. */
export function prefersText(reduction: Reduction, dtype: DType, a: string, b: string): string {
  const better = `(${b} ${reduction.fn === "argmax" ? ">" : "<"} ${a})`;
  // Compilers warn of integers that are compared with themselves.
  return isFloat(dtype) ? `(${better} | ((${b} != ${b}) & (${a} == ${a})))` : better;
}

/** A work-item of a GPU asks for several elements before it waits for the first. */
const UNROLLED = "#pragma unroll 4\n";

/** The dialect; `accumulatorOf` gives the accumulator type of arg-reductions. */
export function openclDialect(
  accumulatorOf: (reduction: Reduction) => DType,
  isGpu: boolean,
): Dialect {
  const compute = (dtype: DType): string => dtypes[dtype].clCompute;
  return {
    declare: (dtype, name, text) => `const ${compute(dtype)} ${name} = ${text};`,
    declareIndex: (name, text) => `const Index ${name} = ${text};`,
    declareMutableIndex: (name, text) => `Index ${name} = ${text};`,
    declareMutable: (dtype, name, text) => `${compute(dtype)} ${name} = ${text};`,
    loopHead: (name, start, end, step) =>
      `${
        isGpu && step === undefined ? UNROLLED : ""
      }for (Index ${name} = ${start}, e${name} = ${end}; ${name} < e${name}; ${
        step === undefined ? `++${name}` : `${name} += ${step}`
      }) {`,
    smaller: (a, b) => `min(${a}, ${b})`,
    load: (input, dtype, index) => loadText(`a${input}`, dtype, index),
    store: (output, dtype, index, value) => storeText(`o${output}`, dtype, index, value),
    primitive: renderCL,
    cast: castText,
    constant: literal,
    indexValue: indexText,
    random: (index, seed, stream) => `philox((ulong)(${index}), (uint)${seed}, (uint)${stream})`,
    checkedIndex: (value, size, op) => `checked_index((long)${value}, ${size}, (int)${op}, errors)`,
    identity: (reduction) => identityText(reduction, accumulatorOf(reduction), literal, extremes),
    sumsWide: () => false,
    accumulate: (reduction, acc, value, index) => {
      const dtype = accumulatorOf(reduction);
      if (!Emitter.isArg(reduction)) {
        return [`${acc} = ${combineText(reduction, dtype, acc, value)};`];
      }
      const better = prefersText(reduction, dtype, `${acc}v`, value);
      // Without branches, so that short loops become straight code for several elements at once.
      return [
        `{ const int better = (${acc}i < 0) | ${better};`,
        `${acc}v = better ? ${value} : ${acc}v; ${acc}i = better ? ${index} : ${acc}i; }`,
      ];
    },
    total: (text) => text,
    argResult: (acc, dtype) => indexText(`${acc}i`, dtype),
  };
}

function indexText(index: string, dtype: DType): string {
  return dtype === "int64" ? `widened(${index})` : `(${dtypes[dtype].clCompute})(${index})`;
}

function castText(text: string, from: DType, to: DType): string {
  if (to === "bool") return `(uchar)(${text} != 0)`;
  if (from === "int32" && to === "int64") return `widened(${text})`;
  const [source, target] = [dtypes[from].clCompute, dtypes[to].clCompute];
  if (source === target) return text;
  // A C cast of a float that the type does not hold is undefined.
  if (dtypes[from].kind === "float" && dtypes[to].kind === "int") {
    return `${target}_of_${source}(${text})`;
  }
  return `(${target})${text}`;
}
