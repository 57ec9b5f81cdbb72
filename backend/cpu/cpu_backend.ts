/**
 * The built-in backend: it needs no driver. It runs the kernels that OpenCL would run, one after
 * another, as they are launched: as WebAssembly where there are vectors for what they do, else as
 * JavaScript over typed arrays. What multiplies large matrices is its strategy's choice.
 *
 * This folder (`cpu/`) is the built-in backend, one folder a way to compute: `reference/` (plain
 * loops), `script/` (JavaScript), `wasm/`, `blas/`; `strategy/` chooses. It imports `execution/`,
 * `kernel/`, `graph/`, `codegen/`, `devices/`, `lifecycle/`, `profiling/` and `memory/`, not
 * `opencl/`. Planned kernels come from
 * `execution/`, results lie in the memory of the host.
 */
import { hostTarget } from "../kernel/target.ts";
import { setImmediate } from "node:timers";
import {
  DeviceMemory,
  GuardPool,
  type HostBuffer,
  HostSource,
  PersistentBufferPool,
  registerDeviceMemory,
  SlabPool,
} from "../../memory/mod.ts";
import type {
  Backend,
  BesideCopy,
  Block,
  Capabilities,
  HostBlock,
  HostCopy,
  Launch,
  UploadOptions,
} from "../execution/backend.ts";
import { inSequence } from "../execution/launch_sequence.ts";
import { countBuild, countLaunch, countTransfer } from "../profiling/counters.ts";
import { activeTrace } from "../profiling/trace.ts";
import type { DeviceHandle } from "../devices/device_handle.ts";
import {
  type DType,
  dtypes,
  fromBfloat16Bits,
  toBfloat16Bits,
  type TypedArray,
} from "../graph/dtype.ts";
import { readSwitch } from "../../ffi/host/switches.ts";
import { installExitHooks } from "../lifecycle/exit_hooks.ts";
import { interruptible } from "../lifecycle/interruption.ts";
import { withoutDeadline } from "../lifecycle/native_handlers.ts";
import type { Parameter } from "../codegen/emit.ts";
import type { Kernel, Launchable, LoopKernel, SpecialKernel } from "../kernel/kernel.ts";
import { type AttentionHost, attentionRunner } from "./attention/attention_runner.ts";
import { sizeOf } from "../graph/shape.ts";
import { opName } from "../graph/index_error.ts";
import { indexError } from "../graph/index_error.ts";
import { type GeneratedScript, generateScript, generateSpecialScript } from "./script/codegen.ts";
import { customRunner } from "./script/custom_runner.ts";
import { chooseStrategy, type Strategy } from "./strategy/strategy.ts";
import { type GemmHost, gemmRunner } from "./blas/gemm_runner.ts";
import { referenceRunner } from "./reference/reference.ts";
import { arraysOf, outputTypes, type Runner } from "./script/runner.ts";
import * as scalar from "./script/scalar.ts";
import { contractionRunner } from "./wasm/products/contraction.ts";
import { loopRunner } from "./wasm/loops/loop_runner.ts";
import { WasmSource } from "./wasm/memory.ts";

const TURN_MS = 10;

/** Copies of the host's own memory are over when they begin. */
const copied: BesideCopy = { isDone: () => true, [Symbol.dispose]: () => {} };

type Compiled = (
  inputs: readonly TypedArray[],
  outputs: readonly TypedArray[],
  parameters: readonly (number | bigint)[],
) => void;

/** A kernel of so few operations takes a few milliseconds at most: no signal has to be held back for it. */
const MAX_QUICK = 1 << 16;

/** Runs kernels on the host. */
export class CPUBackend implements Backend {
  readonly name = "cpu";
  readonly device: DeviceHandle;
  readonly capabilities: Capabilities = {
    dtypes: new Set(Object.keys(dtypes) as DType[]),
    fp16: false,
    unifiedMemory: true,
    attention: new Set<DType>(["float32", "float16", "bfloat16"]),
    // 1.25 times as long as several operations on two cores with AVX-512, whatever the length; but from
    // here on its memory, which grows with the length and not with its square, is worth that.
    minAttentionScores: 2 ** 20,
  };
  readonly target = hostTarget;
  readonly planKernel = null;
  readonly memory: DeviceMemory<HostBuffer>;
  /** What computes: chosen by NETCL_CPU and by what the system has. */
  readonly strategy: Strategy;
  readonly #compiled = new Map<string, Compiled>();
  #error: RangeError | null = null;
  #turned = 0;

