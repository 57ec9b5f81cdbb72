/** Attention kernels of several forms, their inputs, and the right values of their outputs. */
import { assert, assertEquals } from "@std/assert";
import { runAttention } from "../../backend/cpu/reference/reference_attention.ts";
import {
  type DType,
  dtypes,
  fromBfloat16Bits,
  toBfloat16Bits,
  type TypedArray,
} from "../../backend/graph/dtype.ts";
import type { AttentionKernel, HeadMatrix } from "../../backend/kernel/attention.ts";

/** Sizes and types of any attention. */
interface CommonCase {
  readonly dtype: "float32" | "float16" | "bfloat16";
  readonly heads: number;
  readonly queries: number;
  readonly keys: number;
  readonly features: number;
  readonly values: number;
  readonly isCausal?: boolean;
  readonly scale?: number;
}

export interface AttentionCase extends CommonCase {
  readonly dropout?: boolean;
  readonly mask?: boolean;
  readonly isHopper?: boolean;
  readonly isInterleaved?: boolean;
  /** The output is stored as it was added up, as gradients want it. */
  readonly isWide?: boolean;
}

/** A case of halves: heads, queries, keys, features, values. */
export function attentionCase(
  [heads, queries, keys, features, values]: readonly [number, number, number, number, number],
  options: Partial<AttentionCase> = {},
): AttentionCase {
  return { dtype: "float16", heads, queries, keys, features, values, ...options };
}

let state = 1;
export function draw(size: number, dtype: DType): TypedArray {
  const { bytes, view } = dtypes[dtype];
  const into = view(new ArrayBuffer(size * bytes), 0, size);
  for (let k = 0; k < size; k++) {
    state = state * 16807 % 2147483647;
    const value = dtype === "uint8" || dtype === "bool"
      ? Number(state % 3 > 0)
      : state / 1073741824 - 1;
    (into as Float32Array)[k] = dtype === "bfloat16" ? toBfloat16Bits(value) : value;
  }
  return into;
}

export function numbers(array: TypedArray, dtype: DType): Float64Array {
  return Float64Array.from(
    array as ArrayLike<number>,
    (v) => dtype === "bfloat16" ? fromBfloat16Bits(v) : v,
  );
}

function matrix(input: number, dtype: DType, rows: number, columns: number): HeadMatrix {
  return { input, dtype, offset: 0, lead: [rows * columns], row: columns, column: 1 };
}

export function kernelOf(each: AttentionCase, pass: "forward" | "backward"): AttentionKernel {
  const { dtype, heads, queries, keys, features, values, isCausal = false } = each;
  const isForward = pass === "forward", base = isForward ? 3 : 6;
  const mask = each.mask
    ? { kind: "bool" as const, at: { ...matrix(base, "bool", queries, keys), lead: [0] } }
    : null;
  const half = (rows: number, columns: number) => ({ dtype, size: heads * rows * columns });
  const inputs: DType[] = isForward
    ? [dtype, dtype, dtype]
    : [dtype, dtype, dtype, dtype, "float32", "float32"];
  return {
    kind: "attention",
    pass,
    inputs: mask ? [...inputs, "bool"] : inputs,
    outputs: isForward
      ? [{ ...half(queries, values), ...each.isWide && { dtype: "float32" } }, {
        dtype: "float32",
        size: heads * queries,
      }]
      : [half(queries, features), half(keys, features), half(keys, values)],
    stored: isForward ? [0, 1] : [0, 1, 2],
    lead: [heads],
    queries,
    keys,
    features,
    valueFeatures: values,
    query: matrix(0, dtype, queries, features),
    key: matrix(1, dtype, keys, features),
    value: matrix(2, dtype, keys, values),
    mask,
    filled: null,
    backward: isForward ? null : {
      gradient: matrix(3, dtype, queries, values),
      logSums: matrix(4, "float32", queries, 1),
      products: matrix(5, "float32", queries, 1),
    },
    scale: (each.scale ?? 1.5) / Math.sqrt(features),
    isCausal,
    isInterleaved: false,
    dropout: each.dropout ? { probability: 0.3, seed: 5, stream: { value: 9 } } : null,
    label: pass,
  };
}

/** The outputs as the plain evaluator has them. */
function reference(kernel: AttentionKernel, given: readonly TypedArray[]): TypedArray[] {
  const outputs = kernel.outputs.map(({ dtype, size }) =>
    dtypes[dtype].view(new ArrayBuffer(size * dtypes[dtype].bytes), 0, size)
  );
  runAttention(kernel, given, outputs);
  return outputs;
}

/** A pass of a case: its kernel, what it reads, and what it gives. */
export interface AttentionPass {
  readonly kernel: AttentionKernel;
  readonly inputs: readonly TypedArray[];
  readonly expected: readonly TypedArray[];
}

/** Both passes of a case. */
export function passesOf(each: AttentionCase): readonly [AttentionPass, AttentionPass] {
  state = 1;
  const { dtype, heads, queries, keys, features, values } = each;
  const masks = each.mask ? [draw(queries * keys, "bool")] : [];
  const inputs = [
    draw(heads * queries * features, dtype),
    draw(heads * keys * features, dtype),
    draw(heads * keys * values, dtype),
  ];
  const forward = kernelOf(each, "forward"), read = [...inputs, ...masks];
  const expected = reference(forward, read);
  const gradient = draw(heads * queries * values, dtype);
  const [out, g] = [
    numbers(expected[0]!, each.isWide ? "float32" : dtype),
    numbers(gradient, dtype),
  ];
  const products = Float32Array.from({ length: heads * queries }, (_, row) => {
    let sum = 0;
    for (let v = 0; v < values; v++) sum += out[row * values + v]! * g[row * values + v]!;
    return sum;
  });
  const backward = kernelOf(each, "backward");
  const given = [...inputs, gradient, expected[1]!, products, ...masks];
  return [
    { kernel: forward, inputs: read, expected },
    { kernel: backward, inputs: given, expected: reference(backward, given) },
  ];
}

