import { EnvironmentError, readEnvironment } from "../../ffi/host/environment.ts";
import type { CommandQueue } from "../../ffi/mod.ts";
import { BufferPool } from "../pools/buffer_pool.ts";
import { GuardPool } from "../wrappers/guard_pool.ts";
import { PersistentBufferPool } from "../pools/persistent_pool.ts";
import type { Pool } from "../core/pool.ts";
import { SlabPool } from "../pools/slab_pool.ts";
import type { DeviceSource } from "../sources/device_source.ts";
import { SvmPool } from "../pools/svm_pool.ts";

const pools: Record<string, (queue: CommandQueue, source?: DeviceSource) => Pool> = {
  slab: (queue, source) => new SlabPool(source ?? queue),
  persistent: (queue) => new PersistentBufferPool(queue),
  buffer: (queue) => new BufferPool(queue),
  svm: (queue) => new SvmPool(queue),
};

/**
 * The pool that NETCL_POOL names, by default a {@linkcode SlabPool}. With NETCL_DEBUG=1 a
 * {@linkcode GuardPool} watches over it.
 *
 * @param queue The queue whose context and device the memory is for.
 * @param source Where a {@linkcode SlabPool} gets it. Default: what suits the device.
 * @throws {RangeError} When NETCL_POOL names no pool.
 */
export function createPool(queue: CommandQueue, source?: DeviceSource): Pool {
  const name = readEnvironment("NETCL_POOL") ?? "slab";
  const make = pools[name];
  if (make === undefined) {
    const known = Object.keys(pools).join(", ");
    throw new EnvironmentError("NETCL_POOL", name, `one of ${known} is needed`);
  }
  const pool = make(queue, source);
  return readEnvironment("NETCL_DEBUG") === "1" ? GuardPool.forQueue(pool, queue) : pool;
}
