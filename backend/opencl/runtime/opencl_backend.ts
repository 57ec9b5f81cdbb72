/** The backend that runs on any OpenCL device. */
import { Buffer, type CommandQueue, type Context, type Device } from "../../../ffi/mod.ts";
import { runAll } from "../../../ffi/host/run_all.ts";
import {
  createPool,
  DeviceMemory,
  getPersistentPool,
  registerDeviceMemory,
} from "../../../memory/mod.ts";
import type {
  Backend,
  BesideCopy,
  Block,
  Capabilities,
  HostBlock,
  HostCopy,
  Launch,
  UploadOptions,
} from "../../execution/backend.ts";
import { inSequence as membersInSequence } from "../../execution/launch_sequence.ts";
import { countTransfer } from "../../profiling/counters.ts";
import type { DeviceHandle } from "../../devices/device_handle.ts";
import { type DType, dtypes } from "../../graph/dtype.ts";
import {
  type CustomKernelCall,
  extent,
  type HorizontalKernel,
  type Launchable,
  type LoopKernel,
} from "../../kernel/kernel.ts";
import { opName } from "../../graph/op_names.ts";
import { indexError } from "../../graph/index_error.ts";
import { generateShared, haveOneText } from "../codegen/shared_launch.ts";
import { BinaryCache } from "./binary_cache.ts";
import { CustomLaunch } from "./custom_launch.ts";
import type { Generated } from "../codegen/generated.ts";
import type { Target } from "../../kernel/target.ts";
import { generateLoop, generateSpecial, planKernel } from "../templates/generate.ts";
import type { Scratch } from "../templates/parts/template.ts";
import { inSequence, KernelLaunch, type LaunchContext, type Work } from "./launch.ts";
import { driverOf } from "./driver.ts";
import { Programs } from "./programs.ts";
import { type Copy, TransferEngine } from "./transfers.ts";
import { targetOf } from "./device_target.ts";

/** What a kernel says about an index out of range: the operation, the index, the bound. */
const ERROR_WORDS = 3;
/** A kernel's text with what its launch counts. */
interface Step {
  readonly generated: Generated;
  readonly label: string;
  readonly work: Work;
}

/** What one kernel of a schedule is launched as. */
interface Steps {
  readonly steps: readonly Step[];
  /** What all steps take behind their outputs. */
  readonly scratch: readonly Scratch[];
}

/** Runs schedules on an OpenCL device: one in-order compute queue, memory from a pool. */
export class OpenCLBackend implements Backend {
  readonly name = "cl";
  readonly device: DeviceHandle;
  readonly capabilities: Capabilities;
  readonly memory: DeviceMemory;
  readonly #context: Context;
  readonly #queue: CommandQueue;
  readonly #clDevice: Device;
  readonly #programs: Programs;
  #target: Target | null = null;
  readonly #transfers: TransferEngine;
  readonly #launchContext: LaunchContext;
  #errors: Buffer | null = null;
  /** A kernel that checks indices was enqueued since the last look at the error buffer. */
  #mayHaveErrors = false;

