/** Where random numbers come from. */

/** A number that a replayed schedule draws anew: the position in the sequence of random tensors. */
export interface RandomStream {
  /** How many random tensors were made before. */
  readonly value: number;
}
