/** Common text of all kernels of attention: parameters, where matrices lie, masks, dropout. */
import type { DType } from "../../../graph/dtype.ts";
import type { Parameter } from "../../../codegen/emit.ts";
import {
  type AttentionKernel,
  attentionReach,
  type HeadMatrix,
} from "../../../kernel/attention.ts";
import { loadText, storeText } from "../../codegen/types.ts";
import type { Target } from "../../../kernel/target.ts";
import { type Generated, generated } from "../../codegen/generated.ts";
import { type KernelSequence, type Planned, single } from "../parts/template.ts";

/** Collects the lines and the scalar parameters of a kernel. */
export class AttentionText {
  readonly kernel: AttentionKernel;
  readonly #lines: string[] = [];
  readonly #arrays: string[] = [];
  readonly #parameters: Parameter[] = [];
  readonly #known = new Map<string, string>();

  constructor(kernel: AttentionKernel) {
    this.kernel = kernel;
  }

  add(...lines: string[]): void {
    this.#lines.push(...lines.map((line) => `  ${line}`));
  }

  /** Declares an array in local memory: in front, where OpenCL wants them. */
  local(name: string, size: number): void {
    this.#arrays.push(`  local float ${name}[${size}];`);
  }

  /** A size or a step. */
  index(value: number): string {
    return this.#parameter(`index ${value}`, { kind: "index", value });
  }

  float(value: number): string {
    return this.#parameter(`float ${value}`, { kind: "constant", value, dtype: "float32" });
  }

