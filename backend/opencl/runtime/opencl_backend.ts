/**
 * The backend that runs on any OpenCL device.
 *
 * This folder builds programs from the texts of `opencl/templates` and keeps their binaries, enqueues
 * launches; bytes move by way of `transfers/`. It imports that, the templates, `execution/`, `devices/`,
 * `lifecycle/`, `profiling/`, memory and ffi; of kernels it knows the parameter list, never how they
 * are computed. Only `backend/backends.ts` imports it.
 */
import { type CommandQueue, type Context, type Device, libraryPath } from "../../../ffi/mod.ts";
import { runAll } from "../../../ffi/host/run_all.ts";
import {
  createPool,
  DeviceMemory,
  getPersistentPool,
  HostedSource,
  registerDeviceMemory,
} from "../../../memory/mod.ts";
import type {
  Backend,
  BesideCopy,
  Block,
  Capabilities,
  Gate,
  HostBlock,
  HostCopy,
  KeptOutput,
  Launch,
  Sign,
  UploadOptions,
} from "../../execution/backend.ts";
import type { BaselineKernel, BaselineKernels } from "../../execution/baseline.ts";
import { isDeterministic } from "../../execution/determinism.ts";
import { inSequence as membersInSequence } from "../../execution/launch_sequence.ts";
import { countTransfer } from "../../profiling/counters.ts";
import type { DeviceHandle } from "../../devices/device_handle.ts";
import type { CustomKernelCall, Launchable } from "../../kernel/kernel.ts";
import { KernelMemo } from "../../execution/kernel_memo.ts";
import { placedSource } from "../codegen/placed_kernel.ts";
import { BinaryCache } from "./binary_cache.ts";
import { CustomLaunch } from "./custom_launch.ts";
import type { Target } from "../../kernel/target.ts";
import type { KernelPlan, KernelPlanner } from "../../kernel/template.ts";
import { planKernel } from "../templates/generate.ts";
import { type LaunchStep, launchSteps } from "../templates/launch_steps.ts";
import { type FoundIndices, IndexErrors } from "./index_errors.ts";
import { inSequence, KernelLaunch, type LaunchContext } from "./launch.ts";
import { driverOf } from "./driver.ts";
import type { KernelText } from "./kernel_texts.ts";
import { Programs } from "./programs.ts";
import { type KernelArguments, LaunchKernels, warmLaunch } from "./kernel_arguments.ts";
import { BackgroundCompiler } from "../tiers/background_compiler.ts";
import { TieredLaunch, Tiers } from "../tiers/tiers.ts";
import { gatesOf } from "../transfers/gates.ts";
import { type Copy, Transfers } from "../transfers/transfers.ts";
import { capabilitiesOf, targetOf } from "./device_target.ts";

