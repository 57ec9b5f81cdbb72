/**
 * Common base of backends that compute on the host: blocks of its memory, copies that are over
 * when they begin, launches that run at once. A backend adds how it computes a kernel.
 */
import { hostTarget, type Target } from "../kernel/target.ts";
import { setImmediate } from "node:timers";
import {
  DeviceMemory,
  GuardPool,
  type HostBuffer,
  type MemorySource,
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
import { countLaunch, countTransfer } from "../profiling/counters.ts";
import { activeTrace } from "../profiling/trace.ts";
import type { BackendName, DeviceHandle } from "../devices/device_handle.ts";
import { type DType, dtypes } from "../graph/dtype.ts";
import { indexError } from "../graph/index_error.ts";
import { sizeOf } from "../graph/shape.ts";
import { readSwitch } from "../../ffi/host/switches.ts";
import { installExitHooks } from "../lifecycle/exit_hooks.ts";
import { interruptible } from "../lifecycle/interruption.ts";
import { withoutDeadline } from "../lifecycle/native_handlers.ts";
import { bytesMoved, bytesWritten } from "../kernel/analysis.ts";
import type { Kernel, Launchable } from "../kernel/kernel.ts";
import type { Runner } from "./script/runner.ts";

/** Milliseconds after which a read lets the event loop run once. */
const TURN_MS = 10;

/** Copies of the host's own memory are over when they begin. */
const copied: BesideCopy = { isDone: () => true, [Symbol.dispose]: () => {} };

/** A kernel of so few operations takes a few milliseconds at most: no signal has to be held back for it. */
const MAX_QUICK = 1 << 16;

/** Default capabilities of backends on the host. */
const hostCapabilities: Capabilities = {
  dtypes: new Set(Object.keys(dtypes) as DType[]),
  fp16: false,
  unifiedMemory: true,
  attention: new Set<DType>(["float32", "float16", "bfloat16"]),
  // Without a causal mask attention as one operation takes longer than several. Its memory grows with the length,
  // not with its square: from here on that is worth the time.
  minAttentionScores: 2 ** 20,
  keptAttentionBytes: 2 ** 22,
  interleavesHeads: false,
  joinsHeads: false,
  joinsMoments: false,
  // It widens what it packs.
  maxRecurrentBytes: 0,
  scattersExtremes: true,
  selection: { maxPlaces: 128, minRows: 0, maxLength: 0 },
  gathersGradients: true,
  widensProducts: false,
};

/** A backend whose memory is the host's, and whose kernels run as they are launched. */
export abstract class HostBackend implements Backend {
  abstract readonly name: BackendName;
  readonly device: DeviceHandle;
  readonly capabilities: Capabilities;
  readonly target: Target = hostTarget;
  readonly planKernel = null;
  readonly memory: DeviceMemory<HostBuffer>;
  #error: RangeError | null = null;
  #turned = 0;

  /** `capabilities`: what this backend has beside those of all. */
  constructor(
    device: DeviceHandle,
    source: MemorySource<HostBuffer>,
    capabilities: Partial<Capabilities> = {},
  ) {
    this.device = device;
    this.capabilities = { ...hostCapabilities, ...capabilities };
    const pool = new SlabPool<HostBuffer>(source);
    const watched = readSwitch("NETCL_DEBUG") ? GuardPool.forHost(pool) : pool;
    this.memory = new DeviceMemory(watched, {
      name: device.deviceName,
      persistentPool: () => new PersistentBufferPool<HostBuffer>(source),
    });
    registerDeviceMemory(device, this.memory);
    installExitHooks(false);
  }

  /** Runner that computes a kernel. */
  protected abstract runnerOf(kernel: Kernel): Runner;

  upload(data: Uint8Array, { persistent = false }: UploadOptions = {}): Block {
    const block = this.memory.allocate(data.byteLength, { persistent });
    this.write(block, data);
    return block;
  }

  write(block: Block, data: Uint8Array, offset = 0): void {
    if (data.byteLength > 0) bytesOf(block).set(data, offset);
    countTransfer(data.byteLength);
  }

  /** Copied before the turn: `shutdown` may end the memory meanwhile. */
  async read(block: Block, into: Uint8Array, offset = 0): Promise<void> {
    this.readSync(block, into, offset);
    await interruptible(this.#turn());
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

  pin(bytes: Uint8Array<ArrayBuffer>): HostBlock {
    return { bytes, [Symbol.dispose]: () => {} };
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

  readonly hasGates = false;

  gate(): never {
    throw new Error("Copies of the built-in backend wait for nothing");
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
    const runner = this.runnerOf(kernel), isQuick = operationsOf(kernel) <= MAX_QUICK;
    const bytes = bytesOfLaunch(kernel);
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

  /** An index out of range is remembered, and thrown at the next read, as on a device. */
  protected readonly checkedIndex = (value: number, size: number, op: string): number => {
    if (value >= 0 && value < size) return value;
    this.#error ??= indexError(op, value, size);
    return 0;
  };

  mayRepeat(): boolean {
    return true;
  }

  /** Everything is done but the reads that wait for their turn. */
  finish(): Promise<void> {
    return new Promise((resolve) => setImmediate(() => resolve()));
  }

  finishSync(): void {}

  dispose(): void {
    this.memory.destroy();
  }
}

/** Upper bound of a kernel's operations on single elements. */
function operationsOf(kernel: Kernel): number {
  if (kernel.kind !== "loop") return Infinity;
  return kernel.sizes.reduce((product, size) => product * size, 1 + kernel.exprs.length);
}

/** As on OpenCL: kernels that are no loops read about as much as they write, and a user's own nobody knows. */
function bytesOfLaunch(kernel: Kernel): number {
  if (kernel.kind === "loop") return bytesMoved(kernel);
  return (kernel.kind === "custom" ? 1 : 2) * bytesWritten(outputsOf(kernel));
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

function bytesOf({ base, offset, nbytes }: Block): Uint8Array<ArrayBuffer> {
  return base.bytes.subarray(offset, offset + nbytes);
}