  #parameter(key: string, parameter: Parameter): string {
    const known = this.#known.get(key);
    if (known) return known;
    const name = `p${this.#parameters.push(parameter) - 1}`;
    this.#known.set(key, name);
    return name;
  }

  /** Declares the coordinates of a head along the leading axes: `h0`, `h1`... */
  placeHead(head: string): void {
    const { lead } = this.kernel;
    if (lead.length === 0) return;
    this.add(`Index rest = ${head};`);
    for (let k = lead.length - 1; k > 0; k--) {
      const n = this.index(lead[k]!);
      this.add(`const Index h${k} = rest % ${n}; rest /= ${n};`);
    }
    this.add("const Index h0 = rest;");
  }

  #placeMatrix(name: string, at: HeadMatrix): void {
    const steps = at.lead.flatMap((step, k) => step === 0 ? [] : [`h${k} * ${this.index(step)}`]);
    this.add(`const Index at_${name} = ${[this.index(at.offset), ...steps].join(" + ")};`);
  }

  /** Declares where every matrix that the kernel reads begins. */
  placeMatrices(): void {
    const { query, key, value, backward, mask, filled } = this.kernel;
    const gradients = backward && {
      gradient: backward.gradient,
      logSums: backward.logSums,
      products: backward.products,
    };
    const all = {
      query,
      key,
      value,
      ...gradients,
      ...(mask && { mask: mask.at }),
      ...(filled && { filled: filled.at }),
      ...(filled?.scales && { keyScale: filled.scales.key, valueScale: filled.scales.value }),
    };
    for (const [name, at] of Object.entries(all)) this.#placeMatrix(name, at);
  }

  /** The index of an element of a matrix that was placed. */
  place(name: string, at: HeadMatrix, row: string, column: string): string {
    const along = (coordinate: string, step: number): string[] => {
      if (step === 0 || coordinate === "0") return [];
      return [step === 1 ? coordinate : `(Index)(${coordinate}) * ${this.index(step)}`];
    };
    return [`at_${name}`, ...along(row, at.row), ...along(column, at.column)].join(" + ");
  }

  /** An element of a matrix that was placed, as a float. */
  load(name: string, at: HeadMatrix, row: string, column: string): string {
    return loadText(`a${at.input}`, at.dtype, this.place(name, at, row, column));
  }

  /** A score with the mask: -INFINITY where it is closed. */
  masked(score: string, row: string, column: string): string {
    const { mask } = this.kernel;
    if (!mask) return score;
    const element = this.load("mask", mask.at, row, column);
    return mask.kind === "bool" ? `(${element} ? ${score} : -INFINITY)` : `(${score} + ${element})`;
  }

  /** Factor of a weight: 0 where it is dropped. */
  kept(head: string, row: string, column: string): string {
    const { at, key, probability, factor } = this.#draw(head, row, column);
    return `(philox(${at}, ${key}) >= ${probability} ? ${factor} : 0.0f)`;
  }

  /** Factors of 16 weights: neighbours in a column where rows are on the lanes, or in a row. */
  keptLanes(lanes: "rows" | "columns", head: string, row: string, column: string): string {
    const { at, key, probability, factor } = this.#draw(head, row, column);
    const step = lanes === "rows" ? `(ulong)${this.index(this.kernel.keys)}` : "1";
    const drawn = `philox_16(${at}, ${step}, ${key})`;
    return `select((float16)(0.0f), (float16)(${factor}), ${drawn} >= ${probability})`;
  }

  /** The counter and the key of a weight's random number, and what is made of it. */
  #draw(head: string, row: string, column: string) {
    const { probability, seed, stream } = this.kernel.dropout!;
    const { queries, keys } = this.kernel;
    const drawn = this.#parameter("stream", { kind: "stream", stream });
    return {
      at: `((ulong)(${head}) * ${this.index(queries)} + (ulong)(${row})) * ${
        this.index(keys)
      } + (ulong)(${column})`,
      key: `(uint)${this.index(seed)}, (uint)${drawn}`,
      probability: this.float(probability),
      factor: this.float(1 / (1 - probability)),
    };
  }

  /** Start of a row of a head of `length` rows in an output of so many columns. */
  placeRow(length: string, row: string, columns: number): string {
    const { isInterleaved, lead } = this.kernel;
    if (!isInterleaved) return `((Index)head * ${length} + ${row}) * ${columns}`;
    const heads = this.index(lead.at(-1)!);
    return `((head / ${heads} * ${length} + ${row}) * ${heads} + head % ${heads}) * ${columns}`;
  }

  /** The name of the buffer of a call's output; null where nobody reads it. */
  output(output: number): string | null {
    const at = this.kernel.stored.indexOf(output);
    return at < 0 ? null : `o${at}`;
  }

  /**
   * A statement that stores element `e` of a row of a call's output; null where nobody reads it. A head has
   * `length` rows.
   */
  store(
    output: number,
    length: string,
    row: string,
    columns: number,
    value: string,
  ): string | null {
    const at = this.kernel.stored.indexOf(output);
    if (at < 0) return null;
    const place = `${this.placeRow(length, row, columns)} + e`;
    return storeText(`o${at}`, this.kernel.outputs[at]!.dtype, place, value);
  }

  /** The kernel, of so many groups of so many work-items, with the types of its scratch. */
  finish(
    groups: number,
    local: number,
    narrowEnd: number,
    scratch: readonly DType[] = [],
  ): Generated {
    const { inputs, outputs } = this.kernel;
    return generated({
      inputs,
      outputs: [...outputs.map(({ dtype }) => dtype), ...scratch],
      parameters: this.#parameters,
      checksIndices: false,
      isWide: attentionReach(this.kernel) >= narrowEnd,
      body: [...this.#arrays, ...this.#lines].join("\n"),
      global: [groups * local],
      local: [local],
    });
  }
}

/** Writer of the kernels of one way to compute attention. */
export type AttentionWriter = Readonly<
  Record<
    "forward" | "queryGradient" | "keyGradient",
    (kernel: AttentionKernel, target: Target) => Generated
  >
>;

/** The kernels of a pass: keys and values get their gradients in one kernel, queries in another. */
export function attentionKernels(
  { kernel, target }: Planned<AttentionKernel>,
  writer: AttentionWriter,
): KernelSequence {
  if (!kernel.backward) return single(writer.forward(kernel, target));
  const kernels: Generated[] = [];
  if (kernel.stored.includes(0)) kernels.push(writer.queryGradient(kernel, target));
  if (kernel.stored.some((output) => output > 0)) {
    kernels.push(writer.keyGradient(kernel, target));
  }
  return { kernels };
}

/** True where a row lies as floats side by side. */
export function liesAsFloats({ dtype, column }: HeadMatrix): boolean {
  return dtype === "float32" && column === 1;
}
