/** Finds for each kernel the fastest way of a strategy to compute it. */
import type { BufferHandle, HostBuffer } from "../../memory/mod.ts";
import { dtypes } from "../graph/dtype.ts";
import type { AttentionKernel } from "../kernel/attention.ts";
import { type Kernel, type LoopKernel, readsPacked, type SpecialKernel } from "../kernel/kernel.ts";
import { summedProducts } from "../kernel/forms/summed_products.ts";
import { hasPaddedOperands, withPaddedOperands } from "./padded_operands.ts";
import { type GemmHost, gemmRunner } from "./blas/gemm_runner.ts";
import { referenceRunner } from "./reference/reference.ts";
import { customRunner } from "./script/custom_runner.ts";
import type { ScriptedSpecial } from "./script/codegen.ts";
import { type CheckIndex, orElse, type PartialRunner, type Runner } from "./script/runner.ts";
import type { WasmRuntime } from "./wasm/runtime.ts";
import { argsortRunner } from "./script/sorting.ts";
import { ScriptCompiler } from "./script/script_compiler.ts";
import type { Strategy } from "./strategy/strategy.ts";
import { loopRunner } from "./wasm/loops/loop_runner.ts";
import { findDepthwise } from "./wasm/depthwise/find_depthwise.ts";
import { matrixRunner } from "./wasm/matrix/matrix_runner.ts";
import { contractionRunner, type FindProduct } from "./wasm/products/contraction.ts";
import { recurrenceRunner } from "./wasm/tile/recurrence.ts";
import { rowScatterRunner } from "./wasm/special/row_scatter.ts";
import { scanRunner } from "./wasm/special/scan.ts";
import { attentionRunner } from "./wasm/tile/attention.ts";
import { packedCopyRunner } from "./wasm/tile/packed_copy.ts";
import { packedRunner } from "./wasm/tile/packed_gemv.ts";
import { findWinograd } from "./wasm/winograd/find_winograd.ts";

/** Ways to convolve that take less than products of matrices. */
const findFaster: FindProduct = (given, runtime, host) =>
  findDepthwise(given, runtime, host) ?? findWinograd(given, runtime, host);

/** Lends memory to kernels while they run. */
export type AllocateScratch = (nbytes: number, label: string) => BufferHandle<HostBuffer>;

/** Kernels as functions of blocks in the memory of the host. */
export class KernelRunners {
  readonly #strategy: Strategy;
  readonly #check: CheckIndex;
  readonly #allocate: AllocateScratch;
  readonly #scripts: ScriptCompiler;
  readonly #host: GemmHost;

  /**
   * @param strategy What computes.
   * @param check What is done with an index that is out of range.
   * @param allocate Where scratch comes from.
   */
  constructor(strategy: Strategy, check: CheckIndex, allocate: AllocateScratch) {
    this.#strategy = strategy;
    this.#check = check;
    this.#allocate = allocate;
    this.#scripts = new ScriptCompiler(check);
    this.#host = this.#hostFor(strategy);
  }

  /** Runner that computes a kernel. */
  of(kernel: Kernel): Runner {
    const { isReference, gemm, wasm } = this.#strategy;
    if (kernel.kind === "custom") {
      return orElse(
        wasm && !isReference ? matrixRunner(kernel, wasm) : null,
        () => customRunner(kernel),
      );
    }
    if (isReference) return referenceRunner(kernel, this.#check);
    if (kernel.kind === "attention") return this.#attention(kernel);
    if (kernel.kind === "special") return this.#special(kernel);
    if (readsPacked(kernel)) return this.#packed(kernel);
    const isPadded = hasPaddedOperands(kernel);
    const byBLAS = (copies: boolean): Runner | null =>
      gemm && gemmRunner(kernel, gemm, this.#host, copies);
    const rest = (): Runner => isPadded ? this.#padded(kernel) : byBLAS(true) ?? this.#loop(kernel);
    // Tiles read windows of images where they are: for those BLAS would need copies.
    const direct = isPadded ? null : byBLAS(wasm === null);
    return direct ?? orElse(
      wasm && contractionRunner(kernel, wasm, this.#host, findFaster),
      rest,
    );
  }

  #padded(kernel: LoopKernel): Runner {
    const allocate = this.#scratchFor("padded operand");
    return withPaddedOperands(kernel, (part) => this.of(part), allocate);
  }

  #scratchFor(label: string) {
    return (nbytes: number): BufferHandle<HostBuffer> => this.#allocate(nbytes, label);
  }

  #attention(kernel: AttentionKernel): Runner {
    const { wasm } = this.#strategy;
    return orElse(
      wasm && attentionRunner(kernel, wasm, this.#host),
      () => referenceRunner(kernel, this.#check),
    );
  }

  #special(kernel: SpecialKernel): Runner {
    const { wasm } = this.#strategy;
    if (kernel.op === "argsort") return argsortRunner(kernel);
    if (kernel.op === "recurrence") {
      return orElse(
        wasm && recurrenceRunner(kernel, wasm, this.#host),
        () => referenceRunner(kernel, this.#check),
      );
    }
    return orElse(wasm && this.#specialInLanes(kernel, wasm), () => this.#scripts.runner(kernel));
  }

  #specialInLanes(kernel: ScriptedSpecial, wasm: WasmRuntime): PartialRunner | null {
    switch (kernel.op) {
      case "scan":
        return scanRunner(kernel, wasm);
      case "scatter":
        return rowScatterRunner(kernel, wasm, this.#check);
      default: // a new operation is computed by its script until it has lanes
        return null;
    }
  }

  /** Runner that decodes blocks as it reads. */
  #packed(kernel: LoopKernel): Runner {
    const { wasm } = this.#strategy;
    const product = wasm && kernel.contraction && packedRunner(kernel, wasm, this.#host);
    const copy = wasm && (product ?? packedCopyRunner(kernel, wasm, this.#host));
    return orElse(copy, () => this.#scripts.runner(kernel));
  }

  #loop(kernel: LoopKernel): Runner {
    const { wasm } = this.#strategy;
    return orElse(
      wasm && loopRunner(summedProducts(kernel), wasm, this.#check),
      () => this.#scripts.runner(kernel),
    );
  }

  #hostFor({ wasm }: Strategy): GemmHost {
    return {
      compile: (kernel) => this.#loop(kernel),
      othersWorked: () => wasm?.othersWorked(),
      withScratch: (dtype, size, use) => {
        const block = this.#allocate(size * dtypes[dtype].bytes, "matmul scratch");
        try {
          return use(block);
        } finally {
          block.release();
        }
      },
    };
  }

  /** Forgets what was compiled as JavaScript. */
  clear(): void {
    this.#scripts.clear();
  }
}
