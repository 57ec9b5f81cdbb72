/** Compiled kernels of one device, by their text; what is missing is built in one program. */
import { type Context, type Device, OpenCLError, Program } from "../../ffi/mod.ts";
import { runAll } from "../../ffi/run_all.ts";
import { countBuild, countCacheHit } from "../counters.ts";
import { hashText } from "../graph/hash.ts";
import { withoutDeadline } from "../lifecycle/native_handlers.ts";
import { KernelArguments } from "./kernel_arguments.ts";
import { preludeFor } from "./prelude.ts";
import type { BinaryCache } from "./binary_cache.ts";

/** A kernel to be compiled: its parameter list and body, and what to call it. */
export interface KernelText {
  readonly source: string;
  readonly label: string;
}

const OPTIONS = "-cl-std=CL1.2 -cl-mad-enable -cl-no-signed-zeros";

/** The kernels of one context and device. */
export class Programs {
  readonly #context: Context;
  readonly #device: Device;
  readonly #cache: BinaryCache | null;
  readonly #programs: Program[] = [];
  readonly #kernels = new Map<string, KernelArguments>();

  constructor(context: Context, device: Device, cache: BinaryCache | null) {
    this.#context = context;
    this.#device = device;
    this.#cache = cache;
  }

  /** The compiled kernel of a text that was built before. */
  kernel(source: string): KernelArguments {
    const kernel = this.#kernels.get(source);
    if (!kernel) throw new Error("The kernel was not built");
    return kernel;
  }

  /** Builds what is missing, as one program: a compiler's start-up costs more than a kernel. */
  build(texts: readonly KernelText[]): void {
    const missing = new Map<string, string>();
    for (const { source, label } of texts) {
      if (this.#kernels.has(source) || missing.has(source)) continue;
      missing.set(source, kernelName(label, source));
    }
    if (missing.size === 0) return;
    const program = this.#compile(programText(missing));
    this.#programs.push(program);
    for (const [source, name] of missing) {
      this.#kernels.set(source, new KernelArguments(program.kernel(name)));
    }
  }

  #compile(text: string): Program {
    const cached = this.#cache?.read(text, OPTIONS);
    if (cached) {
      const program = this.#fromBinary(cached);
      if (program) {
        countCacheHit();
        return program;
      }
      this.#cache!.remove(text, OPTIONS);
    }
    const program = withoutDeadline(() => new Program(this.#context, text).build(OPTIONS));
    countBuild();
    this.#keep(text, program);
    return program;
  }

  /** That a driver gives no binary is no error: the next start compiles, no more. */
  #keep(text: string, program: Program): void {
    if (this.#cache === null) return;
    try {
      this.#cache.write(text, OPTIONS, program.binary(this.#device));
    } catch (error) {
      if (!(error instanceof OpenCLError)) throw error;
    }
  }

  /** A damaged or foreign binary is not an error: the source is at hand. */
  #fromBinary(binary: Uint8Array): Program | null {
    let program: Program | undefined;
    try {
      program = Program.fromBinary(this.#context, this.#device, binary);
      return program.build(OPTIONS);
    } catch (error) {
      program?.release();
      if (error instanceof OpenCLError) return null;
      throw error;
    }
  }

  dispose(): void {
    runAll([
      ...[...this.#kernels.values()].map(({ kernel }) => () => kernel.release()),
      ...this.#programs.map((program) => () => program.release()),
    ]);
    this.#kernels.clear();
    this.#programs.length = 0;
  }
}

/** A name that a person can read in a trace, and that no other text has. */
function kernelName(label: string, source: string): string {
  return `${label.replace(/\W+/g, "_").slice(0, 48)}_${hashText(source).slice(0, 8)}`;
}

function programText(kernels: ReadonlyMap<string, string>): string {
  const bodies = [...kernels].map(([source, name]) => `kernel void ${name}${source}`).join("\n\n");
  const prelude = preludeFor(bodies);
  return prelude ? `${prelude}\n\n${bodies}` : bodies;
}
