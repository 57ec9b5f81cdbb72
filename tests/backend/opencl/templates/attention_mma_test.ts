/** Attention on matrix units, its warp instructions emulated: values and gradients on any device. */
import { assert, assertEquals } from "@std/assert";
import { runAttention } from "../../../../backend/cpu/reference/reference_attention.ts";
import { type DType, dtypes, type TypedArray } from "../../../../backend/graph/dtype.ts";
import { fromBfloat16Bits, toBfloat16Bits } from "../../../../backend/graph/dtype.ts";
import type { AttentionKernel, HeadMatrix } from "../../../../backend/kernel/attention.ts";
import { hostTarget, type Target } from "../../../../backend/kernel/target.ts";
import { preludeFor } from "../../../../backend/opencl/codegen/prelude.ts";
import type { Generated } from "../../../../backend/opencl/codegen/generated.ts";
import { generateAttention } from "../../../../backend/opencl/templates/generate.ts";
import { Buffer, Program } from "../../../../ffi/mod.ts";
import { manager } from "../../../../mod.ts";
import { testOpenCL } from "../../../opencl.ts";
import { withoutOptimizing } from "../fixture.ts";
import { emulated } from "./emulated_mma.ts";

const ampere: Target = {
  ...hostTarget,
  isGpu: true,
  matrixUnits: true,
  warps: false,
  warpgroups: false,
  localMemory: 49152,
  computeUnits: 132,
};
const hopper: Target = { ...ampere, warpgroups: true };

interface Case {
  readonly dtype: "float16" | "bfloat16";
  readonly heads: number;
  readonly queries: number;
  readonly keys: number;
  readonly features: number;
  readonly values: number;
  readonly isCausal?: boolean;
  readonly dropout?: boolean;
  readonly mask?: boolean;
  readonly scale?: number;
  readonly isHopper?: boolean;
  readonly isInterleaved?: boolean;
  /** The output is stored as it was added up, as gradients want it. */
  readonly isWide?: boolean;
}

const cases: Record<string, Case> = {
  plain: { dtype: "float16", heads: 2, queries: 70, keys: 130, features: 32, values: 32 },
  "scores that grow from tile to tile": {
    dtype: "float16",
    heads: 1,
    queries: 40,
    keys: 200,
    features: 32,
    values: 32,
    scale: 60,
  },
  "a scale below 0": {
    dtype: "float16",
    heads: 1,
    queries: 20,
    keys: 70,
    features: 16,
    values: 16,
    scale: -30,
  },
  "rows of all heads side by side": {
    dtype: "float16",
    heads: 3,
    queries: 20,
    keys: 30,
    features: 16,
    values: 32,
    isInterleaved: true,
  },
  bfloat16: { dtype: "bfloat16", heads: 1, queries: 64, keys: 64, features: 16, values: 16 },
  causal: {
    dtype: "float16",
    heads: 1,
    queries: 150,
    keys: 140,
    features: 64,
    values: 64,
    isCausal: true,
  },
  "an output of float32": {
    dtype: "bfloat16",
    heads: 2,
    queries: 40,
    keys: 30,
    features: 16,
    values: 32,
    isWide: true,
  },
  "other values": { dtype: "float16", heads: 1, queries: 20, keys: 30, features: 48, values: 96 },
  "a mask and dropout": {
    dtype: "float16",
    heads: 2,
    queries: 40,
    keys: 70,
    features: 16,
    values: 32,
    mask: true,
    dropout: true,
  },
  "many queries": { dtype: "float16", heads: 1, queries: 530, keys: 65, features: 16, values: 16 },
  "warpgroups, odd sizes": {
    dtype: "float16",
    heads: 2,
    queries: 150,
    keys: 70,
    features: 64,
    values: 64,
    isHopper: true,
    isInterleaved: true,
  },
  "warpgroups, causal": {
    dtype: "bfloat16",
    heads: 1,
    queries: 140,
    keys: 150,
    features: 64,
    values: 64,
    isCausal: true,
    isHopper: true,
  },
  "long rows": { dtype: "bfloat16", heads: 1, queries: 33, keys: 70, features: 128, values: 128 },
};

