/**
 * Numbers on their way to C's size_t. C would take -1 as a huge size and 1.5 as 1, so both are
 * refused here.
 *
 * @module
 */

// A bigint a launch costs as much as the call; the sizes of scalars and small structs repeat.
const small: readonly bigint[] = Array.from({ length: 257 }, (_, i) => BigInt(i));

function isSize(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}

/** A number of bytes as a size_t. */
export function toSize(value: number, what: string): bigint {
  if (!isSize(value)) {
    throw new RangeError(`Cannot use ${value} as ${what}: it must be a whole number from 0`);
  }
  return small[value] ?? BigInt(value);
}

/**
 * Refuses a part that does not lie within the `total` bytes of what it is a part of: a negative
 * offset would reach in front of it.
 */
export function checkRange(offset: number, length: number, total: number, what: string): void {
  if (!isSize(offset) || !isSize(length)) {
    throw new RangeError(
      `Cannot use ${length} bytes from offset ${offset} of ${what}: whole numbers from 0 are needed`,
    );
  }
  if (offset + length > total) {
    throw new RangeError(
      `Cannot use ${length} bytes from offset ${offset} of ${what}: it has ${total} bytes`,
    );
  }
}

/**
 * Refuses what OpenCL does not fill with: drivers differ in how much of it they check.
 *
 * @param pattern The bytes that are repeated.
 * @param offset Where they begin, in bytes.
 * @param nbytes How many bytes they cover.
 */
export function checkPattern(pattern: ArrayBufferView, offset: number, nbytes: number): void {
  const size = pattern.byteLength;
  if (size < 1 || size > 128 || (size & (size - 1)) !== 0) {
    throw new RangeError(`Cannot fill with ${size} bytes: a pattern has 1, 2, 4 ... 128 bytes`);
  }
  if (offset % size === 0 && nbytes % size === 0) return;
  throw new RangeError(
    `Cannot fill ${nbytes} bytes from offset ${offset} with a pattern of ${size} bytes: ` +
      "offset and size must be multiples of it",
  );
}
