/**
 * Work sizes of a launch.
 *
 * @module
 */
import { OpenCLError } from "./errors.ts";
import type { Kernel } from "./kernel.ts";
import type { LaunchOptions } from "./queue_options.ts";
import { toSize } from "./size.ts";

/** Puts work sizes into an array for C. */
export function writeSizes(sizes: readonly number[], out: BigUint64Array): BigUint64Array {
  for (let i = 0; i < sizes.length; i++) out[i] = toSize(sizes[i]!, "a work size");
  return out;
}

/** Refuses what the driver would read beyond the end of. */
export function checkDimensions(kernel: Kernel, { global, local, offset }: LaunchOptions): void {
  const dimensions = global.length;
  if (dimensions < 1 || dimensions > 3) {
    throw new RangeError(
      `Cannot launch ${kernel.name} over [${global}]: work sizes have 1 to 3 dimensions`,
    );
  }
  for (const other of [local, offset]) {
    if (other && other.length !== dimensions) {
      throw new RangeError(
        `Cannot launch ${kernel.name} over [${global}] with [${other}]: the dimensions differ`,
      );
    }
  }
}

function list(sizes: ArrayLike<number | bigint>): string {
  return Array.from(sizes).join(", ");
}

/** The error of a launch that the driver refused. */
export function launchError(
  status: number,
  kernel: Kernel,
  global: ArrayLike<number | bigint>,
  local: ArrayLike<number | bigint> | null | undefined,
): OpenCLError {
  const sizes = `[${list(global)}]${local ? ` in groups of [${list(local)}]` : ""}`;
  return new OpenCLError(status, "clEnqueueNDRangeKernel", `${kernel.name} over ${sizes}`);
}
