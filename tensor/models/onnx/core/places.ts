/** The place that a number means: one below 0 counts from the end. */
export function fromFront(place: number, length: number): number {
  return place < 0 ? place + length : place;
}
