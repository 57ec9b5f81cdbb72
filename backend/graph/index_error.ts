/**
 * The error for an index that a kernel found out of range. Kernels report the operation by a number, which
 * stands for its name in this process.
 */
import { phraseOf } from "../../ffi/host/wording.ts";

const opNames: string[] = [""];

/** A number for the name of an operation, so that a kernel can say which one failed. */
export function opCode(name: string): number {
  const at = opNames.indexOf(name);
  return at >= 0 ? at : opNames.push(name) - 1;
}

/** The name behind a number. */
export const opName = (code: number): string => opNames[code] ?? "an operation";

const singular = "singular: pinv and lstsq take such matrices, too";

/** Factorizations that matrices do not have, with the remedy; the index is -1 - the batch element. */
const badMatrices: Readonly<Record<string, string>> = {
  cholesky: "not positive definite: add a multiple of the identity, or use eigh",
  solve: singular,
  inv: singular,
};

/** The error for an index that a kernel found out of range. */
export function indexError(op: string, index: number, bound: number): RangeError {
  const range = `valid: 0 to ${bound - 1}`;
  if (op === "crossEntropy") {
    return new RangeError(
      `Cannot compute crossEntropy: the label ${index} is none of ${bound} classes (${range}); ` +
        `to leave out samples with this label, pass { ignoreIndex: ${index} }`,
    );
  }
  if (op === "multinomial") {
    return new RangeError(
      "Cannot compute multinomial by weights of which one is negative, infinite or NaN, or fewer " +
        "than are drawn are above 0: pass finite weights of at least 0; { replacement: true } needs one above 0",
    );
  }
  if (op in badMatrices) {
    return new RangeError(
      `Cannot ${phraseOf(op)}: the matrix that is batch element ${-1 - index} is ${
        badMatrices[op]
      }`,
    );
  }
  return new RangeError(
    `Cannot ${
      phraseOf(op)
    }: the index ${index} is out of range for an axis of ${bound} elements (${range})`,
  );
}
