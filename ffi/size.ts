/**
 * Numbers on their way to C's size_t. C would take -1 as a huge size and 1.5 as 1, so both are
 * refused here.
 *
 * @module
 */

// A bigint a launch costs as much as the call; the sizes of scalars and small structs repeat.
const small: readonly bigint[] = Array.from({ length: 257 }, (_, i) => BigInt(i));

/** A number of bytes as a size_t. */
export function toSize(value: number, what: string): bigint {
  if (!Number.isSafeInteger(value) || value < 0) {
    throw new RangeError(`Cannot use ${value} as ${what}: it must be a whole number from 0`);
  }
  return small[value] ?? BigInt(value);
}

/** Refuses a part that ends behind the `total` bytes of what it is a part of. */
export function checkRange(offset: number, length: number, total: number, what: string): void {
  if (offset + length > total) {
    throw new RangeError(
      `Cannot use ${length} bytes from offset ${offset} of ${what}: it has ${total} bytes`,
    );
  }
}
