/** Which kernels the baseline tier computes, and when the compiler is told of them. */
import type { Program } from "../../../ffi/mod.ts";
import type { Block, Launch, RepeatedLaunch } from "../../execution/backend.ts";
import type { BaselineKernel, BaselineKernels, BlockAccess } from "../../execution/baseline.ts";
import { isDeterministic } from "../../execution/determinism.ts";
import { beginBuild, endBuild } from "../../profiling/builds.ts";
import { countLaunch } from "../../profiling/counters.ts";
import { activeTrace } from "../../profiling/trace.ts";
import type { Compilation, Compiler } from "./background_compiler.ts";
import type { WarmLaunch } from "./compile_worker.ts";

/** The memory of the host that the baseline tier computes in never shrinks: so much at most. */
const MAX_BYTES = 128 * 2 ** 20;

/** Milliseconds that a compiler takes for a kernel, about: so much time on the host is worth one. */
const COMPILE_MS = 100;

/** Kernels that are missing, as the program that they will be. */
export interface DeferredText {
  /** Not built yet. */
  readonly program: Program;
  /** The compiler's options. */
  readonly options: string;
  /** The names of its kernels, by their texts. */
  readonly kernels: ReadonlyMap<string, string>;
}

/** Compiled kernels: what the tiers ask of their owner. */
export interface ProgramStore {
  /** True where the kernel of a text is compiled. */
  has(source: string): boolean;
  /** Takes a program that was built elsewhere; its kernels are compiled now. */
  adopt(deferred: DeferredText): void;
  /** Builds a deferred program here and now. */
  buildDeferred(deferred: DeferredText): void;
}

/** One kernel of a launch, and what compiling it takes to know. */
export interface TieredStep {
  readonly source: string;
  /** A launch of the kernel of that name over buffers of so many bytes each. */
  warm(name: string, bytes: readonly number[]): WarmLaunch;
}

/** A launch in both tiers. */
export interface TieredKernel {
  readonly label: string;
  readonly steps: readonly TieredStep[];
  /** Bytes that it must move at least. */
  readonly bytes: number;
  readonly baseline: BaselineKernel;
  /** The launch of the device's own kernels; builds those that are missing. */
  compiled(): Launch;
}

/** A deferred program on its way. */
class Deferred {
  readonly text: DeferredText;
  /** Kernels that ran in the baseline tier, with their first launch. */
  readonly ran = new Map<string, WarmLaunch>();
  /** Milliseconds that its kernels took on the host. */
  spent = 0;
  compilation: Compilation | null = null;

  constructor(text: DeferredText) {
    this.text = text;
  }
}

/** The tiers of one backend. */
export class Tiers {
  readonly baseline: BaselineKernels;
  readonly access: BlockAccess;
  readonly #compiler: Compiler;
  readonly #store: ProgramStore;
  readonly #deferred = new Map<string, Deferred>();
  /** What the compiler has been told of, in that order. */
  readonly #open: Deferred[] = [];

  constructor(
    baseline: BaselineKernels,
    store: ProgramStore,
    compiler: Compiler,
    access: BlockAccess,
  ) {
    this.baseline = baseline;
    this.access = access;
    this.#store = store;
    this.#compiler = compiler;
  }

  /** Whether the kernel of a text waits for its second use, or for the compiler. */
  has(source: string): boolean {
    return this.#deferred.has(source);
  }

  /** Leaves a program to the compiler. */
  defer(text: DeferredText): void {
    const deferred = new Deferred(text);
    for (const source of text.kernels.keys()) this.#deferred.set(source, deferred);
  }

  /** Has the compiler begin with kernels that ran before and are run again: loops begin like that. */
  submit(sources: readonly string[]): void {
    for (const source of sources) {
      const deferred = this.#deferred.get(source);
      if (deferred) this.#submit(deferred);
    }
  }

  /**
   * Notes a run on the host.
   *
   * @param steps The launch's kernels.
   * @param bytes Of its buffers.
   * @param spent Milliseconds.
   */
  ran(steps: readonly TieredStep[], bytes: readonly number[], spent: number): void {
    for (const { source, warm } of steps) {
      const deferred = this.#deferred.get(source);
      if (!deferred) continue;
      const { text: { kernels }, ran } = deferred;
      if (!ran.has(source)) ran.set(source, warm(kernels.get(source)!, bytes));
      deferred.spent += spent / steps.length;
      // Launches of other shapes, which may never come again, share the kernel.
      if (deferred.spent > COMPILE_MS * kernels.size) this.#submit(deferred);
    }
  }