let state = 1;
function draw(size: number, dtype: DType): TypedArray {
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

function numbers(array: TypedArray, dtype: DType): Float64Array {
  return Float64Array.from(
    array as ArrayLike<number>,
    (v) => dtype === "bfloat16" ? fromBfloat16Bits(v) : v,
  );
}

function matrix(input: number, dtype: DType, rows: number, columns: number): HeadMatrix {
  return { input, dtype, offset: 0, lead: [rows * columns], row: columns, column: 1 };
}

function kernelOf(each: Case, pass: "forward" | "backward"): AttentionKernel {
  const { dtype, heads, queries, keys, features, values, isCausal = false } = each;
  const isForward = pass === "forward", base = isForward ? 3 : 6;
  const mask = each.mask
    ? {
      kind: "bool" as const,
      at: { ...matrix(base, "bool", queries, keys), lead: [0] },
    }
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

/** Runs the emulated kernels; gives the outputs. */
async function runEmulated(
  kernel: AttentionKernel,
  inputs: readonly TypedArray[],
  { isHopper = false, isInterleaved = false }: Case,
): Promise<TypedArray[]> {
  const { context, queue } = manager.default("cl");
  const buffers = [...inputs.map((x) => x.byteLength), ...kernel.outputs.map(bytesOf)]
    .map((nbytes) => new Buffer(context!, nbytes));
  inputs.forEach((x, k) => queue!.write(buffers[k]!, x).release());
  const target = isHopper ? hopper : ampere, sign = isHopper ? "EMU_WG_ADD" : "EMU_LOAD4";
  for (const generated of generateAttention({ ...kernel, isInterleaved }, target).kernels) {
    const { helpers, source } = emulated(generated.source, generated.local[0]!);
    assert(source.includes(sign), "it is written for matrix units");
    const text = `${preludeFor(source)}\n${helpers}\nkernel void k${source}`;
    using program = new Program(context!, text).build();
    using made = program.kernel("k");
    const args = [...buffers, ...buffers.map(() => Int32Array.of(0)), ...parametersOf(generated)];
    queue!.run(made, { global: [...generated.global], local: [...generated.local], args })
      .release();
    queue!.finishSync();
  }
  const outputs: TypedArray[] = [];
  for (const [k, { dtype, size }] of kernel.outputs.entries()) {
    const { bytes, view } = dtypes[dtype];
    const into = new Uint8Array(size * bytes);
    await queue!.read(buffers[inputs.length + k]!, into).wait();
    outputs.push(view(into.buffer, 0, size));
  }
  for (const buffer of buffers) buffer.release();
  return isInterleaved ? outputs.map((output, k) => headByHead(kernel, output, k)) : outputs;
}

/** Numbers stored with the rows of all heads side by side, given head by head. */
function headByHead(kernel: AttentionKernel, stored: TypedArray, output: number): TypedArray {
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

function bytesOf({ dtype, size }: { dtype: DType; size: number }): number {
  return dtypes[dtype].bytes * size;
}

function parametersOf(
  { parameters }: Generated,
): (Int32Array<ArrayBuffer> | Float32Array<ArrayBuffer>)[] {
  return parameters.map((p) =>
    p.kind === "constant"
      ? Float32Array.of(p.value)
      : Int32Array.of(p.kind === "index" ? p.value : p.stream.value)
  );
}

function compare(
  name: string,
  kernel: AttentionKernel,
  found: readonly TypedArray[],
  expected: readonly TypedArray[],
): void {
  kernel.outputs.forEach(({ dtype, size }, k) => {
    const [x, y] = [numbers(found[k]!, dtype), numbers(expected[k]!, dtype)];
    assertEquals(x.length, size);
    const most = y.reduce((a, b) => Math.max(a, Math.abs(b)), 1e-3);
    const within = most * (kernel.query.dtype === "float16" ? 3e-3 : 2e-2);
    y.forEach((v, at) => {
      assert(
        Math.abs(x[at]! - v) <= within || x[at] === v,
        `${name} ${k}[${at}]: ${x[at]}, not ${v}`,
      );
    });
  });
}

for (const [name, each] of Object.entries(cases)) {
  testOpenCL(`attention on matrix units, emulated: ${name}`, async () => {
    state = 1;
    const { dtype, heads, queries, keys, features, values } = each;
    const masks = each.mask ? [draw(queries * keys, "bool")] : [];
    const inputs = [
      draw(heads * queries * features, dtype),
      draw(heads * keys * features, dtype),
      draw(heads * keys * values, dtype),
    ];
    const forward = kernelOf(each, "forward");
    const reference = (kernel: AttentionKernel, given: readonly TypedArray[]): TypedArray[] => {
      const outputs = kernel.outputs.map(({ dtype, size }) =>
        dtypes[dtype].view(new ArrayBuffer(size * dtypes[dtype].bytes), 0, size)
      );
      runAttention(kernel, given, outputs);
      return outputs;
    };
    const expected = reference(forward, [...inputs, ...masks]);
    compare(
      name,
      forward,
      await withoutOptimizing(() => runEmulated(forward, [...inputs, ...masks], each)),
      expected,
    );
    const gradient = draw(heads * queries * values, dtype);
    const [out, g] = [numbers(expected[0]!, dtype), numbers(gradient, dtype)];
    const products = Float32Array.from({ length: heads * queries }, (_, row) => {
      let sum = 0;
      for (let v = 0; v < values; v++) sum += out[row * values + v]! * g[row * values + v]!;
      return sum;
    });
    const backward = kernelOf(each, "backward");
    const given = [...inputs, gradient, expected[1]!, products, ...masks];
    compare(
      `${name}, gradient`,
      backward,
      await withoutOptimizing(() => runEmulated(backward, given, each)),
      reference(backward, given),
    );
  });
}
