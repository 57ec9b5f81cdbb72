export { DisposedError } from "../../../ffi/mod.ts";

/** Shapes that do not fit: names the operation and both shapes. */
export class ShapeError extends RangeError {
  /**
   * Made by operations.
   *
   * @param message What did not fit.
   */
  constructor(message: string) {
    super(message);
    this.name = "ShapeError";
  }
}

/** Element types that an operation does not take: names the operation and the types. */
export class DTypeError extends TypeError {
  /**
   * Made by operations.
   *
   * @param message What is not taken, and what to do.
   */
  constructor(message: string) {
    super(message);
    this.name = "DTypeError";
  }
}
