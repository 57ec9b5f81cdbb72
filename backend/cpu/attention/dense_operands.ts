/** Operands of attention that lie in steps are copied row by row first: the tiles read rows. */
import type { BufferHandle, HostBuffer } from "../../../memory/mod.ts";
import { dtypes, type TypedArray } from "../../graph/dtype.ts";
import { type Shape, sizeOf, stridesOf } from "../../graph/shape.ts";
import type { AttentionKernel, HeadMatrix } from "../../kernel/attention.ts";
import { arrayOf, type HostBlock, type Runner } from "../script/runner.ts";

/** An operand that is copied: where it lies, and the axes of its copy. */
interface Copied {
  readonly from: HeadMatrix;
  readonly shape: Shape;
  readonly strides: readonly number[];
}

/**
 * A runner that copies what does not lie row by row, as views that an OpenCL kernel reads in place.
 *
 * @param kernel What is to be computed.
 * @param runnerOf The runner of the same kernel with dense operands.
 * @param allocate Where the copies lie.
 */
export function withDenseOperands(
  kernel: AttentionKernel,
  runnerOf: (dense: AttentionKernel) => Runner,
  allocate: (nbytes: number) => BufferHandle<HostBuffer>,
): Runner {
  const copies: Copied[] = [];
  const dense = denseKernel(kernel, copies);
  const runner = runnerOf(dense);
  if (copies.length === 0) return runner;
  return {
    source: runner.source,
    run: (inputs, outputs) => {
      const blocks: BufferHandle<HostBuffer>[] = [];
      try {
        for (const copy of copies) {
          const { dtype, input } = copy.from;
          const block = allocate(sizeOf(copy.shape) * dtypes[dtype].bytes);
          blocks.push(block);
          copyElements(copy, arrayOf(inputs[input]!, dtype), arrayOf(block, dtype));
        }
        const places: HostBlock[] = [...inputs, ...blocks];
        runner.run(places, outputs);
      } finally {
        for (const block of blocks) block.release();
      }
    },
  };
}

/** The same kernel with operands row by row; what is to be copied is added to `copies`. */
function denseKernel(kernel: AttentionKernel, copies: Copied[]): AttentionKernel {
  const { queries, keys, features, valueFeatures, mask, backward, lead } = kernel;
  const dense = (at: HeadMatrix, rows: number, columns: number): HeadMatrix => {
    // What is the same along an axis of the mask stays one element.
    const isMask = at === mask?.at;
    const size = (n: number, step: number): number => isMask && step === 0 ? 1 : n;
    const shape = [
      ...lead.map((n, k) => size(n, at.lead[k]!)),
      size(rows, at.row),
      size(columns, at.column),
    ];
    const strides = [...lead.map((_, k) => at.lead[k]!), at.row, at.column],
      wanted = stridesOf(shape);
    if (shape.every((n, axis) => n === 1 || strides[axis] === wanted[axis])) return at;
    copies.push({ from: at, shape, strides });
    const steps = shape.map((n, axis) => isMask && n === 1 ? 0 : wanted[axis]!);
    return {
      input: kernel.inputs.length + copies.length - 1,
      dtype: at.dtype,
      offset: 0,
      lead: steps.slice(0, -2),
      row: steps.at(-2)!,
      column: steps.at(-1)!,
    };
  };
  const operands = {
    query: dense(kernel.query, queries, features),
    key: dense(kernel.key, keys, features),
    value: dense(kernel.value, keys, valueFeatures),
    mask: mask && { ...mask, at: dense(mask.at, queries, keys) },
    backward: backward && {
      gradient: dense(backward.gradient, queries, valueFeatures),
      logSums: dense(backward.logSums, queries, 1),
      products: dense(backward.products, queries, 1),
    },
  };
  const inputs = [...kernel.inputs, ...copies.map(({ from }) => from.dtype)];
  return { ...kernel, ...operands, inputs };
}

function copyElements({ from, shape, strides }: Copied, a: TypedArray, out: TypedArray): void {
  const last = shape.length - 1, columns = shape[last]!, step = strides[last]!;
  const place = shape.map(() => 0);
  let start = from.offset;
  for (let at = 0; at < out.length; at += columns) {
    for (let k = 0; k < columns; k++) out[at + k] = a[start + k * step]!;
    for (let axis = last - 1; axis >= 0; axis--) {
      start += strides[axis]!;
      if (++place[axis]! < shape[axis]!) break;
      start -= strides[axis]! * shape[axis]!;
      place[axis] = 0;
    }
  }
}
