/** Ends of builds: after a first launch, or in an error. */
import { type CommandQueue, OpenCLError } from "../../../ffi/mod.ts";
import { endBuild } from "../../profiling/builds.ts";

/** Says that a kernel is compiled when its first launch, which was just enqueued, is done. */
export function endBuildAfter(queue: CommandQueue): void {
  const marker = queue.marker();
  const end = (): void => {
    marker.release();
    endBuild(1);
  };
  // Whoever reads what the kernel computes gets its error.
  marker.wait().then(end, end);
}

/** Has the error of a build say which of the user's kernels it is. */
export function named<T>(name: string, build: () => T): T {
  try {
    return build();
  } catch (error) {
    if (error instanceof OpenCLError) {
      error.message = `Cannot build the kernel ${name}: ${error.message}`;
    }
    throw error;
  }
}
