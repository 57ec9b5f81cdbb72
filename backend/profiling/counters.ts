/** Counters of the backends since the last reset: kernels, bytes, builds. */

const counts = { kernels: 0, bytesMoved: 0, programsBuilt: 0, cacheHits: 0 };

/** Counters since the last reset. */
export type Counts = Readonly<typeof counts>;

/** One launch that reads and writes `bytes`. */
export function countLaunch(bytes: number): void {
  counts.kernels++;
  counts.bytesMoved += bytes;
}

/** Bytes that a transfer moved. */
export function countTransfer(bytes: number): void {
  counts.bytesMoved += bytes;
}

/** A program that was compiled. */
export function countBuild(): void {
  counts.programsBuilt++;
}

/** A program that came from the disk cache. */
export function countCacheHit(): void {
  counts.cacheHits++;
}

/** The present counts. */
export function readCounts(): Counts {
  return { ...counts };
}

/** Starts again from zero. */
export function resetCounts(): void {
  for (const key of Object.keys(counts) as (keyof typeof counts)[]) counts[key] = 0;
}
