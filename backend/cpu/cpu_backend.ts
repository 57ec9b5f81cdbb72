/**
 * The built-in backend: it needs no driver. It runs the kernels that OpenCL would run, one after
 * another, as they are launched: as WebAssembly where there are vectors for what they do, else as
 * JavaScript over typed arrays. What multiplies large matrices is its strategy's choice.
 *
 * This folder (`cpu/`) is the built-in backend, one folder a way to compute: `reference/` (plain
 * loops), `script/` (JavaScript), `wasm/`, `blas/`; `strategy/` chooses. `host_backend.ts` is what
 * any backend on the host has: memory, copies, launches. It imports `execution/`, `kernel/`, `graph/`,
 * `codegen/`, `devices/`, `lifecycle/`, `profiling/` and `memory/`, not `opencl/`. Planned kernels
 * come from `execution/`, results lie in the memory of the host.
 */
import { HostSource } from "../../memory/mod.ts";
import type { DeviceHandle } from "../devices/device_handle.ts";
import { dtypes } from "../graph/dtype.ts";
import type { Kernel, LoopKernel, SpecialKernel } from "../kernel/kernel.ts";
import { type AttentionHost, attentionRunner } from "./attention/attention_runner.ts";
import { type GemmHost, gemmRunner } from "./blas/gemm_runner.ts";
import { HostBackend } from "./host_backend.ts";
import { referenceRunner } from "./reference/reference.ts";
import { customRunner } from "./script/custom_runner.ts";
import type { Runner } from "./script/runner.ts";
import { ScriptCompiler } from "./script/script_compiler.ts";
import { chooseStrategy, type Strategy } from "./strategy/strategy.ts";
import { loopRunner } from "./wasm/loops/loop_runner.ts";
import { WasmSource } from "./wasm/memory.ts";
import { contractionRunner } from "./wasm/products/contraction.ts";

/** Runs kernels on the host, in the fastest way that its strategy has. */
export class CPUBackend extends HostBackend {
  override readonly name = "cpu";
  /** What computes: chosen by NETCL_CPU and by what the system has. */
  readonly strategy: Strategy;
  readonly #scripts = new ScriptCompiler(this.checkedIndex);

  constructor(device: DeviceHandle, strategy: Strategy = chooseStrategy()) {
    super(device, strategy.wasm ? new WasmSource(strategy.wasm.memory) : new HostSource());
    this.strategy = strategy;
  }

  protected override runnerOf(kernel: Kernel): Runner {
    if (kernel.kind === "custom") return customRunner(kernel);
    const { isReference, gemm, wasm } = this.strategy;
    if (isReference) return referenceRunner(kernel, this.checkedIndex);
    if (kernel.kind === "attention") return attentionRunner(kernel, this.#attentionHost);
    if (kernel.kind === "special") return this.#script(kernel);
    // Tiles read windows of images where they are: for those BLAS would need copies.
    const byBLAS = (copies: boolean): Runner | null =>
      gemm && gemmRunner(kernel, gemm, this.#host, copies);
    return byBLAS(wasm === null) ?? this.#contraction(kernel) ?? byBLAS(true) ?? this.#loop(kernel);
  }

  #contraction(kernel: LoopKernel): Runner | null {
    const { wasm } = this.strategy;
    const fallback = (): Runner => this.#script(kernel);
    return wasm && contractionRunner(kernel, wasm, this.#host, fallback);
  }

  #loop(kernel: LoopKernel): Runner {
    const { wasm } = this.strategy;
    return wasm && loopRunner(kernel, wasm, () => this.#script(kernel)) || this.#script(kernel);
  }

  readonly #host: GemmHost = {
    compile: (kernel) => this.#loop(kernel),
    othersWorked: () => this.strategy.wasm?.othersWorked(),
    withScratch: (dtype, size, use) => {
      const nbytes = size * dtypes[dtype].bytes;
      const block = this.memory.allocate(nbytes, { label: "matmul scratch" });
      try {
        return use(block);
      } finally {
        block.release();
      }
    },
  };

  readonly #attentionHost: AttentionHost = {
    runnerOf: (kernel) => this.runnerOf(kernel),
    allocate: (nbytes) => this.memory.allocate(nbytes, { label: "attention scratch" }),
  };

  #script(kernel: LoopKernel | SpecialKernel): Runner {
    return this.#scripts.runner(kernel);
  }

  override dispose(): void {
    this.strategy.wasm?.threads.stop();
    this.#scripts.clear();
    super.dispose();
  }
}
