/** Runners of kernels for every strategy of the built-in backend. */
import type { BufferHandle, HostBuffer } from "../../../memory/mod.ts";
import { type DType, dtypes, type TypedArray } from "../../graph/dtype.ts";

/** A block of the host's memory, or a part of one. */
export type HostBlock = Pick<BufferHandle<HostBuffer>, "base" | "offset" | "nbytes">;

/** Gives an index back, or notes that it is out of range and gives 0. */
export type CheckIndex = (value: number, size: number, opName: string) => number;

/** A kernel that can run: only its buffers are missing. */
export interface Runner {
  /** Code that runs, for people to read. */
  readonly source: string;
  /** Computes the outputs from the inputs. */
  run(inputs: readonly HostBlock[], outputs: readonly HostBlock[]): void;
}

/** A runner of kernels whose blocks it may not see: it gives back false then, and does nothing. */
export interface PartialRunner {
  /** Code that runs, for people to read. */
  readonly source: string;
  /** Computes the outputs from the inputs; true when it has. */
  run(inputs: readonly HostBlock[], outputs: readonly HostBlock[]): boolean;
}

/** A runner that leaves to `fallback` what the other one cannot do, or all where there is none. */
export function orElse(partial: PartialRunner | null, fallback: () => Runner): Runner {
  if (partial === null) return fallback();
  let plain: Runner | null = null;
  return {
    source: partial.source,
    run(inputs, outputs) {
      if (!partial.run(inputs, outputs)) (plain ??= fallback()).run(inputs, outputs);
    },
  };
}

/** The elements of a block. */
export function arrayOf(block: HostBlock, dtype: DType): TypedArray {
  const { view, bytes } = dtypes[dtype];
  const base = block.base.bytes;
  return view(base.buffer, base.byteOffset + block.offset, block.nbytes / bytes);
}

/** The elements of several blocks. */
export function arraysOf(blocks: readonly HostBlock[], types: readonly DType[]): TypedArray[] {
  return blocks.map((block, k) => arrayOf(block, types[k]!));
}

/** The types of a kernel's outputs. */
export function outputTypes(
  kernel: {
    readonly kind: "loop" | "attention";
    readonly outputs: readonly { readonly dtype: DType }[];
  } | {
    readonly kind: "special";
    readonly output: { readonly dtype: DType };
  },
): DType[] {
  return kernel.kind === "special" ? [kernel.output.dtype] : kernel.outputs.map((o) => o.dtype);
}
