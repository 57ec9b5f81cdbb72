/**
 * Makes the driver's queues and gives them back.
 *
 * @module
 */
import { removeQueue } from "../events/context_work.ts";
import { QueueProperties } from "../library/constants.ts";
import { check } from "../library/errors.ts";
import { cl } from "../library/library.ts";
import type { Context } from "../objects/context.ts";
import type { Device } from "../objects/device.ts";
import { type Releaser, releasers } from "../objects/object.ts";
import type { Handle } from "../symbols/types.ts";
import type { QueueOptions } from "./queue_options.ts";

const errorCode = new Int32Array(1);

/** Gives a queue back, also one that the garbage collector found; its commands go on. */
export const queueReleaser: Releaser = {
  call: releasers.queue.call,
  run(queue) {
    removeQueue(queue as Handle<"CommandQueue">);
    return releasers.queue.run(queue);
  },
};

/** Asks the driver for a queue. */
export function createQueue(
  context: Context,
  device: Device,
  options: QueueOptions,
): Handle<"CommandQueue"> {
  const { profiling, outOfOrder } = options;
  const properties = (profiling ? QueueProperties.PROFILING_ENABLE : 0n) |
    (outOfOrder ? QueueProperties.OUT_OF_ORDER_EXEC_MODE_ENABLE : 0n);
  // The 1.x function: deprecated, but present in every library, and all that these properties need.
  const { unsafeHandle } = device;
  const handle = cl.clCreateCommandQueue(context.unsafeHandle, unsafeHandle, properties, errorCode);
  check(errorCode[0]!, "clCreateCommandQueue");
  return handle;
}
