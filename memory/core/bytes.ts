import { EnvironmentError, type EnvironmentName } from "../../ffi/host/environment.ts";

/** One binary kilobyte, megabyte and gigabyte. */
export const KiB = 1024;
export const MiB = 1024 * KiB;
export const GiB = 1024 * MiB;

/** Rounds `nbytes` up to a multiple of `granularity` (both whole numbers below 2^53). */
export function roundUp(nbytes: number, granularity: number): number {
  return Math.ceil(nbytes / granularity) * granularity;
}

/** The smallest power of two that is at least `nbytes`; safe above 2^31, where shifts are not. */
export function nextPowerOfTwo(nbytes: number): number {
  let bucket = 2 ** Math.ceil(Math.log2(nbytes));
  // log2 of a number just above a power of two may round down to it.
  if (bucket < nbytes) bucket *= 2;
  return bucket;
}

/** Bytes for a reader: `formatBytes(1_572_864)` is "1.5 MiB". */
export function formatBytes(nbytes: number): string {
  if (!Number.isFinite(nbytes)) return "unlimited";
  for (const [unit, size] of [["GiB", GiB], ["MiB", MiB], ["KiB", KiB]] as const) {
    if (Math.abs(nbytes) >= size) return `${Number((nbytes / size).toFixed(2))} ${unit}`;
  }
  return `${nbytes} bytes`;
}

/**
 * Checks a size that a caller asked for. OpenCL takes sizes as unsigned integers: a fraction would
 * be cut off and a negative number would wrap around, both in silence.
 *
 * @throws {RangeError} When it is no whole number of bytes, or one from 2^53.
 */
export function checkByteCount(nbytes: number, operation: string): void {
  if (Number.isSafeInteger(nbytes) && nbytes >= 0) return;
  if (nbytes > Number.MAX_SAFE_INTEGER) {
    throw new RangeError(
      `Cannot ${operation} ${nbytes} bytes: no device has so much, and sizes are exact below 2^53 ` +
        "bytes only; check the shape",
    );
  }
  throw new RangeError(`Cannot ${operation} ${nbytes} bytes: a whole number from 0 is needed`);
}

/**
 * Reads an amount of memory: bytes ("1048576"), a number with a unit ("1.5 GiB"), or a share
 * ("50%").
 *
 * @param name What is read, for the error.
 * @param text The amount.
 * @param total What a share is a share of.
 * @throws {RangeError} When it is none of these.
 */
export function parseBytes(name: EnvironmentName, text: string, total: number): number {
  const match = /^\s*(\d+(?:\.\d+)?)\s*(KiB|MiB|GiB|%)?\s*$/i.exec(text);
  if (match === null) {
    const remedy = "bytes, or a number with KiB, MiB, GiB or % is needed";
    throw new EnvironmentError(name, text, remedy);
  }
  const units: Record<string, number> = { "": 1, kib: KiB, mib: MiB, gib: GiB, "%": total / 100 };
  return Math.floor(Number(match[1]) * units[(match[2] ?? "").toLowerCase()]!);
}
