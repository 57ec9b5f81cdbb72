/** Finds for each kernel the fastest way of a strategy to compute it. */
import type { BufferHandle, HostBuffer } from "../../memory/mod.ts";
import { dtypes } from "../graph/dtype.ts";
import { type Kernel, type LoopKernel, readsPacked, type SpecialKernel } from "../kernel/kernel.ts";
import { summedProducts } from "../kernel/forms/summed_products.ts";
import { attentionRunner } from "./attention/attention_runner.ts";
import { filledRunner } from "./attention/filled_runner.ts";
import { filledAttentionRunner } from "./wasm/special/filled_attention.ts";
import { withDenseOperands } from "./attention/dense_operands.ts";
import { hasPaddedOperands, withPaddedOperands } from "./padded_operands.ts";
import { type GemmHost, gemmRunner } from "./blas/gemm_runner.ts";
import { referenceRunner } from "./reference/reference.ts";
import { customRunner } from "./script/custom_runner.ts";
import type { CheckIndex, Runner } from "./script/runner.ts";
import { argsortRunner } from "./script/sorting.ts";
import { ScriptCompiler } from "./script/script_compiler.ts";
import type { Strategy } from "./strategy/strategy.ts";
import { loopRunner } from "./wasm/loops/loop_runner.ts";
import { findDepthwise } from "./wasm/depthwise/find_depthwise.ts";
import { matrixRunner } from "./wasm/matrix/matrix_runner.ts";
import { contractionRunner, type FindProduct } from "./wasm/products/contraction.ts";
import { recurrenceRunner } from "./wasm/special/recurrence_runner.ts";
import { rowScatterRunner } from "./wasm/special/row_scatter.ts";
import { scanRunner } from "./wasm/special/scan.ts";
import type { WasmRuntime } from "./wasm/runtime.ts";
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
      const script = (): Runner => customRunner(kernel);
      return wasm && !isReference && matrixRunner(kernel, wasm, script) || script();
    }
    if (isReference) return referenceRunner(kernel, this.#check);
    if (kernel.kind === "attention") {
      if (kernel.filled !== null) {
        const script = (): Runner => filledRunner(kernel);
        return wasm && filledAttentionRunner(kernel, wasm, this.#host, script) || script();
      }
      const allocate = (nbytes: number): BufferHandle<HostBuffer> =>
        this.#allocate(nbytes, "attention scratch");
      const host = { runnerOf: (part: Kernel) => this.of(part), allocate };
      return withDenseOperands(kernel, (dense) => attentionRunner(dense, host), allocate);
    }
    if (kernel.kind === "special") return this.#special(kernel);
    if (readsPacked(kernel)) return this.#packed(kernel);
    // Tiles read windows of images where they are: for those BLAS would need copies.
    const byBLAS = (copies: boolean): Runner | null =>
      gemm && gemmRunner(kernel, gemm, this.#host, copies);
    if (hasPaddedOperands(kernel)) {
      const allocate = (nbytes: number): BufferHandle<HostBuffer> =>
        this.#allocate(nbytes, "padded operand");
      const copied = (): Runner =>
        byBLAS(true) ?? withPaddedOperands(kernel, (part) => this.of(part), allocate);
      return this.#contraction(kernel, copied) ?? copied();
    }
    const script = (): Runner => this.#scripts.runner(kernel);
    return byBLAS(wasm === null) ?? this.#contraction(kernel, script) ?? byBLAS(true) ??
      this.#loop(kernel);
  }

  #special(kernel: SpecialKernel): Runner {
    const { wasm } = this.#strategy;
    if (kernel.op === "recurrence") {
      const plain = (): Runner => referenceRunner(kernel, this.#check);
      return wasm && recurrenceRunner(kernel, wasm, this.#host, plain) || plain();
    }
    if (kernel.op === "argsort") return argsortRunner(kernel);
    const script = (): Runner => this.#scripts.runner(kernel);
    return wasm && this.#specialInLanes(kernel, wasm, script) || script();
  }

  #specialInLanes(
    kernel: Exclude<SpecialKernel, { readonly op: "recurrence" | "argsort" }>,
    wasm: WasmRuntime,
    script: () => Runner,
  ): Runner | null {
    switch (kernel.op) {
      case "scan":
        return scanRunner(kernel, wasm, script);
      case "scatter":
        return rowScatterRunner(kernel, wasm, script, this.#check);
      default: // a new operation is computed by its script until it has lanes
        return null;
    }
  }

  /** Runner that decodes blocks as it reads. */
  #packed(kernel: LoopKernel): Runner {
    const { wasm } = this.#strategy;
    const script = (): Runner => this.#scripts.runner(kernel);
    if (wasm === null) return script();
    const product = kernel.contraction && packedRunner(kernel, wasm, this.#host, script);
    return product ?? packedCopyRunner(kernel, wasm, script) ?? script();
  }

  #contraction(kernel: LoopKernel, fallback: () => Runner): Runner | null {
    const { wasm } = this.#strategy;
    return wasm && contractionRunner(kernel, wasm, this.#host, fallback, findFaster);
  }

  #loop(kernel: LoopKernel): Runner {
    const { wasm } = this.#strategy;
    const script = (): Runner => this.#scripts.runner(kernel);
    return wasm && loopRunner(summedProducts(kernel), wasm, script, this.#check) || script();
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
