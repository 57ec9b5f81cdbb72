/** Kernels of other backends on the host, in WebAssembly and JavaScript: compiled in a millisecond. */
import { isMainThread } from "node:worker_threads";
import { type BufferHandle, type HostBuffer, HostSource, SlabPool } from "../../memory/mod.ts";
import type { BaselineKernel, BaselineKernels, BlockAccess } from "../execution/baseline.ts";
import type { Block, HostCopy } from "../execution/backend.ts";
import { dtypes } from "../graph/dtype.ts";
import { indexError } from "../graph/index_error.ts";
import { headsOf } from "../kernel/attention.ts";
import { extent, type Kernel, type Launchable, type RecurrenceOfSizes } from "../kernel/kernel.ts";
import { gateCounts } from "../graph/op.ts";
import { KernelRunners } from "./kernel_runners.ts";
import type { HostBlock, Runner } from "./script/runner.ts";
import { strategyWith } from "./strategy/strategy.ts";
import { WasmBuffer, type WasmMemory, WasmSource } from "./wasm/memory.ts";

/** So many products of a contraction, or operations of other kernels, take about half a second. */
const MAX_PRODUCTS = 8e9, MAX_OPERATIONS = 4e8;
/** The memory of the host that kernels compute in never shrinks: so many bytes of operands at most. */
const MAX_BYTES = 128 * 2 ** 20;
/** So much of it is lent: the rest of 4 GiB is for kernels, and for the built-in backend. */
const MAX_LENT_BYTES = 2 ** 30;

/** A worker's memory goes when it is ended, whatever a device still does in it: that is not lent. */
const isMainRealm = isMainThread && !("WorkerGlobalScope" in globalThis);

/** The baseline tier of this realm; it shares the memory and the threads of the built-in backend. */
export class HostBaseline implements BaselineKernels {
  readonly #pool: SlabPool<HostBuffer>;
  readonly #runners: KernelRunners;
  readonly #memory: WasmMemory | null;
  /** Lent buffers, as kernels address them. */
  readonly #lent = new Map<Uint8Array<ArrayBuffer>, WasmBuffer>();
  #lentBytes = 0;
  #error: RangeError | null = null;

  constructor() {
    // OpenBLAS's threads spin for a while after each product: the compiler needs their cores.
    const strategy = strategyWith(null), { wasm } = strategy;
    this.#memory = isMainRealm ? wasm?.memory ?? null : null;
    this.#pool = new SlabPool(wasm ? new WasmSource(wasm.memory) : new HostSource(), {
      segmentBytes: 2 ** 20,
    });
    const check = (value: number, size: number, op: string): number => {
      if (value >= 0 && value < size) return value;
      this.#error ??= indexError(op, value, size);
      return 0;
    };
    this.#runners = new KernelRunners(strategy, check, (nbytes) => this.#pool.allocate(nbytes));
  }

  lend(nbytes: number): Uint8Array<ArrayBuffer> | null {
    const memory = this.#memory;
    if (memory === null || this.#lentBytes + nbytes > MAX_LENT_BYTES) return null;
    const address = memory.tryAllocate(nbytes);
    if (address === null) return null;
    const bytes = memory.bytes(address, nbytes);
    this.#lent.set(bytes, new WasmBuffer(memory, bytes));
    this.#lentBytes += nbytes;
    return bytes;
  }

  takeBack(bytes: Uint8Array<ArrayBuffer>): void {
    this.#lent.delete(bytes);
    this.#lentBytes -= bytes.byteLength;
    this.#memory!.deallocate(bytes.byteOffset, bytes.byteLength);
  }

  kernel(kernel: Launchable): BaselineKernel | null {
    if (kernel.kind === "custom" || !isQuick(kernel)) return null;
    const { members, written: counts } = kernel.kind === "horizontal"
      ? kernel
      : { members: [kernel], written: [outputCount(kernel)] };
    let runners: Runner[] | null = null;
    return {
      run: (inputs, outputs, access) => {
        runners ??= members.map((member) => this.#runners.of(member));
        let read = 0, written = 0;
        members.forEach((member, k) => {
          const from = inputs.slice(read, read += member.inputs.length);
          const to = outputs.slice(written, written += counts[k]!);
          this.#run(runners![k]!, from, to, access);
        });
      },
    };
  }

  #run(
    runner: Runner,
    inputs: readonly Block[],
    outputs: readonly Block[],
    access: BlockAccess,
  ): void {
    access.waitFor([...inputs, ...outputs]);
    // A result that is stored in pieces is one block, which stands for each of them.
    const staged = new Map<Block, BufferHandle<HostBuffer>>();
    const hosted = (block: Block): HostBlock => {
      const array = access.arrayOf(block), { offset, nbytes } = block;
      if (array) return { base: this.#lent.get(array)!, offset, nbytes };
      const known = staged.get(block) ?? this.#pool.allocate(nbytes);
      staged.set(block, known);
      return known;
    };
    try {
      const reads = inputs.map(hosted), writes = outputs.map(hosted);
      access.read(copiesOf(inputs, staged));
      runner.run(reads, writes);
      access.write(copiesOf(outputs, staged));
    } finally {
      for (const block of staged.values()) block.release();
    }
  }

  takeError(): RangeError | null {
    const error = this.#error;
    this.#error = null;
    return error;
  }
}

/** Those of the blocks that are staged, each once. */
function copiesOf(
  blocks: readonly Block[],
  staged: ReadonlyMap<Block, BufferHandle<HostBuffer>>,
): HostCopy[] {
  return [...new Set(blocks)].flatMap((block) => {
    const copy = staged.get(block);
    return copy ? [{ block, bytes: copy.buffer.bytes.subarray(0, block.nbytes) }] : [];
  });
}

function outputCount(kernel: Exclude<Kernel, { readonly kind: "custom" }>): number {
  return kernel.kind === "special" ? 1 : kernel.outputs.length;
}

/** The products of a recurrent layer. */
function productsOf({ steps, batch, features, gates }: RecurrenceOfSizes): number {
  return steps * batch * features * features * gateCounts[gates].gates;
}

/** True where the host needs less time for a kernel than a compiler, and little memory. */
function isQuick(kernel: Exclude<Launchable, { readonly kind: "custom" }>): boolean {
  switch (kernel.kind) {
    case "horizontal":
      return kernel.members.every(isQuick);
    case "special":
      if (kernel.op === "recurrence" && productsOf(kernel) > MAX_PRODUCTS) return false;
      return kernel.output.size * 64 <= MAX_OPERATIONS &&
        kernel.output.size * dtypes[kernel.output.dtype].bytes <= MAX_BYTES;
    case "attention": {
      const { queries, keys, features, valueFeatures } = kernel;
      const scores = headsOf(kernel) * queries * keys;
      return !kernel.isInterleaved && scores * (features + valueFeatures) * 3 <= MAX_PRODUCTS &&
        scores * 4 <= MAX_BYTES;
    }
    case "loop": {
      const { outer, inner, exprs, contraction, outputs } = kernel;
      const steps = extent(kernel, [...outer, ...inner]);
      const bytes = outputs.reduce((sum, { size, dtype }) => sum + size * dtypes[dtype].bytes, 0);
      if (bytes > MAX_BYTES) return false;
      return contraction ? steps <= MAX_PRODUCTS : steps * (1 + exprs.length) <= MAX_OPERATIONS;
    }
  }
}
