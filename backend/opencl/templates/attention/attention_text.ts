/** Text of attention to filled keys: parameters, and where matrices lie. */
import type { DType } from "../../../graph/dtype.ts";
import type { Parameter } from "../../../codegen/emit.ts";
import {
  type AttentionKernel,
  attentionReach,
  type HeadMatrix,
} from "../../../kernel/attention.ts";
import { loadText } from "../../codegen/types.ts";
import { type Generated, generated } from "../../codegen/generated.ts";

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
    const { query, key, value, filled } = this.kernel;
    const all = {
      query,
      key,
      value,
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

  /** Start of a row of a head of `length` rows in an output of so many columns. */
  placeRow(length: string, row: string, columns: number): string {
    const { isInterleaved, lead } = this.kernel;
    if (!isInterleaved) return `((Index)head * ${length} + ${row}) * ${columns}`;
    const heads = this.index(lead.at(-1)!);
    return `((head / ${heads} * ${length} + ${row}) * ${heads} + head % ${heads}) * ${columns}`;
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

/** True where a row lies as floats side by side. */
export function liesAsFloats({ dtype, column }: HeadMatrix): boolean {
  return dtype === "float32" && column === 1;
}
