/** OpenCL C, the language of generated kernels. */
import { type DType, dtypes, isFloat } from "../../graph/dtype.ts";
import type { Dialect } from "../../codegen/emit.ts";
import {
  type ArgReduceFn,
  combinerOf,
  isArgReduction,
  type JoinFn,
  prefersLarger,
} from "../../graph/reductions.ts";
import { decodedText } from "./math/decoding.ts";
import { renderHostScalar, renderScalar } from "./scalar_primitives.ts";
import { computeType, literal, loadText, storeText } from "./types.ts";

/** Two partial results of a reduction joined, as an expression. */
export function combineText(fn: JoinFn, dtype: DType, a: string, b: string): string {
  if (fn === "sum") return `${a} + ${b}`;
  if (fn === "prod") return `${a} * ${b}`;
  return renderScalar(combinerOf(fn), [a, b], dtype, dtype);
}

/** The condition under which an arg-reduction prefers (b, j) to (a, i): NaN first, then position. */
export function prefersText(fn: ArgReduceFn, dtype: DType, a: string, b: string): string {
  const [better, worse] = prefersLarger(fn) ? [">", "<="] : ["<", ">="];
  // "Not worse or equal" holds for NaN too: two comparisons, not three (a max-pooling's backward on
  // PoCL takes 0.8 times as long). Compilers warn of integers that are compared with themselves.
  return isFloat(dtype) ? `(!(${b} ${worse} ${a}) & (${a} == ${a}))` : `(${b} ${better} ${a})`;
}

/** A work-item of a GPU asks for several elements before it waits for the first. */
const UNROLLED = "#pragma unroll 4\n";

/** The dialect. */
export function openclDialect(isGpu: boolean): Dialect {
  return {
    declare: (dtype, name, text) => `const ${computeType(dtype)} ${name} = ${text};`,
    declareIndex: (name, text) => `const Index ${name} = ${text};`,
    declareMutableIndex: (name, text) => `Index ${name} = ${text};`,
    declareMutable: (dtype, name, text) => `${computeType(dtype)} ${name} = ${text};`,
    loopHead: (name, start, end, step) =>
      `${
        isGpu && step === undefined ? UNROLLED : ""
      }for (Index ${name} = ${start}, e${name} = ${end}; ${name} < e${name}; ${
        step === undefined ? `++${name}` : `${name} += ${step}`
      }) {`,
    smaller: (a, b) => `min(${a}, ${b})`,
    load: ({ input, dtype, packed }, index, blocks) =>
      packed
        ? decodedText(packed.format, `a${input}`, index, blocks)
        : loadText(`a${input}`, dtype, index),
    store: (output, dtype, index, value) => storeText(`o${output}`, dtype, index, value),
    primitive: isGpu ? renderScalar : renderHostScalar,
    cast: castText,
    constant: literal,
    indexValue: indexText,
    random: (index, seed, stream) => `philox((ulong)(${index}), (uint)${seed}, (uint)${stream})`,
    checkedIndex: (value, size, op) => `checked_index((long)${value}, ${size}, (int)${op}, errors)`,
    // NVIDIA does, whatever the statements; a CPU's compiler keeps to one.
    contracts: isGpu,
    sumsWide: () => false,
    accumulate: (fn, dtype, acc, value, index) => {
      if (!isArgReduction(fn)) return [`${acc} = ${combineText(fn, dtype, acc, value)};`];
      const better = prefersText(fn, dtype, `${acc}v`, value);
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

/** An index as a number of a type. */
export function indexText(index: string, dtype: DType): string {
  return dtype === "int64" ? `widened(${index})` : `(${computeType(dtype)})(${index})`;
}

/** A number of one type as one of another. */
export function castText(text: string, from: DType, to: DType): string {
  if (to === "bool") return `(uchar)(${text} != 0)`;
  if (from === "int32" && to === "int64") return `widened(${text})`;
  const [source, target] = [computeType(from), computeType(to)];
  if (source === target) return text;
  // A C cast of a float that the type does not hold is undefined.
  if (dtypes[from].kind === "float" && dtypes[to].kind === "int") {
    return `${target}_of_${source}(${text})`;
  }
  return `(${target})${text}`;
}
