import type { CommandQueue, Context } from "../../ffi/mod.ts";
import type { Rule } from "../../ffi/host/option_rules.ts";
import { requireValue } from "../../ffi/host/options.ts";
import { requireObject } from "../../ffi/objects/object.ts";
import { PersistentBufferPool } from "../pools/persistent_pool.ts";
import { PinnedBufferPool } from "../pools/pinned_pool.ts";

interface ContextPools {
  pinned?: PinnedBufferPool;
  persistent?: PersistentBufferPool;
}

const pools = new WeakMap<Context, ContextPools>();

function poolsOf(context: Context): ContextPools {
  let known = pools.get(context);
  if (known === undefined) pools.set(context, known = {});
  return known;
}

/** The pinned pool of a context, if it was made already. */
export function pinnedPoolOf(context: Context): PinnedBufferPool | null {
  return pools.get(context)?.pinned ?? null;
}

/** The pinned pool of the queue's context; made at the first call. */
export function getPinnedPool(queue: CommandQueue): PinnedBufferPool {
  requireObject("get a pinned pool", queue, "CommandQueue");
  return poolsOf(queue.context).pinned ??= new PinnedBufferPool(queue);
}

/** The persistent pool of the queue's context; made at the first call. */
export function getPersistentPool(queue: CommandQueue): PersistentBufferPool {
  requireObject("get a persistent pool", queue, "CommandQueue");
  return poolsOf(queue.context).persistent ??= new PersistentBufferPool(queue);
}

/**
 * Ends the pools that {@linkcode getPinnedPool} and {@linkcode getPersistentPool} made for a
 * context.
 */
export function destroyContextPools(context: Context): void {
  const { pinned, persistent } = poolsOf(context);
  pools.delete(context);
  pinned?.destroy();
  persistent?.destroy();
}

const ofDevice: Rule = {
  takes: "a CommandQueue",
  accepts: (value) => typeof value === "object" && value !== null && "device" in value,
};

/** True when the queue's device is a GPU that shares the host's memory. */
export function isIntegratedGpu(queue: CommandQueue): boolean {
  requireValue("look at the device", "queue", queue, ofDevice);
  return queue.device.type === "gpu" && queue.device.hostUnifiedMemory;
}
