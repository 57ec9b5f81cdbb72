/**
 * Launches of kernels.
 *
 * @module
 */
import { OpenCLError } from "../library/errors.ts";
import type { Event } from "../events/event.ts";
import { eventList, listEvents } from "../events/event_list.ts";
import type { Kernel } from "../kernels/kernel.ts";
import { cl } from "../library/library.ts";
import type { LaunchOptions } from "./queue_options.ts";
import { toSize } from "../host/size.ts";
import type { Handle } from "../symbols/types.ts";

/** Puts work sizes into an array for C. */
export function writeSizes(sizes: readonly number[], out: BigUint64Array): BigUint64Array {
  for (let i = 0; i < sizes.length; i++) out[i] = toSize(sizes[i]!, "a work size");
  return out;
}

/**
 * Sets the arguments of a launch, and refuses sizes that the driver would read beyond the end of.
 */
export function prepareLaunch(
  kernel: Kernel,
  { args, global, local, offset }: Omit<LaunchOptions, "wait">,
): void {
  if (args !== undefined) kernel.setArgs(args);
  else kernel.checkArgs();
  checkDimensions(kernel.name, global, local, offset);
}

/** Refuses work sizes of more or fewer dimensions than the launch has. */
export function checkDimensions(
  kernel: string,
  global: readonly number[],
  ...others: (readonly number[] | undefined)[]
): void {
  const dimensions = global.length;
  if (dimensions < 1 || dimensions > 3) {
    throw new RangeError(
      `Cannot launch ${kernel} over [${global}]: work sizes have 1 to 3 dimensions`,
    );
  }
  for (const other of others) {
    if (other && other.length !== dimensions) {
      throw new RangeError(
        `Cannot launch ${kernel} over [${global}] with [${other}]: the dimensions differ`,
      );
    }
  }
}

/**
 * Refuses arrays that the driver would read beyond the end of, and memory that was released since
 * it was set.
 *
 * @throws {RangeError} If there are fewer sizes than dimensions.
 * @throws {DisposedError} If the kernel or one of its arguments was released.
 */
export function checkLaunch(
  kernel: Kernel,
  workDim: number,
  global: BigUint64Array,
  local: BigUint64Array | null,
): void {
  kernel.checkArgs();
  const fits = workDim >= 1 && workDim <= 3 && global.length >= workDim;
  if (fits && (local === null || local.length >= workDim)) return;
  throw new RangeError(
    `Cannot launch ${kernel.name} in ${workDim} dimensions over [${global}]` +
      `${local ? ` in groups of [${local}]` : ""}: one size a dimension is needed, 1 to 3 of them`,
  );
}

/**
 * Enqueues a kernel whose arguments are set. Makes no object and costs little more than the call.
 *
 * @param event Where the driver puts the event, if there is to be one.
 */
export function launch(
  queue: Handle<"CommandQueue">,
  kernel: Kernel,
  workDim: number,
  offset: BigUint64Array | null,
  global: BigUint64Array,
  local: BigUint64Array | null,
  wait: readonly Event[] | undefined,
  event: BigUint64Array | null,
): void {
  const status = cl.clEnqueueNDRangeKernel(
    queue,
    kernel.unsafeHandle,
    workDim,
    offset,
    global,
    local,
    listEvents(wait),
    eventList(wait),
    event,
  );
  if (status < 0) throw launchError(status, kernel, workDim, global, local);
}

function launchError(
  status: number,
  kernel: Kernel,
  workDim: number,
  global: BigUint64Array,
  local: BigUint64Array | null,
): OpenCLError {
  const list = (sizes: BigUint64Array): string => `[${sizes.subarray(0, workDim).join(", ")}]`;
  const sizes = local ? `${list(global)} in groups of ${list(local)}` : list(global);
  return new OpenCLError(status, "clEnqueueNDRangeKernel", `${kernel.name} over ${sizes}`);
}
