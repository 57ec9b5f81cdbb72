/** Compiled kernels of one device, by their text; what is missing is built in one program. */
import { host } from "../../../ffi/runtime/host.ts";
import { type Context, type Device, type Kernel, OpenCLError, Program } from "../../../ffi/mod.ts";
import { runAll } from "../../../ffi/host/run_all.ts";
import { activeTrace } from "../../profiling/trace.ts";
import { buildProgram, type ProgramSource } from "../building/build_program.ts";
import { BuildHelpers, helperCount } from "../building/build_helpers.ts";
import { groupsOf } from "../building/kernel_groups.ts";
import { beginBuild, endBuild, isWatchingBuilds } from "../../profiling/builds.ts";
import { countBuild, countCacheHit } from "../../profiling/counters.ts";
import type { CustomKernel } from "../../graph/custom.ts";
import { buildOptions, type Driver, driverOf, indispensable, optionsOfText } from "./driver.ts";
import { endBuildAfter, named } from "./ends_of_builds.ts";
import { DeviceAddresses, TELLER } from "./addresses.ts";
import { AddressedArguments, KernelArguments, LaunchKernels } from "./kernel_arguments.ts";
import { addressedSource, wordsOfText } from "../codegen/placed_kernel.ts";
import { namedKernel } from "../codegen/generated.ts";
import { declarationsOf, WITHOUT_HEADER } from "../codegen/builtins.ts";
import { hasLifted, LIFTED_PROBE } from "../codegen/units/warpgroup_helpers.ts";
import type { DeferredText, ProgramStore } from "../tiers/tiers.ts";
import type { BinaryCache } from "./binary_cache.ts";
import {
  kernelName,
  type KernelText,
  kernelTextFor,
  programText,
  wordsIn,
} from "./kernel_texts.ts";

/** A program to be built, and the kernels that it is of; those of users are not in the group. */
interface BuildRequest extends ProgramSource {
  readonly kernels: number;
  readonly group: readonly KernelText[];
}

/** The moment at which a driver is asked for the binaries of what it built. */
export type KeepBinaries = "at once" | "at the end";

/** Milliseconds that the end of a program may take for binaries. */
const END_MS = 400;
/** Assumed milliseconds a kernel where a driver compiles for a binary, before timing. */
const KERNEL_MS = 100;

/** The kernels of one context and device. */
export class Programs implements ProgramStore {
  readonly #context: Context;
  readonly #device: Device;
  readonly #cache: BinaryCache | null;
  readonly #keepBinaries: KeepBinaries;
  readonly #options: string;
  readonly #driver: Driver;
  readonly #buildsBeside: boolean;
  readonly #helpers: BuildHelpers | null;
  readonly #programs: Program[] = [];
  /** The addresses that kernels are told; null where they are given memory objects. */
  readonly #addresses: DeviceAddresses | null;
  /** True when another thread has the compiler: then nothing waits for it at the end. */
  isCompilerBusy: () => boolean = () => false;
  /** Programs that are left to another thread. */
  readonly #deferred = new WeakMap<DeferredText, BuildRequest>();
  /** Programs to keep at the end, in order of first use, with their numbers of kernels. */
  readonly #unsaved = new Map<
    string,
    { text: string; options: string; program: Program; kernels: number }
  >();
  readonly #kernels = new Map<string, KernelArguments>();
  /** Programs that were parsed only: the driver compiles each kernel for its first launch. */
  readonly #compiledByLaunch = new WeakSet<Program>();

