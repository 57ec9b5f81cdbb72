/** The error for an index that a kernel found out of range. */
export function indexError(op: string, index: number, bound: number): RangeError {
  return new RangeError(
    `Cannot ${op}: the index ${index} is out of range for an axis of ${bound} elements ` +
      `(valid: 0 to ${bound - 1})`,
  );
}