  constructor(device: DeviceHandle, strategy: Strategy = chooseStrategy()) {
    this.device = device;
    this.strategy = strategy;
    const source = strategy.wasm ? new WasmSource(strategy.wasm.memory) : new HostSource();
    const pool = new SlabPool<HostBuffer>(source);
    const watched = readSwitch("NETCL_DEBUG") ? GuardPool.forHost(pool) : pool;
    this.memory = new DeviceMemory(watched, {
      name: device.deviceName,
      persistentPool: () => new PersistentBufferPool<HostBuffer>(source),
    });
    registerDeviceMemory(device, this.memory);
    installExitHooks(false);
  }

  upload(data: Uint8Array, { persistent = false }: UploadOptions = {}): Block {
    const block = this.memory.allocate(data.byteLength, { persistent });
    this.write(block, data);
    return block;
  }

  write(block: Block, data: Uint8Array, offset = 0): void {
    if (data.byteLength > 0) bytesOf(block).set(data, offset);
    countTransfer(data.byteLength);
  }

  async read(block: Block, into: Uint8Array, offset = 0): Promise<void> {
    await interruptible(this.#turn());
    this.readSync(block, into, offset);
  }

  /** Nothing waits here: without a turn of the event loop no signal and no timer would be heard. */
  #turn(): Promise<void> {
    if (performance.now() - this.#turned < TURN_MS) return Promise.resolve();
    return new Promise((resolve) =>
      setImmediate(() => {
        this.#turned = performance.now();
        resolve();
      })
    );
  }

  readSync(block: Block, into: Uint8Array, offset = 0): void {
    const error = this.#error;
    this.#error = null;
    if (error) throw error;
    if (into.byteLength > 0) into.set(bytesOf(block).subarray(offset, offset + into.byteLength));
    countTransfer(into.byteLength);
  }

  stage(nbytes: number): HostBlock {
    return { bytes: new Uint8Array(nbytes), [Symbol.dispose]: () => {} };
  }

  readBeside(copies: readonly HostCopy[]): BesideCopy {
    for (const { block, bytes } of copies) this.readSync(block, bytes);
    return copied;
  }

  writeBeside(copies: readonly HostCopy[]): BesideCopy {
    for (const { block, bytes } of copies) this.write(block, bytes);
    return copied;
  }

  uploadBeside(data: readonly Uint8Array<ArrayBuffer>[]): { blocks: Block[]; copy: BesideCopy } {
    return { blocks: data.map((bytes) => this.upload(bytes)), copy: copied };
  }

  peek(block: Block): Uint8Array<ArrayBuffer> {
    return bytesOf(block);
  }

  copy(source: Block, destination: Block, nbytes: number): void {
    if (nbytes > 0) bytesOf(destination).set(bytesOf(source).subarray(0, nbytes));
    countTransfer(2 * nbytes);
  }

  prepare(kernels: readonly Launchable[]): Launch[] {
    return kernels.map((kernel) =>
      kernel.kind === "horizontal"
        ? inSequence(kernel, kernel.members.map((member) => this.#launch(member)))
        : this.#launch(kernel)
    );
  }

  #launch(kernel: Kernel): Launch {
    const runner = this.#runner(kernel), isQuick = operationsOf(kernel) <= MAX_QUICK;
    const bytes = outputsOf(kernel).reduce((sum, o) => sum + o.size * dtypes[o.dtype].bytes, 0);
    return {
      name: kernel.label,
      source: runner.source,
      bytes,
      run: (reads, writes) => {
        const trace = activeTrace(), start = trace === null ? 0 : performance.now();
        if (isQuick) runner.run(reads, writes);
        else withoutDeadline(() => runner.run(reads, writes));
        countLaunch(bytes);
        trace?.kernel(kernel.label, start, bytes);
      },
    };
  }

  #runner(kernel: Kernel): Runner {
    if (kernel.kind === "custom") return customRunner(kernel);
    const { isReference, gemm, wasm } = this.strategy;
    if (isReference) {
      return referenceRunner(kernel, (value, size, op) => this.#checkedIndex(value, size, op));
    }
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
    runnerOf: (kernel) => this.#runner(kernel),
    allocate: (nbytes) => this.memory.allocate(nbytes, { label: "attention scratch" }),
  };

  #script(kernel: LoopKernel | SpecialKernel): Runner {
    const script = kernel.kind === "special"
      ? generateSpecialScript(kernel)
      : generateScript(kernel);
    const compiled = this.#compile(script, kernel.inputs.length);
    return {
      source: script.body,
      run: (reads, writes) =>
        compiled(
          arraysOf(reads, kernel.inputs),
          arraysOf(writes, outputTypes(kernel)),
          script.parameters.map(parameterValue),
        ),
    };
  }

  #compile(script: GeneratedScript, inputs: number): Compiled {
    const known = this.#compiled.get(script.body);
    if (known) return known;
    const compiled = compile(
      script,
      inputs,
      (value, size, op) => this.#checkedIndex(value, size, opName(op)),
    );
    countBuild();
    this.#compiled.set(script.body, compiled);
    return compiled;
  }