  constructor(
    context: Context,
    device: Device,
    cache: BinaryCache | null,
    keepBinaries: KeepBinaries = "at once",
    buildsBeside?: boolean,
  ) {
    this.#keepBinaries = keepBinaries;
    this.#context = context;
    this.#device = device;
    this.#cache = cache;
    const driver = driverOf(device);
    this.#options = buildOptions(driver);
    this.#driver = driver;
    this.#addresses = driver.takesAddresses
      ? new DeviceAddresses(context, device, () => this.#teller())
      : null;
    this.#buildsBeside = buildsBeside ?? driver.buildsOneAtATime;
    this.#helpers = this.#buildsBeside && cache ? new BuildHelpers(cache.path, device) : null;
  }

  /** True where the kernel of a text is compiled. */
  has(source: string): boolean {
    return this.#kernels.has(source);
  }

  /** The compiled kernel of a text that was built before. */
  kernel(source: string): KernelArguments {
    const kernel = this.#kernels.get(source);
    if (!kernel) throw new Error("The kernel was not built");
    return kernel;
  }

  /**
   * Builds what is missing. A compiler's start-up costs more than a small kernel: all are one program
   * where the driver builds in one process, else several, which are built side by side.
   */
  build(texts: readonly KernelText[]): void {
    const groups = groupsOf(this.#missing(texts), this.#buildsBeside);
    this.#buildAll(
      groups.map((group) => this.#request(group)).filter((request) => {
        const program = this.#cached(request);
        if (program !== null) this.#adopt(request, program);
        return program === null;
      }),
    );
  }

  #missing(texts: readonly KernelText[]): KernelText[] {
    const missing = new Map<string, KernelText>();
    for (const text of texts) {
      if (!this.#kernels.has(text.source)) missing.set(text.source, text);
    }
    return [...missing.values()];
  }

