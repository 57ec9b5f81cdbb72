import type { AllocateOptions, BufferHandle, Pool } from "./pool.ts";
import { RetryLadder, Shortage } from "./retry_ladder.ts";

/**
 * Lends a block of a pool, trying what the pool can do where memory is short: how every pool and
 * wrapper implements `allocate`.
 *
 * @param first What `pool.tryAllocate` returned.
 * @throws {OutOfMemoryError} When nothing helped.
 */
export function allocateWithRetries<B>(
  pool: Pool<B>,
  first: BufferHandle<B> | Shortage,
  nbytes: number,
  options: AllocateOptions | undefined,
): BufferHandle<B> {
  if (!(first instanceof Shortage)) return first;
  const ladder = new RetryLadder();
  const result = ladder.retry(first, () => pool.tryAllocate(nbytes, options));
  pool.countRetries(ladder, nbytes, !(result instanceof Shortage));
  if (result instanceof Shortage) throw result.error(ladder);
  return result;
}