  /** An index out of range is remembered, and thrown at the next read, as on a device. */
  readonly #checkedIndex = (value: number, size: number, op: string): number => {
    if (value >= 0 && value < size) return value;
    this.#error ??= indexError(op, value, size);
    return 0;
  };

  /** Everything is done but the reads that wait for their turn. */
  finish(): Promise<void> {
    return new Promise((resolve) => setImmediate(() => resolve()));
  }

  finishSync(): void {}

  dispose(): void {
    this.strategy.wasm?.threads.stop();
    this.#compiled.clear();
    this.memory.destroy();
  }
}

/** How many operations on single elements a kernel is, at most. */
function operationsOf(kernel: Kernel): number {
  if (kernel.kind !== "loop") return Infinity;
  return kernel.sizes.reduce((product, size) => product * size, 1 + kernel.exprs.length);
}

function outputsOf(kernel: Kernel): readonly { readonly size: number; readonly dtype: DType }[] {
  if (kernel.kind === "special") return [kernel.output];
  if (kernel.kind === "loop" || kernel.kind === "attention") return kernel.outputs;
  const { call, stored } = kernel;
  return stored.map((k) => call.outputs[k]!).map(({ shape, dtype }) => ({
    size: sizeOf(shape),
    dtype,
  }));
}

function bytesOf(block: Block): Uint8Array<ArrayBuffer> {
  return block.buffer.bytes;
}

function parameterValue(p: Parameter): number | bigint {
  if (p.kind === "stream") return p.stream.value;
  return p.kind === "constant" && p.dtype === "int64" ? BigInt(Math.trunc(p.value)) : p.value;
}

/** NaN sorts last. */
function compare(a: number | bigint, b: number | bigint): number {
  if (a < b) return -1;
  if (a > b) return 1;
  return Number(a !== a) - Number(b !== b);
}

const helpers = { ...scalar, compare, fromBfloat16Bits, toBfloat16Bits };

function compile(
  script: GeneratedScript,
  inputs: number,
  checkedIndex: (value: number, size: number, op: number) => number,
): Compiled {
  const reads = Array.from({ length: inputs }, (_, k) => `a${k}`).join();
  const outputs = new Set(script.body.match(/\bo\d+\b/g));
  const writes = Array.from({ length: outputs.size }, (_, k) => `o${k}`).join();
  const parameters = script.parameters.map((_, k) => `p${k}`).join();
  const names = Object.keys(helpers).join();
  const make = new Function(
    "helpers",
    "checkedIndex",
    `"use strict"; const { ${names} } = helpers;
return ([${reads}], [${writes}], [${parameters}]) => {\n${script.body}\n};`,
  ) as (h: typeof helpers, c: typeof checkedIndex) => Compiled;
  return make(helpers, checkedIndex);
}
