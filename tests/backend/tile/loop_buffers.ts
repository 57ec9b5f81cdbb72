/** Memory of loop kernels, and the right values of their outputs. */
import { referenceRunner } from "../../../backend/cpu/reference/reference.ts";
import type { HostBlock } from "../../../backend/cpu/script/runner.ts";
import { type DType, dtypes } from "../../../backend/graph/dtype.ts";
import { rangeOf } from "../../../backend/kernel/affine.ts";
import type { LoopKernel } from "../../../backend/kernel/kernel.ts";

/** Elements of a buffer; those of indices stay below `bound`. */
function filled(dtype: DType, count: number, bound: number): ArrayBuffer {
  const buffer = new ArrayBuffer(count * dtypes[dtype].bytes);
  const all = dtypes[dtype].view(buffer, 0, count), isFloat = dtypes[dtype].kind === "float";
  for (let k = 0; k < count; k++) {
    const number = isFloat ? 3 * Math.sin(0.7 * k) : (k * 7919 + (k >> 3)) % bound;
    // Half the bits of a float of 32 are one of 16.
    if (dtype === "bfloat16") all[k] = new Uint32Array(Float32Array.of(number).buffer)[0]! >>> 16;
    else all[k] = dtype === "int64" ? BigInt(number) : dtype === "bool" ? number & 1 : number;
  }
  return buffer;
}

/** Memory by the names of inputs and outputs. */
export type Buffers = Readonly<Record<string, ArrayBuffer>>;

/** Buffers for a kernel as large as what it reads and writes. */
export function buffersOf(kernel: LoopKernel): Buffers {
  const { inputs, outputs, sizes, indirect, contraction } = kernel;
  const loads = [...kernel.loads, ...contraction ? [contraction.a, contraction.b] : []];
  const all = [...sizes];
  for (const { symbol, size } of indirect) all[symbol] = size;
  const bound = Math.min(100, ...indirect.map(({ size }) => size));
  const end = (index: Parameters<typeof rangeOf>[0]): number => rangeOf(index, all)[1] + 1;
  const found: Record<string, ArrayBuffer> = {};
  inputs.forEach((dtype, k) => {
    const reads = loads.filter(({ input }) => input === k);
    found[`a${k}`] = filled(dtype, Math.max(1, ...reads.map(({ index }) => end(index))), bound);
  });
  outputs.forEach(({ dtype, index }, k) => {
    found[`o${k}`] = new ArrayBuffer(end(index) * dtypes[dtype].bytes);
  });
  return found;
}

const blockOf = (buffer: ArrayBuffer): HostBlock =>
  ({ base: { bytes: new Uint8Array(buffer) }, offset: 0, nbytes: buffer.byteLength }) as HostBlock;

/** The largest difference of an output from that of the plain evaluator. */
export function errorOf(kernel: LoopKernel, buffers: Buffers): number {
  const wanted = buffersOf(kernel);
  referenceRunner(kernel, (value) => value).run(
    kernel.inputs.map((_, k) => blockOf(wanted[`a${k}`]!)),
    kernel.outputs.map((_, k) => blockOf(wanted[`o${k}`]!)),
  );
  const errors = kernel.outputs.map(({ dtype }, k) => {
    const [found, right] = [buffers, wanted].map((all) => numbers(dtype, all[`o${k}`]!));
    const scale = right!.reduce((most, x) => Math.max(most, Math.abs(x)), 1);
    return right!.reduce((worst, x, n) => {
      const difference = Object.is(x, found![n]) ? 0 : Math.abs(x - found![n]!) / scale;
      return Math.max(worst, Number.isNaN(difference) ? Infinity : difference);
    }, 0);
  });
  return Math.max(...errors);
}

function numbers(dtype: DType, buffer: ArrayBuffer): number[] {
  if (dtype !== "bfloat16") {
    const all = dtypes[dtype].view(buffer, 0, buffer.byteLength / dtypes[dtype].bytes);
    return Array.from(all as ArrayLike<number | bigint>, Number);
  }
  return Array.from(
    new Uint16Array(buffer),
    (bits) => new Float32Array(Uint32Array.of(bits << 16).buffer)[0]!,
  );
}
