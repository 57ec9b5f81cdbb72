/** Kernels on the baseline tier, and the time to tell the compiler of them. */
import type { Program } from "../../../ffi/mod.ts";
import type { Block, KeptOutput, Launch, RepeatedLaunch } from "../../execution/backend.ts";
import type { BaselineKernel, BaselineKernels, BlockAccess } from "../../execution/baseline.ts";
import { isDeterministic } from "../../execution/determinism.ts";
import { beginBuild, endBuild } from "../../profiling/builds.ts";
import { countLaunch } from "../../profiling/counters.ts";
import { activeTrace } from "../../profiling/trace.ts";
import { namedKernel } from "../codegen/generated.ts";
import type { Compilation, Compiler } from "./background_compiler.ts";
import type { WarmLaunch } from "./compile_job.ts";

/** The memory of the host that the baseline tier computes in never shrinks: so much at most. */
const MAX_BYTES = 128 * 2 ** 20;

/** Milliseconds that a compiler takes for a kernel, about: so much time on the host is worth one. */
const COMPILE_MS = 100;

/** Kernels that are missing, as the program that they will be. */
export interface DeferredText {
  /** Not built yet. */
  readonly program: Program;
  /** Its source. */
  readonly text: string;
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
  readonly kept?: KeptOutput | undefined;
  readonly baseline: BaselineKernel;
  /** The launch of the device's own kernels; builds those that are missing. */
  compiled(): Launch;
}

/** A deferred program on its way. */
class Deferred {
  readonly text: DeferredText;
  /** All that were deferred with it: kernels of one plan, which run as often. */
  readonly plan: readonly Deferred[];
  /** Kernels that ran in the baseline tier, with their first launch. */
  readonly ran = new Map<string, WarmLaunch>();
  /** Milliseconds that its kernels took on the host. */
  spent = 0;
  compilation: Compilation | null = null;
  /** Compiled, or left to who needs it. */
  isClosed = false;

  constructor(text: DeferredText, plan: readonly Deferred[]) {
    this.text = text;
    this.plan = plan;
  }
}

/** The tiers of one backend. */
export class Tiers {
  readonly baseline: BaselineKernels;
  readonly access: BlockAccess;
  readonly #compiler: Compiler;
  readonly #store: ProgramStore;
  readonly #deferred = new Map<string, Deferred>();
  /** Programs worth compiling. */
  readonly #wanted = new Set<Deferred>();
  /** The one that the compiler has. */
  #current: Deferred | null = null;

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

  /** True when the kernel of a text waits for its second use, or for the compiler. */
  has(source: string): boolean {
    return this.#deferred.has(source);
  }

  /** Leaves the programs of a plan to the compiler. */
  defer(texts: readonly DeferredText[]): void {
    const plan: Deferred[] = [];
    for (const text of texts) {
      const deferred = new Deferred(text, plan);
      plan.push(deferred);
      for (const source of text.kernels.keys()) this.#deferred.set(source, deferred);
    }
  }

  /**
   * Has kernels compiled that ran before and are run again, and with them all of their plan that ran:
   * loops begin like that.
   */
  submit(sources: readonly string[]): void {
    for (const source of sources) {
      const deferred = this.#deferred.get(source);
      if (deferred === undefined || this.#isSubmitted(deferred)) continue;
      for (const each of deferred.plan) if (each.ran.size > 0) this.#want(each);
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
      if (deferred.spent > COMPILE_MS * kernels.size) this.#want(deferred);
    }
    this.#advance();
  }

  #isSubmitted(deferred: Deferred): boolean {
    return deferred.isClosed || deferred.compilation !== null || this.#wanted.has(deferred);
  }

  #want(deferred: Deferred): void {
    if (this.#isSubmitted(deferred)) return;
    this.#wanted.add(deferred);
    beginBuild(deferred.text.kernels.size);
  }

  /**
   * True while this process's driver compiles: PoCL starts no kernel meanwhile, so that what can be
   * computed on the host is computed there.
   */
  get isCompiling(): boolean {
    this.#advance();
    return this.#current?.compilation?.state === "compiling";
  }

  /** Takes what is compiled. The next is the program whose kernels took most time on the host so far. */
  #advance(): void {
    const current = this.#current;
    if (current !== null && isOver(current.compilation!)) this.#close(current);
    if (this.#current !== null || this.#wanted.size === 0) return;
    let next: Deferred | null = null;
    for (const each of this.#wanted) if (next === null || each.spent > next.spent) next = each;
    const { text: { program, text, options }, ran } = next!;
    this.#wanted.delete(next!);
    this.#current = next;
    next!.compilation = this.#compiler.compile(program, {
      text,
      options,
      launches: [...ran.values()],
    });
  }

  #close(deferred: Deferred): void {
    const { text, compilation } = deferred;
    if (deferred === this.#current) this.#current = null;
    this.#forget(deferred);
    if (compilation!.state === "built") this.#store.adopt(text);
    // What failed is missing again: who needs it builds it, and gets the error.
    else text.program.release();
    endBuild(text.kernels.size);
  }

  #forget(deferred: Deferred): void {
    deferred.isClosed = true;
    for (const source of deferred.text.kernels.keys()) this.#deferred.delete(source);
  }

  /** Has the kernels of these texts compiled as far as they were deferred. */
  finish(sources: readonly string[]): void {
    for (const source of sources) {
      const deferred = this.#deferred.get(source);
      if (deferred === undefined) continue;
      const { text, compilation } = deferred;
      if (compilation === null) {
        if (this.#wanted.delete(deferred)) endBuild(text.kernels.size);
        this.#forget(deferred);
        this.#store.buildDeferred(text);
      } else {
        compilation.wait();
        this.#close(deferred);
      }
    }
  }

  /** Ends the compiler; programs that nobody built are released. */
  dispose(): void {
    this.#compiler.dispose();
    if (this.#current !== null) this.#wanted.add(this.#current);
    for (const { text } of this.#wanted) endBuild(text.kernels.size);
    this.#wanted.clear();
    this.#current = null;
    for (const { text } of new Set(this.#deferred.values())) text.program.release();
    this.#deferred.clear();
  }
}

const isOver = ({ state }: Compilation): boolean => state === "built" || state === "failed";

/** A launch that the baseline tier computes until its kernels are compiled. */
export class TieredLaunch implements Launch {
  readonly name: string;
  readonly source: string;
  readonly bytes: number;
  readonly kept?: KeptOutput;
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
    this.source = this.#sources.map((text) => namedKernel(kernel.label, text)).join("\n\n");
    this.bytes = kernel.bytes;
    if (kernel.kept) this.kept = kernel.kept;
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