  #submit(deferred: Deferred): void {
    if (deferred.compilation !== null) return;
    const { program, options, kernels } = deferred.text;
    beginBuild(kernels.size);
    deferred.compilation = this.#compiler.compile(program, options, [...deferred.ran.values()]);
    this.#open.push(deferred);
  }

  /**
   * Whether the compiler is at work: PoCL starts no kernel while it compiles another, so that what
   * can be computed on the host is computed there.
   */
  get isCompiling(): boolean {
    const open = this.#open;
    while (open.length > 0 && open[0]!.compilation!.state !== "open") this.#close(open.shift()!);
    return open.length > 0;
  }

  #close({ text, compilation }: Deferred): void {
    for (const source of text.kernels.keys()) this.#deferred.delete(source);
    if (compilation!.state === "built") this.#store.adopt(text);
    // What failed is missing again: who needs it builds it, and gets the error.
    else text.program.release();
    endBuild(text.kernels.size);
  }

  /** Has the kernels of these texts compiled as far as they were deferred. */
  finish(sources: readonly string[]): void {
    for (const source of sources) {
      const deferred = this.#deferred.get(source);
      if (deferred === undefined) continue;
      const { text, compilation } = deferred;
      if (compilation === null) {
        for (const each of text.kernels.keys()) this.#deferred.delete(each);
        this.#store.buildDeferred(text);
      } else {
        compilation.wait();
        this.#open.splice(this.#open.indexOf(deferred), 1);
        this.#close(deferred);
      }
    }
  }

  /** Ends the compiler; programs that nobody built are released. */
  dispose(): void {
    this.#compiler.dispose();
    for (const { text } of this.#open) endBuild(text.kernels.size);
    this.#open.length = 0;
    for (const { text } of new Set(this.#deferred.values())) text.program.release();
    this.#deferred.clear();
  }
}

/** A launch that the baseline tier computes until its kernels are compiled. */
export class TieredLaunch implements Launch {
  readonly name: string;
  readonly source: string;
  readonly bytes: number;
  readonly #tiers: Tiers;
  readonly #store: ProgramStore;
  readonly #kernel: TieredKernel;
  readonly #sources: readonly string[];
  #compiled: Launch | null = null;
  #hasRun = false;

  constructor(tiers: Tiers, store: ProgramStore, kernel: TieredKernel) {
    this.#tiers = tiers;
    this.#store = store;
    this.#kernel = kernel;
    this.#sources = kernel.steps.map(({ source }) => source);
    this.name = kernel.label;
    this.source = this.#sources.map((text) => `kernel void ${kernel.label}${text}`).join("\n\n");
    this.bytes = kernel.bytes;
  }

  run(inputs: readonly Block[], outputs: readonly Block[]): void {
    const compiled = this.#compiled;
    if (compiled !== null && !this.#tiers.isCompiling) compiled.run(inputs, outputs);
    else if (this.#mayServe(inputs, outputs)) this.#serve(inputs, outputs);
    else (this.#compiled ??= this.#kernel.compiled()).run(inputs, outputs);
  }

  repeated(): RepeatedLaunch | null {
    return this.#compiled?.repeated?.() ?? null;
  }

  /** True where the baseline tier is to compute this run. */
  #mayServe(inputs: readonly Block[], outputs: readonly Block[]): boolean {
    if (isDeterministic()) return false;
    const tiers = this.#tiers;
    if (this.#hasRun) tiers.submit(this.#sources);
    const isCompiling = tiers.isCompiling, store = this.#store;
    const isBuilt = this.#sources.every((text) => store.has(text));
    if (isBuilt && !isCompiling) return false;
    // What failed to compile is built here, for the error.
    if (this.#sources.some((text) => !store.has(text) && !tiers.has(text))) return false;
    const bytes = [...inputs, ...outputs].reduce((sum, { nbytes }) => sum + nbytes, 0);
    return bytes <= MAX_BYTES;
  }

  #serve(inputs: readonly Block[], outputs: readonly Block[]): void {
    const { baseline, label, steps, bytes } = this.#kernel, tiers = this.#tiers;
    const start = performance.now();
    baseline.run(inputs, outputs, tiers.access);
    const spent = performance.now() - start;
    tiers.ran(steps, [...inputs, ...outputs].map(({ nbytes }) => nbytes), spent);
    this.#hasRun = true;
    countLaunch(bytes);
    activeTrace()?.kernel(`${label} (built-in)`, start, bytes);
  }
}