  /**
   * The same for a driver that compiles slowly: what it has compiled in an earlier run is built.
   *
   * @returns The rest, as programs of a few kernels that are not built yet; the caller's to build or release.
   */
  buildOrDefer(texts: readonly KernelText[]): DeferredText[] {
    const requests = groupsOf(this.#missing(texts), true).map((group) => this.#request(group));
    const cache = this.#cache?.isEmpty ? null : this.#cache; // asked once, not for each text
    return requests.filter(({ text, options, group }) => {
      const isNew = !cache?.has(text, options);
      if (!isNew) this.build(group);
      return isNew;
    }).map((request) => this.#defer(request));
  }

  #defer(request: BuildRequest): DeferredText {
    const { text, group } = request, program = new Program(this.#context, text);
    const options = program.buildOptions(request.options);
    const kernels = new Map(group.map((each) => [each.source, kernelName(each)]));
    const deferred = { program, text, options, kernels };
    this.#deferred.set(deferred, request);
    return deferred;
  }

  /** Builds a deferred program here and now. */
  buildDeferred(deferred: DeferredText): void {
    deferred.program.release();
    this.#buildAll([this.#deferred.get(deferred)!]);
  }

  /** Takes a deferred program that was built elsewhere, and its kernels compiled. */
  adopt(deferred: DeferredText): void {
    const request = this.#deferred.get(deferred)!;
    this.#cache?.noteCompiled(request.text, request.options);
    this.#keepBuilt(request, deferred.program);
    this.#adopt(request, deferred.program);
  }

  #request(group: readonly KernelText[]): BuildRequest {
    return {
      text: programText(
        group.map((text) => kernelTextFor(text, this.#driver)),
        this.#driver.readsHeader,
      ),
      options: this.#options,
      isLifted: group.some(({ source }) => hasLifted(source)),
      kernels: group.length,
      group,
    };
  }

  /** Builds programs that no cache has; in helpers, too, where there is much to do. */
  #buildAll(requests: readonly BuildRequest[]): void {
    if (requests.length === 0) return;
    const byCost = requests.toSorted((a, b) => b.text.length - a.text.length);
    const helpers = this.#helpers, count = helpers === null ? 0 : helperCount(byCost);
    // All that a program will need is to be built.
    if (count === 0 && this.#cache?.isEmpty) helpers?.expect();
    let open = byCost.reduce((sum, { kernels }) => sum + kernels, 0);
    const finish = (request: BuildRequest, program: Program): void => {
      this.#adopt(request, program);
      open -= request.kernels;
      if (!this.#compiledByLaunch.has(program)) endBuild(request.kernels);
    };
    beginBuild(open);
    try {
      const build = (request: BuildRequest): void => finish(request, this.#built(request));
      if (count === 0) return byCost.forEach(build);
      helpers!.build(byCost, count, {
        build: (job) => build(byCost[job]!),
        adopt: (job, binary) => {
          const request = byCost[job]!, program = this.#fromBinary(binary, request.options);
          if (program === null) return false;
          this.#keepBuilt(request, program);
          finish(request, program);
          return true;
        },
      });
    } finally {
      if (open > 0) endBuild(open);
    }
  }

  /** Takes the kernels of a built program, which lives as long as this. */
  #adopt({ group }: BuildRequest, program: Program): void {
    this.#programs.push(program);
    for (const text of group) {
      this.#kernels.set(
        text.source,
        this.#arguments(program, kernelName(text), wordsIn(text, this.#driver)),
      );
    }
  }

  /** A kernel that was built before, in the forms in which the driver takes it. */
  forms(text: KernelText): LaunchKernels {
    return new LaunchKernels(this.kernel(text.source), () => this.#listed(text));
  }

  /** A kernel that takes memory objects, where others are told addresses. */
  #listed(listed: KernelText): KernelArguments {
    const { source } = listed, key = `listed\n${source}`;
    let kernel = this.#kernels.get(key);
    if (kernel) return kernel;
    const name = kernelName(listed);
    const text = programText([namedKernel(name, source)], this.#driver.readsHeader);
    const request = { text, options: this.#options, isLifted: hasLifted(source) };
    this.#kernels.set(key, kernel = this.#arguments(this.#program(request), name));
    return kernel;
  }

  #teller(): Kernel {
    const { name, text } = TELLER;
    return this.#program({ text, options: this.#options, isLifted: false }).kernel(name);
  }

  /** The same, told addresses; null where the driver is given memory objects, or the text takes nothing else. */
  addressed(custom: CustomKernel): KernelArguments | null {
    const source = this.#addresses && addressedSource(custom);
    return source === null ? null : this.custom(custom, source, wordsOfText(custom));
  }

  /**
   * A kernel that a user wrote, in a program of its own.
   *
   * @param source Its text, or what it has become.
   * @param words The number of words that it takes; 0 where it takes memory objects.
   * @throws {KernelBuildError} With the kernel's name, the compiler's log and the lines that it names.
   */
  custom(custom: CustomKernel, source: string, words = 0): KernelArguments {
    const { name, buildOptions } = custom;
    const key = `${name}\n${buildOptions}\n${source}`;
    let kernel = this.#kernels.get(key);
    if (kernel) return kernel;
    const options = optionsOfText(this.#driver, custom);
    const declares = options.includes(WITHOUT_HEADER);
    const text = declares ? `${declarationsOf(source)}\n${source}` : source;
    const program = (): Program => this.#program({ text, options, isLifted: false });
    kernel = named(name, () => this.#arguments(program(), name, words));
    this.#kernels.set(key, kernel);
    return kernel;
  }

  /** A program of one kernel, from the cache or built. */
  #program(source: ProgramSource): Program {
    const request = { ...source, kernels: 1, group: [] };
    const cached = this.#cached(request);
    if (cached === null) this.#buildAll([request]);
    else this.#adopt(request, cached);
    return this.#programs.at(-1)!;
  }

  /** A kernel of a program; who watches builds is told when the driver is done with it. */
  #arguments(program: Program, name: string, words = 0): KernelArguments {
    const create = (): Kernel => program.kernel(name);
    const kernel = words === 0
      ? new KernelArguments(create)
      : new AddressedArguments(create, this.#addresses!, words);
    if (this.#compiledByLaunch.has(program)) kernel.onFirstLaunch = endBuildAfter;
    return kernel;
  }

  #cached({ text, options }: ProgramSource): Program | null {
    const cached = this.#cache?.read(text, options);
    if (!cached) return null;
    const program = this.#fromBinary(cached, options);
    if (program) countCacheHit();
    else this.#cache!.remove(text, options);
    return program;
  }

  #built(request: BuildRequest): Program {
    const start = performance.now(), { kernels } = request;
    const byLaunch = this.#keepBinaries === "at the end" && isWatchingBuilds();
    const program = this.#compiled(request);
    if (byLaunch) this.#compiledByLaunch.add(program);
    activeTrace()?.host("build a program", start, { kernels });
    this.#keepBuilt(request, program);
    return program;
  }

  /** Builds a program; where that fails, with all declarations, and without options that drivers may not know. */
  #compiled(request: BuildRequest): Program {
    const options = indispensable(request.options);
    try {
      return buildProgram(this.#context, this.#device, request);
    } catch (error) {
      if (options === request.options || !(error instanceof OpenCLError)) throw error;
      return buildProgram(this.#context, this.#device, { ...request, options });
    }
  }

  /** Counts a program that no cache had, and has it kept on disk. */
  #keepBuilt({ text, options, kernels }: BuildRequest, program: Program): void {
    countBuild();
    if (this.#cache === null) return;
    if (this.#keepBinaries === "at once") this.#keep(text, program, options);
    else {
      if (this.#unsaved.size === 0) host.addEndingListener("unload", this.#keepSome);
      this.#unsaved.set(`${options}\n${text}`, { text, options, program, kernels });
    }
  }

  /** True where the driver builds what is lifted: PTX of another form than is known here cannot be. */
  canLift(): boolean {
    try {
      this.#program({ text: LIFTED_PROBE, options: this.#options, isLifted: true });
      return true;
    } catch (error) {
      if (error instanceof OpenCLError) return false;
      throw error;
    }
  }

  /** That a driver gives no binary is no error: the next start compiles, no more. */
  #keep(text: string, program: Program, options: string): void {
    try {
      this.#cache?.write(text, options, program.binary(this.#device));
    } catch (error) {
      if (!(error instanceof OpenCLError)) throw error;
    }
  }

  /**
   * Keeps what fits into a moment at the end, what was used first before the rest: it is what the
   * next start waits for. The others have their turn at the end of a later one.
   */
  readonly #keepSome = (): void => {
    host.removeEndingListener("unload", this.#keepSome);
    const start = performance.now();
    let done = 0;
    for (const { text, options, program, kernels } of this.#unsaved.values()) {
      this.#cache?.noteCompiled(text, options);
      if (this.isCompilerBusy()) continue;
      const spent = performance.now() - start;
      const kernelMs = done > 0 ? spent / done : KERNEL_MS;
      if (spent + kernels * kernelMs > END_MS) continue;
      this.#keep(text, program, options);
      done += kernels;
    }
    this.#unsaved.clear();
  };

  /** A damaged or foreign binary is not an error: the source is at hand. */
  #fromBinary(binary: Uint8Array, options: string): Program | null {
    let program: Program | undefined;
    try {
      program = Program.fromBinary(this.#context, this.#device, binary);
      return program.build(indispensable(options));
    } catch (error) {
      program?.release();
      if (error instanceof OpenCLError) return null;
      throw error;
    }
  }

  dispose(): void {
    runAll([
      () => this.#helpers?.dispose(),
      () => this.#addresses?.release(),
      this.#keepSome,
      ...[...this.#kernels.values()].map(({ kernel }) => () => kernel.release()),
      ...this.#programs.map((program) => () => program.release()),
    ]);
    const neverLaunched = [...this.#kernels.values()].filter((each) => each.onFirstLaunch !== null);
    if (neverLaunched.length > 0) endBuild(neverLaunched.length); // nobody waits for these any more
    this.#kernels.clear();
    this.#programs.length = 0;
  }
}
