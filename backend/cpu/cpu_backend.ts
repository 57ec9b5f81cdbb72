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
import type { Kernel } from "../kernel/kernel.ts";
import { hostTarget, type Target } from "../kernel/target.ts";
import { KernelMemo } from "../execution/kernel_memo.ts";
import { HostBackend } from "./host_backend.ts";
import { KernelRunners } from "./kernel_runners.ts";
import type { Runner } from "./script/runner.ts";
import { chooseStrategy, type Strategy } from "./strategy/strategy.ts";
import { WasmSource } from "./wasm/memory.ts";

/** Weights of a recurrent layer that a core keeps in its caches. */
const MAX_RECURRENT_BYTES = 2 ** 21;

/** Runs kernels on the host, in the fastest way that its strategy has. */
export class CPUBackend extends HostBackend {
  override readonly name = "cpu";
  /** Strategy chosen by NETCL_CPU and by what the system has. */
  readonly strategy: Strategy;
  override readonly target: Target;
  readonly #runners: KernelRunners;
  readonly #known = new KernelMemo<Runner>();

  constructor(device: DeviceHandle, strategy: Strategy = chooseStrategy()) {
    const { wasm } = strategy;
    super(device, wasm ? new WasmSource(wasm.memory) : new HostSource(), {
      maxRecurrentBytes: wasm?.hasPrivatePages ? MAX_RECURRENT_BYTES : 0,
    });
    this.strategy = strategy;
    // The system's BLAS multiplies floats faster than WebAssembly whole numbers.
    const packsProducts = wasm !== null && strategy.gemm === null;
    this.target = { ...hostTarget, fusion: { ...hostTarget.fusion, packsProducts } };
    this.#runners = new KernelRunners(
      strategy,
      this.checkedIndex,
      (nbytes, label) => this.memory.allocate(nbytes, { label }),
    );
  }

  protected override runnerOf(kernel: Kernel): Runner {
    if (kernel.kind === "custom") return this.#runners.of(kernel);
    return this.#known.get(kernel, () => this.#runners.of(kernel));
  }

  override dispose(): void {
    this.strategy.wasm?.threads.stop();
    this.#runners.clear();
    this.#known.clear();
    super.dispose();
  }
}