  constructor(device: DeviceHandle) {
    this.device = device;
    this.#context = device.context!;
    this.#queue = device.queue!;
    this.#clDevice = device.clDevice!;
    this.capabilities = capabilitiesOf(this.#clDevice, device);
    this.memory = new DeviceMemory(createPool(this.#queue), {
      name: device.deviceName,
      totalBytes: this.#clDevice.globalMemSize,
      queue: this.#queue,
      persistentPool: () => getPersistentPool(this.#queue),
    });
    registerDeviceMemory(device, this.memory);
    const cache = BinaryCache.open(this.#clDevice);
    const keepBinaries = driverOf(this.#clDevice).compilesForBinary ? "at the end" : "at once";
    this.#programs = new Programs(this.#context, this.#clDevice, cache, keepBinaries);
    this.#transfers = new TransferEngine(this.#queue);
    this.#launchContext = {
      queue: this.#queue,
      uploads: this.memory.uploads,
      errors: () => {
        this.#mayHaveErrors = true;
        return this.#errorBuffer();
      },
      afterLaunch: (isTiny) => this.#transfers.afterLaunch(isTiny),
      wakesThreads: this.#clDevice.type === "cpu",
      tinyInRow: 0,
    };
  }

  readonly planKernel = planKernel;

  /** What kernels are planned by and written for; made with the first. */
  get target(): Target {
    return this.#target ??= targetOf(this.#clDevice, this.device.deviceType);
  }

  upload(data: Uint8Array, options?: UploadOptions): Block {
    const block = this.#transfers.upload(this.memory, data, options);
    countTransfer(data.byteLength);
    return block;
  }

  write(block: Block, data: Uint8Array, offset = 0): void {
    if (data.byteLength === 0) return;
    this.memory.uploads.await(block);
    this.#transfers.write(block.base, block.offset + offset, data);
    countTransfer(data.byteLength);
  }

  async read(block: Block, into: Uint8Array, offset = 0): Promise<void> {
    const found = this.#mayHaveErrors ? new BigInt64Array(ERROR_WORDS) : null;
    await this.#transfers.read(this.#copies(block, into, offset, found));
    countTransfer(into.byteLength);
    if (found) this.#checkErrors(found);
  }

  readSync(block: Block, into: Uint8Array, offset = 0): void {
    const found = this.#mayHaveErrors ? new BigInt64Array(ERROR_WORDS) : null;
    this.#transfers.readSync(this.#copies(block, into, offset, found));
    countTransfer(into.byteLength);
    if (found) this.#checkErrors(found);
  }

  stage(nbytes: number): HostBlock {
    return this.#transfers.stage(nbytes);
  }

  readBeside(copies: readonly HostCopy[]): BesideCopy {
    for (const { block, bytes } of copies) {
      this.memory.uploads.await(block);
      countTransfer(bytes.byteLength);
    }
    return this.#transfers.readBeside(copies);
  }

  writeBeside(copies: readonly HostCopy[]): BesideCopy {
    for (const { bytes } of copies) countTransfer(bytes.byteLength);
    return this.#transfers.writeBeside(this.memory, copies);
  }

  uploadBeside(data: readonly Uint8Array<ArrayBuffer>[]): { blocks: Block[]; copy: BesideCopy } {
    for (const { byteLength } of data) countTransfer(byteLength);
    return this.#transfers.uploadBeside(this.memory, data);
  }

  /** What a read copies: the errors of the kernels before it, too, since one wait is enough. */
  #copies(
    block: Block,
    into: Uint8Array,
    offset: number,
    found: BigInt64Array<ArrayBuffer> | null,
  ): Copy[] {
    const copies: Copy[] = [];
    if (found) {
      const errors = new Uint8Array(found.buffer);
      copies.push({ buffer: this.#errorBuffer(), offset: 0, into: errors });
    }
    if (into.byteLength > 0) {
      this.memory.uploads.await(block);
      copies.push({ buffer: block.base, offset: block.offset + offset, into });
    }
    return copies;
  }

  copy(source: Block, destination: Block, nbytes: number): void {
    if (nbytes === 0) return;
    for (const block of [source, destination]) this.memory.uploads.await(block);
    const options = { nbytes, sourceOffset: source.offset, destinationOffset: destination.offset };
    this.#queue.copy(source.base, destination.base, options).release();
    countTransfer(2 * nbytes);
  }

  prepare(kernels: readonly Launchable[]): Launch[] {
    const plans = kernels.map((kernel) => kernel.kind === "custom" ? null : this.#plan(kernel));
    const steps = plans.flatMap((plan) => plan?.steps ?? []);
    this.#programs.build(
      steps.map(({ generated, label }) => ({ source: generated.source, label })),
    );
    return plans.map((plan, k) => {
      if (plan === null) return this.#custom(kernels[k] as CustomKernelCall);
      const { steps, scratch } = plan;
      const launches = steps.map((step) => this.#launch(step));
      if (launches.length === 1 && scratch.length === 0) return launches[0]!;
      const kernel = kernels[k]!;
      return kernel.kind === "horizontal"
        ? membersInSequence(kernel, launches)
        : inSequence(launches, scratch, this.memory);
    });
  }

  #custom(kernel: CustomKernelCall): Launch {
    const args = this.#programs.custom(kernel.call.kernel);
    return new CustomLaunch(this.#launchContext, this.memory, args, kernel);
  }

  #plan(kernel: Exclude<Launchable, CustomKernelCall>): Steps {
    switch (kernel.kind) {
      case "loop":
        return { steps: [this.#step(kernel)], scratch: [] };
      case "horizontal":
        return { steps: this.#shared(kernel), scratch: [] };
      case "special": {
        const bytes = kernel.output.size * dtypes[kernel.output.dtype].bytes * 2;
        const work = { bytes, operations: Infinity };
        const { kernels, scratch } = generateSpecial(kernel, this.target);
        const steps = kernels.map((generated) => ({ generated, label: kernel.label, work }));
        return { steps, scratch };
      }
    }
  }

  /** One launch for kernels of one structure; the writer's word counts where it sees differences. */
  #shared({ members, label }: HorizontalKernel): Step[] {
    const steps = members.map((member) => this.#step(member));
    if (!haveOneText(steps.map(({ generated }) => generated))) return steps;
    const total = (key: keyof Work): number => steps.reduce((sum, { work }) => sum + work[key], 0);
    return [{
      generated: generateShared(steps.map(({ generated }, k) => ({
        generated,
        inputs: members[k]!.inputs.length,
      }))),
      label: `${label}_x${members.length}`,
      work: { bytes: total("bytes"), operations: total("operations") },
    }];
  }

  #step(kernel: LoopKernel): Step {
    return {
      generated: generateLoop(kernel, this.target),
      label: kernel.label,
      work: {
        bytes: bytesOf(kernel),
        operations: extent(kernel, [...kernel.outer, ...kernel.inner]) * kernel.exprs.length,
      },
    };
  }

  #launch(step: Step): Launch {
    const args = this.#programs.kernel(step.generated.source);
    return new KernelLaunch(this.#launchContext, args, step.generated, step.work);
  }

  #errorBuffer(): Buffer {
    if (this.#errors) return this.#errors;
    this.#errors = new Buffer(this.#context, 8 * ERROR_WORDS);
    this.#transfers.write(this.#errors, 0, new Uint8Array(8 * ERROR_WORDS));
    return this.#errors;
  }

  #checkErrors(found: BigInt64Array): void {
    this.#mayHaveErrors = false;
    const [code, index, bound] = found;
    if (code === 0n) return;
    this.#transfers.write(this.#errorBuffer(), 0, new Uint8Array(8 * ERROR_WORDS));
    throw indexError(opName(Number(code)), Number(index), Number(bound));
  }

  finish(): Promise<void> {
    return this.#transfers.finish();
  }

  finishSync(): void {
    this.#transfers.finishSync();
  }

  dispose(): void {
    runAll([
      () => this.#programs.dispose(),
      () => this.#errors?.release(),
      () => this.#transfers.dispose(),
      () => this.memory.destroy(),
    ]);
    this.#errors = null;
  }
}

function capabilitiesOf(device: Device, handle: DeviceHandle): Capabilities {
  const supported: DType[] = ["float32", "float16", "bfloat16", "int32", "int64", "uint8", "bool"];
  if (device.extensions.includes("cl_khr_fp64")) supported.push("float64");
  return {
    dtypes: new Set(supported),
    fp16: handle.fp16,
    unifiedMemory: device.hostUnifiedMemory,
  };
}

/** Bytes that a kernel must move: each input and output once. */
function bytesOf(kernel: LoopKernel): number {
  const { contraction } = kernel;
  const loads = contraction ? [...kernel.loads, contraction.a, contraction.b] : kernel.loads;
  let bytes = 0;
  for (const load of loads) {
    const symbols = load.form.terms.map(([s]) => kernel.sizes[s]!);
    bytes += symbols.reduce((a, b) => a * b, 1) * dtypes[load.dtype].bytes;
  }
  for (const output of kernel.outputs) bytes += output.size * dtypes[output.dtype].bytes;
  return bytes;
}
