/** Programs that are built while others run: who asked for them takes their kernels when they are there. */
import { host } from "../../../ffi/runtime/host.ts";
import type { JobsBeside } from "../building/build_helpers.ts";
import type { KernelArguments } from "./kernel_arguments.ts";

/** A program of one kernel. */
export interface SingleKernel {
  readonly name: string;
  readonly text: string;
  /** Of the compiler, beside the usual ones. */
  readonly options: string;
}

/** Programs of one kernel each that are built while others run. */
export interface BuiltBeside extends Disposable {
  /** The kernels, null for those that could not be built; null while they are being built. */
  ready(): readonly (KernelArguments | null)[] | null;
}

/** Kernels that are taken once, when helpers are done or their owner is. */
export function besideThis(
  jobs: JobsBeside | null,
  finish: () => void,
  kernels: () => (KernelArguments | null)[],
): BuiltBeside {
  let isTaken = false;
  const take = (): void => {
    host.removeEndingListener("unload", take);
    if (isTaken) return;
    isTaken = true;
    finish();
  };
  // A program that ends before has what is built by then in its next run.
  if (jobs !== null) host.addEndingListener("unload", take);
  const ready = (): (KernelArguments | null)[] | null => {
    if (!isTaken && jobs !== null && !jobs.isDone) return null;
    take();
    return kernels();
  };
  return { ready, [Symbol.dispose]: take };
}