/** Numbers stored with the rows of all heads side by side, given head by head. */
export function headByHead(
  kernel: AttentionKernel,
  stored: TypedArray,
  output: number,
): TypedArray {
  const { pass, lead, queries, keys, features, valueFeatures } = kernel, heads = lead[0]!;
  const [rows, columns] = pass === "forward"
    ? [queries, [valueFeatures, 1][output]!]
    : [[queries, keys, keys][output]!, [features, features, valueFeatures][output]!];
  if (columns === 1) return stored;
  const { view, bytes } = dtypes[kernel.outputs[output]!.dtype];
  const into = view(new ArrayBuffer(stored.length * bytes), 0, stored.length) as Uint16Array<
    ArrayBuffer
  >;
  for (let h = 0; h < heads; h++) {
    for (let r = 0; r < rows; r++) {
      const row = (stored as Uint16Array).subarray((r * heads + h) * columns).subarray(0, columns);
      into.set(row, (h * rows + r) * columns);
    }
  }
  return into;
}

/** Relative errors of outputs that elements of a type may have. */
const limits: Readonly<Partial<Record<DType, number>>> = { float16: 3e-3, bfloat16: 2e-2 };

/** Asserts that outputs are as they should be. */
export function compare(
  name: string,
  kernel: AttentionKernel,
  found: readonly TypedArray[],
  expected: readonly TypedArray[],
): void {
  kernel.outputs.forEach(({ dtype, size }, k) => {
    const [x, y] = [numbers(found[k]!, dtype), numbers(expected[k]!, dtype)];
    assertEquals(x.length, size);
    const most = y.reduce((a, b) => Math.max(a, Math.abs(b)), 1e-3);
    const within = most * (limits[kernel.query.dtype] ?? 1e-5);
    y.forEach((v, at) => {
      assert(
        Math.abs(x[at]! - v) <= within || x[at] === v,
        `${name} ${k}[${at}]: ${x[at]}, not ${v}`,
      );
    });
  });
}

/** Attention of queries to keys of a cache: sequences with several heads of keys, filled to lengths of their own. */
export interface FilledCase extends CommonCase {
  readonly lengths: readonly number[];
  readonly isBytes?: boolean;
  readonly window?: number;
  readonly cap?: number;
}

/** The pass of a case; what is not filled is no number, where that can be said. */
export function filledPass(each: FilledCase): AttentionPass {
  state = 1;
  const { dtype, lengths, heads, queries, keys, features, values, isBytes = false } = each;
  const lead = [lengths.length, heads], all = lengths.length * heads;
  const rowType: DType = isBytes ? "uint8" : dtype;
  const at = (input: number, type: DType, rows: number, columns: number): HeadMatrix => ({
    ...matrix(input, type, rows, columns),
    lead: [heads * rows * columns, rows * columns],
  });
  const size = all * queries * values, scaleAt = (input: number) => at(input, "float32", keys, 1);
  const kernel: AttentionKernel = {
    ...kernelOf({ ...each, heads: all }, "forward"),
    inputs: [dtype, rowType, rowType, "int32", ...isBytes ? ["float32", "float32"] as const : []],
    outputs: [{ dtype, size }],
    stored: [0],
    lead,
    query: at(0, dtype, queries, features),
    key: at(1, rowType, keys, features),
    value: at(2, rowType, keys, values),
    filled: {
      window: each.window ?? null,
      cap: each.cap ?? null,
      at: { ...matrix(3, "int32", 1, 1), lead: [1, 0] },
      scales: isBytes ? { key: scaleAt(4), value: scaleAt(5) } : null,
    },
  };
  const bytes = (count: number): TypedArray =>
    Uint8Array.from({ length: count }, () => (state = state * 16807 % 2147483647) % 256);
  const rows = (columns: number): TypedArray =>
    isBytes ? bytes(all * keys * columns) : draw(all * keys * columns, dtype);
  const scales: TypedArray[] = isBytes
    ? [0, 1].map(() =>
      Float32Array.from(numbers(draw(all * keys, "float32"), "float32"), (x) => x / 64)
    )
    : [];
  const given = [
    draw(all * queries * features, dtype),
    rows(features),
    rows(values),
    Int32Array.from(lengths),
    ...scales,
  ];
  const expected = [new Float32Array(size)] as TypedArray[];
  runAttention({ ...kernel, outputs: [{ dtype: "float32", size }] }, given, expected);
  const emptied = given.map((array, k) => {
    if (k === 0 || k === 3 || isBytes && k < 4) return array;
    const copy = array.slice() as Float32Array<ArrayBuffer>, columns = copy.length / all / keys;
    copy.forEach((_, n) => {
      const row = Math.floor(n / columns) % keys, head = Math.floor(n / columns / keys);
      if (row >= lengths[Math.floor(head / heads)]!) copy[n] = dtype === "bfloat16" ? 0x7fc0 : NaN;
    });
    return copy;
  });
  return { kernel, inputs: emptied, expected };
}
