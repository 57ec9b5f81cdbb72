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
  Launch,
  UploadOptions,
} from "../../execution/backend.ts";
import { countTransfer } from "../../profiling/counters.ts";
import type { DeviceHandle } from "../../devices/device_handle.ts";
import { type DType, dtypes } from "../../graph/dtype.ts";
import type { Batchable } from "../../schedule/batch.ts";
import { NARROW_END } from "../../kernel/index_range.ts";
import {
  type BatchKernel,
  type CustomKernelCall,
  extent,
  type Launchable,
  type LoopKernel,
} from "../../kernel/kernel.ts";
import { defaultRules, type FusionRules } from "../../schedule/lower.ts";
import { opName } from "../../graph/op_names.ts";
import { canSplit, type SplitReduction, splitReduction } from "../../schedule/split.ts";
import { splitProduct } from "../../schedule/split_product.ts";
import { indexError } from "../../graph/index_error.ts";
import { batchableText, generateBatch } from "../codegen/batch.ts";
import { BinaryCache } from "./binary_cache.ts";
import { CustomLaunch } from "./custom_launch.ts";
import type { Generated } from "../codegen/generated.ts";
import type { Target } from "../codegen/target.ts";
import {
  generateLoop,
  generateSpecial,
  sumParts,
  supportsImplicitPadding,
} from "../templates/generate.ts";
import { reducesInGroups } from "../templates/loops/group_reduction.ts";
import type { Scratch } from "../templates/parts/template.ts";
import { inSequence, inTwoSteps, KernelLaunch, type LaunchContext, type Work } from "./launch.ts";
import { hasMatrixUnits } from "./matrix_units.ts";
import { driverOf } from "./driver.ts";
import { Programs } from "./programs.ts";
import { type Copy, TransferEngine } from "./transfers.ts";
import { readTunedTiles } from "./tuned_tiles.ts";

/** What a kernel says about an index out of range: the operation, the index, the bound. */
const ERROR_WORDS = 3;
/** GPUs add up to 20 times while they move a byte (H100: 60 TFLOP/s, 3 TB/s). */
const GPU_CHEAP = 64;
/** One tanh or sigmoid, but no erf: gelu's gradient behind a product takes 430 us, in a kernel of its own 125 (H100). */
const GPU_EPILOGUE = 10;

/** A kernel's text with what its launch counts, and the split that it may need. */
interface Step {
  readonly generated: Generated;
  readonly label: string;
  readonly work: Work;
}

/** What one kernel of a schedule is launched as. */
interface Steps {
  readonly steps: readonly Step[];
  /** What the first of two steps writes for the second. */
  readonly between: readonly Scratch[];
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
  #rules: FusionRules | null = null;
  readonly #transfers: TransferEngine;
  readonly #launchContext: LaunchContext;
  readonly #generated = new WeakMap<LoopKernel, Generated>();
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

