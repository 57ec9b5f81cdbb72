/**
 * Contractions whose operands are padded as they are read, as those of convolutions on OpenCL: such an
 * operand is copied first, with its zeros, since products of matrices read what is in memory.
 */
import type { BufferHandle, HostBuffer } from "../../memory/mod.ts";
import { dtypes } from "../graph/dtype.ts";
import { sizeOf } from "../graph/shape.ts";
import { coefficient } from "../kernel/affine.ts";
import { collapse } from "../kernel/collapse.ts";
import type { Contraction, Load, LoopKernel, Output } from "../kernel/kernel.ts";
import { rowMajor } from "./blas/gemm_plan.ts";
import type { HostBlock, Runner } from "./script/runner.ts";

/** An operand that is copied, and how. */
interface Copied {
  readonly input: number;
  readonly runner: Runner;
  readonly nbytes: number;
}

/** True where an operand is padded as it is read. */
export function hasPaddedOperands({ contraction }: LoopKernel): boolean {
  return contraction !== null && contraction.a.bounds.length + contraction.b.bounds.length > 0;
}

/**
 * A runner of such a kernel.
 *
 * @param kernel What is to be computed.
 * @param runnerOf The runners of the copies, and of the same kernel without padding.
 * @param allocate Where the copies lie.
 */
export function withPaddedOperands(
  kernel: LoopKernel,
  runnerOf: (kernel: LoopKernel) => Runner,
  allocate: (nbytes: number) => BufferHandle<HostBuffer>,
): Runner {
  const { batch, m, n, k, a, b } = kernel.contraction!, copies: Copied[] = [];
  const copied = (load: Load, rows: readonly number[]): Load => {
    if (load.bounds.length === 0) return load;
    const moving = batch.filter((s) => coefficient(load.index, s) !== 0);
    const copy = paddedCopy(kernel, load, [...moving, ...rows, ...k]);
    const [{ index, size, dtype }] = copy.outputs as [Output];
    const nbytes = size * dtypes[dtype].bytes;
    copies.push({ input: load.input, runner: runnerOf(collapse(copy)), nbytes });
    return { input: kernel.inputs.length + copies.length - 1, dtype, index, bounds: [] };
  };
  const plain: Contraction = { ...kernel.contraction!, a: copied(a, m), b: copied(b, n) };
  const inputs = [...kernel.inputs, ...copies.map(({ input }) => kernel.inputs[input]!)];
  const runner = runnerOf({ ...kernel, inputs, contraction: plain });
  return {
    source: [...copies.map(({ runner: { source } }) => source), runner.source].join("\n"),
    run: (given, outputs) => {
      const blocks: BufferHandle<HostBuffer>[] = [];
      try {
        for (const { input, runner: copy, nbytes } of copies) {
          const block = allocate(nbytes);
          blocks.push(block);
          copy.run([given[input]!], [block]);
        }
        const places: HostBlock[] = [...given, ...blocks];
        runner.run(places, outputs);
      } finally {
        for (const block of blocks) block.release();
      }
    },
  };
}

/** A kernel that copies an operand into a row-major array over `symbols`: 0 outside its bounds. */
function paddedCopy(kernel: LoopKernel, load: Load, symbols: readonly number[]): LoopKernel {
  const { dtype, bounds } = load, size = sizeOf(symbols.map((s) => kernel.sizes[s]!));
  return {
    kind: "loop",
    sizes: kernel.sizes,
    outer: symbols,
    inner: [],
    inputs: [dtype],
    loads: [{ ...load, input: 0 }],
    indirect: [],
    exprs: [
      { op: "load", load: 0, dtype },
      { op: "inside", bounds, dtype: "bool" },
      { op: "constant", value: 0, dtype },
      { op: "primitive", fn: "where", args: [1, 0, 2], dtype },
    ],
    reductions: [],
    contraction: null,
    outputs: [{ expr: 3, dtype, index: rowMajor(kernel, symbols), size }],
    label: "pad",
  };
}
