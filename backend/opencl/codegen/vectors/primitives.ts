/** The scalar functions on vectors of 16 lanes, in OpenCL C. */
import {
  fillTemplate,
  type PrimitiveName,
  textOf,
  type VectorKind,
} from "../../../graph/primitives.ts";

/** True when there are vectors for a primitive of such operands. */
export function hasVectorForm(name: PrimitiveName, kind: VectorKind): boolean {
  return textOf("lanes", name, kind) !== null;
}

/** The primitive applied to vectors; see {@linkcode hasVectorForm}. */
export function renderVector(
  name: PrimitiveName,
  operands: readonly string[],
  kind: VectorKind,
): string {
  return fillTemplate(textOf("lanes", name, kind)!, operands);
}
