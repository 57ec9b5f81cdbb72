/** Distances that MPNet and T5 tell apart: each of the first ones, then ever wider ranges. */

/** Beyond so many positions all are alike. */
const FARTHEST = 128;

/**
 * The bucket of each distance from `1 - length` to `length - 1`, of a key from a query: those ahead have the
 * second half of the buckets. The logarithms are rounded to single precision, as where models learned.
 */
export function distanceBuckets(length: number, buckets: number): Int32Array<ArrayBuffer> {
  const half = buckets / 2, exact = Math.floor(half / 2), { fround, log, trunc } = Math;
  return Int32Array.from({ length: 2 * length - 1 }, (_, k) => {
    const apart = k - (length - 1), far = Math.abs(apart), side = apart > 0 ? half : 0;
    if (far < exact) return side + far;
    const share = fround(fround(log(fround(far / exact))) / fround(log(FARTHEST / exact)));
    return side + Math.min(half - 1, exact + trunc(fround(share * (half - exact))));
  });
}