  /** What kernels are written for; made with the first. */
  get target(): Target {
    return this.#target ??= targetOf(this.device);
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

  readBeside(block: Block, into: Uint8Array<ArrayBuffer>): BesideCopy {
    this.memory.uploads.await(block);
    countTransfer(into.byteLength);
    return this.#transfers.readBeside(block, into);
  }

  writeBeside(block: Block, data: Uint8Array<ArrayBuffer>): BesideCopy {
    countTransfer(data.byteLength);
    return this.#transfers.writeBeside(this.memory, block, data);
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

  /** Launches cost the host a few microseconds, and more where kernels are short. */
  readonly batching = (kernel: LoopKernel): Batchable | null =>
    kernel.contraction || this.#partsOf(kernel) > 1
      ? null
      : batchableText(this.#generate(kernel), this.#clDevice.query("MAX_PARAMETER_SIZE"));

  /** What a schedule is planned by; made with the first. */
  get rules(): FusionRules {
    return this.#rules ??= {
      ...defaultRules,
      takesPadding: (kernel) => supportsImplicitPadding(kernel, this.target),
      ...(this.target.isGpu
        ? {
          minRows: 2 * this.target.computeUnits,
          derivedCheap: GPU_CHEAP,
          maxEpilogue: GPU_EPILOGUE,
        }
        : {}),
    };
  }

  prepare(kernels: readonly Launchable[]): Launch[] {
    const plans = kernels.map((kernel) => kernel.kind === "custom" ? null : this.#plan(kernel));
    const steps = plans.flatMap((plan) => plan?.steps ?? []);
    this.#programs.build(
      steps.map(({ generated, label }) => ({ source: generated.source, label })),
    );
    return plans.map((plan, k) => {
      if (plan === null) return this.#custom(kernels[k] as CustomKernelCall);
      const { steps, between, scratch } = plan;
      const launches = steps.map((step) => this.#launch(step));
      const [first, second] = launches;
      if (between.length > 0) return inTwoSteps(first!, second!, between, this.memory);
      return launches.length === 1 && scratch.length === 0
        ? first!
        : inSequence(launches, scratch, this.memory);
    });
  }

  #custom(kernel: CustomKernelCall): Launch {
    const args = this.#programs.custom(kernel.call.kernel);
    return new CustomLaunch(this.#launchContext, this.memory, args, kernel);
  }

  #plan(kernel: Exclude<Launchable, CustomKernelCall>): Steps {
    if (kernel.kind === "special") {
      const bytes = kernel.output.size * dtypes[kernel.output.dtype].bytes * 2;
      const work = { bytes, operations: Infinity };
      const { kernels, scratch } = generateSpecial(kernel, this.target);
      const steps = kernels.map((generated) => ({ generated, label: kernel.label, work }));
      return { steps, between: [], scratch };
    }
    if (kernel.kind === "batch") return { steps: [this.#batch(kernel)], between: [], scratch: [] };
    const split = this.#split(kernel);
    if (split === null) return { steps: [this.#step(kernel)], between: [], scratch: [] };
    const { partial, final, between } = split;
    return { steps: [this.#step(partial), this.#step(final)], between, scratch: [] };
  }

  /** The batching asks for the text that the launch will need. */
  #generate(kernel: LoopKernel): Generated {
    let generated = this.#generated.get(kernel);
    if (!generated) this.#generated.set(kernel, generated = generateLoop(kernel, this.target));
    return generated;
  }

  #batch({ members, label }: BatchKernel): Step {
    const steps = members.map((member) => this.#step(member));
    const total = (key: keyof Work): number => steps.reduce((sum, { work }) => sum + work[key], 0);
    return {
      generated: generateBatch(steps.map(({ generated }, k) => ({
        generated,
        inputs: members[k]!.inputs.length,
      }))),
      label: `${label}_x${members.length}`,
      work: { bytes: total("bytes"), operations: total("operations") },
    };
  }

  #step(kernel: LoopKernel): Step {
    return {
      generated: this.#generate(kernel),
      label: kernel.label,
      work: {
        bytes: bytesOf(kernel),
        operations: extent(kernel, [...kernel.outer, ...kernel.inner]) * kernel.exprs.length,
      },
    };
  }

  #split(kernel: LoopKernel): SplitReduction | null {
    const parts = this.#partsOf(kernel);
    if (parts > 1) {
      return splitReduction(kernel, parts, this.target.isGpu && !reducesInGroups(kernel));
    }
    const ofSum = kernel.contraction ? sumParts(kernel, this.target) : 1;
    return ofSum > 1 ? splitProduct(kernel, ofSum) : null;
  }

  /** How many parts a row is reduced in, so that the device has enough rows. */
  #partsOf(kernel: LoopKernel): number {
    if (kernel.inner.length === 0 || !canSplit(kernel)) return 1;
    const rows = extent(kernel, kernel.outer), length = extent(kernel, kernel.inner);
    const units = this.#clDevice.maxComputeUnits;
    const inGroups = this.target.isGpu && reducesInGroups(kernel);
    const enough = !this.target.isGpu ? units * 4 : inGroups ? units * 8 : units * 512;
    const shortest = !this.target.isGpu || inGroups ? 4096 : 32;
    if (rows >= enough || rows * length < 65536) return 1;
    // A thread that wakes late finds work left where the parts are small (PoCL 3.1 deals out halves).
    const wanted = this.target.isGpu ? enough : units * 32;
    return Math.min(Math.ceil(wanted / rows), Math.floor(length / shortest));
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

function targetOf({ clDevice, deviceType }: DeviceHandle): Target {
  return {
    isGpu: deviceType === "gpu" || deviceType === "accel" || driverOf(clDevice!).itemsAreLanes,
    localMemory: clDevice!.localMemSize,
    computeUnits: clDevice!.maxComputeUnits,
    matrixUnits: hasMatrixUnits(clDevice!),
    vectorWidth: clDevice!.query("NATIVE_VECTOR_WIDTH_FLOAT"),
    narrowEnd: NARROW_END,
    tuned: readTunedTiles(clDevice!),
  };
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
