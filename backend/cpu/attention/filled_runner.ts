/** Attention to the keys that are filled: row by row, so that time goes with them and not with the capacity. */
import { type DType, fromBfloat16Bits, type TypedArray } from "../../graph/dtype.ts";
import { ZERO_BYTE } from "../../graph/attention.ts";
import {
  type AttentionKernel,
  type HeadMatrix,
  headsOf,
  startOfHead,
} from "../../kernel/attention.ts";
import { writeElement } from "../reference/elements.ts";
import { arrayOf, type HostBlock, type Runner } from "../script/runner.ts";

/** The runner of attention whose keys are filled in part. */
export function filledRunner(kernel: AttentionKernel): Runner {
  return {
    source: "// JavaScript: attention to the keys that are filled",
    run: (inputs, outputs) => new FilledRun(kernel, inputs, outputs).run(),
  };
}

type Numbers = Float32Array | Float16Array | Uint8Array;

class FilledRun {
  readonly #kernel: AttentionKernel;
  readonly #inputs: readonly HostBlock[];
  readonly #output: TypedArray;
  readonly #dtype: DType;
  readonly #logs: TypedArray | null;
  /** The scales of rows of bytes. */
  readonly #scales: { readonly key: Numbers; readonly value: Numbers } | null;
  readonly #weights: Float64Array;
  readonly #sums: Float64Array;

  constructor(
    kernel: AttentionKernel,
    inputs: readonly HostBlock[],
    outputs: readonly HostBlock[],
  ) {
    this.#kernel = kernel;
    this.#inputs = inputs;
    const at = kernel.stored.indexOf(0), logs = kernel.stored.indexOf(1);
    this.#dtype = kernel.outputs[Math.max(at, 0)]!.dtype;
    this.#output = at < 0 ? new Float32Array(0) : arrayOf(outputs[at]!, this.#dtype);
    this.#logs = logs < 0 ? null : arrayOf(outputs[logs]!, "float32");
    const { scales = null } = kernel.filled!;
    this.#scales = scales &&
      { key: this.#numbers(scales.key), value: this.#numbers(scales.value) };
    this.#weights = new Float64Array(kernel.keys);
    this.#sums = new Float64Array(kernel.valueFeatures);
  }

  run(): void {
    const { query, key, value, filled, queries, isCausal } = this.#kernel;
    const [q, k, v] = [query, key, value].map((at) => this.#numbers(at)) as [
      Numbers,
      Numbers,
      Numbers,
    ];
    const lengths = arrayOf(this.#inputs[filled!.at.input]!, "int32");
    for (let head = 0; head < headsOf(this.#kernel); head++) {
      const length = Number(lengths[this.#start(filled!.at, head)]);
      for (let row = 0; row < queries; row++) {
        const end = isCausal ? length - queries + 1 + row : length;
        const first = filled!.window === null ? 0 : Math.max(0, end - filled!.window);
        const sum = this.#score(q, k, head, row, first, end);
        this.#gather(v, head, row, first, end, sum);
      }
    }
  }

  /** Elements that can be computed with as they are: those of bfloat16 are widened first. */
  #numbers({ input, dtype }: HeadMatrix): Numbers {
    const array = arrayOf(this.#inputs[input]!, dtype);
    if (dtype !== "bfloat16") return array as Numbers;
    return Float32Array.from(array as Uint16Array, fromBfloat16Bits);
  }

  #start(at: HeadMatrix, head: number): number {
    return startOfHead(this.#kernel, at, head);
  }

  /** Notes the exponentials of a row's scores; gives back their sum. */
  #score(q: Numbers, k: Numbers, head: number, row: number, first: number, end: number): number {
    const { query, key, features, scale, filled, queries } = this.#kernel, weights = this.#weights;
    const { cap } = filled!;
    const from = this.#start(query, head) + row * query.row, keys = this.#start(key, head);
    const scales = this.#rowScales("key", head);
    let top = -Infinity, sum = 0, whole = 0;
    for (let e = 0; e < features; e++) whole += q[from + e * query.column]!;
    for (let j = first; j < end; j++) {
      const at = keys + j * key.row;
      let score = 0;
      for (let e = 0; e < features; e++) {
        score += q[from + e * query.column]! * k[at + e * key.column]!;
      }
      if (scales) score = (score - ZERO_BYTE * whole) * scales(j);
      score *= scale;
      if (cap !== null) score = cap * Math.tanh(score / cap);
      weights[j] = score;
      if (score > top || Number.isNaN(score)) top = score;
    }
    for (let j = first; j < end; j++) sum += weights[j] = Math.exp(weights[j]! - top);
    if (this.#logs) this.#logs[head * queries + row] = end > first ? top + Math.log(sum) : Infinity;
    return sum;
  }

  /** The scale of a head's row by its number; null where rows are numbers. */
  #rowScales(name: "key" | "value", head: number): ((row: number) => number) | null {
    if (!this.#scales) return null;
    const numbers = this.#scales[name], at = this.#kernel.filled!.scales![name];
    const start = this.#start(at, head);
    return (row) => numbers[start + row * at.row]!;
  }

  /** Stores the mean of values by the weights. */
  #gather(v: Numbers, head: number, row: number, first: number, end: number, sum: number): void {
    const { value, valueFeatures, queries, isInterleaved, lead } = this.#kernel;
    const sums = this.#sums.fill(0), values = this.#start(value, head);
    const scales = this.#rowScales("value", head);
    // Bytes are summed as they are: what stands for 0 is taken off the sum of their weights.
    let zero = 0;
    for (let j = first; j < end; j++) {
      const weight = this.#weights[j]! * (scales ? scales(j) : 1), at = values + j * value.row;
      if (scales) zero += ZERO_BYTE * weight;
      for (let e = 0; e < valueFeatures; e++) sums[e]! += weight * v[at + e * value.column]!;
    }
    const heads = lead.at(-1) ?? 1;
    const place = isInterleaved
      ? (Math.floor(head / heads) * queries + row) * heads + head % heads
      : head * queries + row;
    const inverse = end > first ? 1 / sum : 0;
    for (let e = 0; e < valueFeatures; e++) {
      writeElement(
        this.#output,
        this.#dtype,
        place * valueFeatures + e,
        (sums[e]! - zero) * inverse,
      );
    }
  }
}