/** So many are unknown: some kernels cannot say. */
const MAX_OPERATIONS = 2 ** 40;

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
  readonly #steps = new KernelMemo<LaunchStep[]>();
  readonly #plans = new KernelMemo<KernelPlan>();
  #target: Target | null = null;
  readonly #transfers: Transfers;
  readonly #launchContext: LaunchContext;
  readonly #indexErrors: IndexErrors;
  readonly #tiers: Tiers | null;

  /**
   * @param device The device.
   * @param baseline Makes what computes kernels on the host while a slow compiler compiles them.
   */
  constructor(device: DeviceHandle, baseline: (() => BaselineKernels) | null = null) {
    this.device = device;
    this.#context = device.context!;
    this.#queue = device.queue!;
    this.#clDevice = device.clDevice!;
    this.capabilities = capabilitiesOf(this.#clDevice, device);
    const driver = driverOf(this.#clDevice);
    const host = driver.compilesSlowly ? baseline?.() ?? null : null;
    const source = host && new HostedSource(this.#queue, host);
    this.memory = new DeviceMemory(createPool(this.#queue, source ?? undefined), {
      name: device.deviceName,
      totalBytes: this.#clDevice.globalMemSize,
      queue: this.#queue,
      persistentPool: () => getPersistentPool(this.#queue),
    });
    registerDeviceMemory(device, this.memory);
    const cache = BinaryCache.open(this.#clDevice);
    const keepBinaries = driver.compilesForBinary ? "at the end" : "at once";
    this.#programs = new Programs(this.#context, this.#clDevice, cache, keepBinaries);
    this.#transfers = new Transfers(this.#queue, { gates: gatesOf(driver.gates) });
    this.#indexErrors = new IndexErrors(this.#context, this.#transfers);
    this.#tiers = host && this.#newTiers(host, source!);
    this.#launchContext = {
      queue: this.#queue,
      uploads: this.memory.uploads,
      errors: () => this.#indexErrors.forKernel(),
      afterLaunch: (isTiny) => this.#transfers.afterLaunch(isTiny),
      wakesThreads: this.#clDevice.type === "cpu",
      tinyInRow: 0,
    };
  }

  readonly planKernel: KernelPlanner = (kernel, target) =>
    target === this.#target
      ? this.#plans.get(kernel, () => planKernel(kernel, target))
      : planKernel(kernel, target);

  /** Target of planned and written kernels; made with the first. */
  get target(): Target {
    const canLift = (): boolean => this.#programs.canLift();
    return this.#target ??= targetOf(this.#clDevice, this.device.deviceType, canLift);
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
    const found = this.#indexErrors.look();
    await this.#transfers.read(this.#copies(block, into, offset, found));
    countTransfer(into.byteLength);
    this.#checkIndices(found);
  }

  readSync(block: Block, into: Uint8Array, offset = 0): void {
    const found = this.#indexErrors.look();
    this.#transfers.readSync(this.#copies(block, into, offset, found));
    countTransfer(into.byteLength);
    this.#checkIndices(found);
  }

  /** @throws {RangeError} With the first index out of range that a kernel found, in either tier. */
  #checkIndices(found: FoundIndices | null): void {
    this.#indexErrors.check(found);
    const error = this.#tiers?.baseline.takeError();
    if (error) throw error;
  }

  stage(nbytes: number): HostBlock {
    return this.#transfers.beside.stage(nbytes);
  }

  pin(bytes: Uint8Array<ArrayBuffer>): HostBlock {
    return this.#transfers.beside.pin(bytes);
  }

  readBeside(copies: readonly HostCopy[], sign?: Sign): BesideCopy {
    for (const { block, bytes } of copies) {
      this.memory.uploads.await(block);
      countTransfer(bytes.byteLength);
    }
    return this.#transfers.beside.read(copies, sign);
  }

  writeBeside(copies: readonly HostCopy[]): BesideCopy {
    for (const { bytes } of copies) countTransfer(bytes.byteLength);
    return this.#transfers.beside.write(this.memory, copies);
  }

  uploadBeside(
    data: readonly Uint8Array<ArrayBuffer>[],
    gate?: Gate,
  ): { blocks: Block[]; copy: BesideCopy } {
    for (const { byteLength } of data) countTransfer(byteLength);
    return this.#transfers.beside.upload(this.memory, data, gate);
  }

  get hasGates(): boolean {
    return this.#transfers.beside.hasGates;
  }

  gate(signs: readonly Sign[]): Gate {
    return this.#transfers.beside.gate(signs);
  }

  /** Copies of a read: the errors of the kernels before it, too, since one wait is enough. */
  #copies(
    block: Block,
    into: Uint8Array,
    offset: number,
    found: FoundIndices | null,
  ): Copy[] {
    const copies: Copy[] = found ? [found.copy] : [];
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
    const plans = kernels.map((kernel) => this.#planned(kernel));
    const isServed = plans.map(({ baseline }) => baseline !== null);
    this.#programs.build(textsOf(plans.filter((_, k) => !isServed[k])));
    const served = plans.filter((_, k) => isServed[k]);
    if (served.length > 0) this.#defer(served);
    return plans.map((plan) => this.#launch(plan));
  }

  /** Planned launch of a kernel, and who computes it while it is not compiled. */
  #planned(kernel: Launchable): PlannedLaunch {
    if (kernel.kind === "custom") return { kernel, steps: [], baseline: null };
    const steps = this.#steps.get(kernel, () => launchSteps(kernel, this.target));
    const isBuilt = steps.every(({ generated }) => this.#programs.has(generated.source));
    const isServed = !isBuilt && this.#tiers !== null && !isDeterministic();
    return { kernel, steps, baseline: isServed ? this.#tiers!.baseline.kernel(kernel) : null };
  }

  /** Leaves to the tiers what is not compiled, nor was in an earlier run; most work first. */
  #defer(plans: readonly PlannedLaunch[]): void {
    const tiers = this.#tiers!, operations = operationsOf(plans);
    const texts = textsOf(plans).filter(({ source }) => !tiers.has(source))
      .sort((a, b) => operations.get(b.source)! - operations.get(a.source)!);
    tiers.defer(this.#programs.buildOrDefer(texts));
  }

  #launch(plan: PlannedLaunch): Launch {
    const { kernel, steps, baseline } = plan, tiers = this.#tiers!, programs = this.#programs;
    if (baseline === null) return this.#compiled(plan);
    const sources = steps.map(({ generated }) => generated.source);
    if (sources.every((source) => programs.has(source))) return this.#compiled(plan);
    return new TieredLaunch(tiers, programs, {
      label: kernel.label,
      bytes: steps.reduce((sum, { work }) => sum + work.bytes, 0),
      kept: this.#keptBy(kernel),
      baseline,
      steps: steps.map(({ generated }) => ({
        source: generated.source,
        warm: (name, bytes) => warmLaunch(name, generated, bytes),
      })),
      compiled: () => {
        tiers.finish(sources);
        programs.build(textsOf([plan]));
        return this.#compiled(plan);
      },
    });
  }

  /** The launch of kernels that are built. */
  #compiled({ kernel, steps }: PlannedLaunch): Launch {
    if (kernel.kind === "custom") return this.#custom(kernel);
    const launches = steps.map((step) => this.#launchStep(step));
    if (launches.length === 1) return launches[0]!;
    return kernel.kind === "horizontal"
      ? membersInSequence(kernel, launches)
      : inSequence(launches, this.#keptBy(kernel));
  }

  /** The scratch of a kernel that follows from one of its inputs alone, where the next run finds that unchanged. */
  #keptBy(kernel: Launchable): KeptOutput | undefined {
    if (kernel.kind !== "loop" || kernel.lasting === undefined) return undefined;
    const { scratch } = this.planKernel(kernel, this.target);
    const at = scratch.findIndex(({ keptFor }) => keptFor !== undefined);
    return at < 0
      ? undefined
      : { output: kernel.outputs.length + at, input: scratch[at]!.keptFor! };
  }

  #newTiers(baseline: BaselineKernels, source: HostedSource): Tiers {
    const transfers = this.#transfers, { uploads } = this.memory;
    const compiler = new BackgroundCompiler(this.#context, this.#clDevice, libraryPath!);
    const tiers = new Tiers(baseline, this.#programs, compiler, {
      waitFor: (blocks) => {
        if (!uploads.isEmpty) { for (const block of blocks) uploads.await(block); }
        transfers.finishComputeSync();
      },
      arrayOf: ({ base }) => source.arrayOf(base),
      read: (copies) => {
        transfers.readSync(copies.map(({ block, bytes }) => {
          return { buffer: block.base, offset: block.offset, into: bytes };
        }));
      },
      write: (copies) => {
        for (const { block, bytes } of copies) transfers.write(block.base, block.offset, bytes);
      },
    });
    this.#programs.isCompilerBusy = () => tiers.isCompiling;
    return tiers;
  }

  mayRepeat(): boolean {
    return !(this.#tiers?.isCompiling ?? false);
  }

  #custom(kernel: CustomKernelCall): Launch {
    const written = kernel.call.kernel, placed = placedSource(written);
    const other = (): KernelArguments => this.#programs.custom(written, placed ?? written.source);
    const addressed = placed === null ? null : this.#programs.addressed(written);
    const kernels = new LaunchKernels(addressed ?? other(), other);
    return new CustomLaunch(this.#launchContext, this.memory, kernels, kernel, placed !== null);
  }

  #launchStep(step: LaunchStep): Launch {
    const { generated, label, work } = step;
    const kernels = this.#programs.forms({ source: generated.source, label });
    return new KernelLaunch(this.#launchContext, kernels, generated, work);
  }

  finish(): Promise<void> {
    return this.#transfers.finish();
  }

  finishSync(): void {
    this.#transfers.finishSync();
  }

  dispose(): void {
    runAll([
      () => this.#tiers?.dispose(),
      () => this.#programs.dispose(),
      () => this.#indexErrors.release(),
      () => this.#transfers.dispose(),
      () => this.memory.destroy(),
    ]);
  }
}

/** Launch that a kernel becomes. */
interface PlannedLaunch {
  readonly kernel: Launchable;
  /** None for a kernel that a user wrote. */
  readonly steps: readonly LaunchStep[];
  /** The kernel on the host; null where it is built first. */
  readonly baseline: BaselineKernel | null;
}

function textsOf(plans: readonly PlannedLaunch[]): KernelText[] {
  return plans.flatMap(({ steps }) =>
    steps.map(({ generated, label }) => ({ source: generated.source, label, generated }))
  );
}

/** Operations of all launches of a text, by its source. */
function operationsOf(plans: readonly PlannedLaunch[]): Map<string, number> {
  const operations = new Map<string, number>();
  for (const { generated: { source }, work } of plans.flatMap(({ steps }) => steps)) {
    operations.set(
      source,
      (operations.get(source) ?? 0) + Math.min(work.operations, MAX_OPERATIONS),
    );
  }
  return operations;
}
