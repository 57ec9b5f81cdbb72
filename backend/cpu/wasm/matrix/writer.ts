/**
 * State of a module while it is written, which the writers of statements and expressions share.
 */
import type { MatrixProgram } from "../../../matrix/language.ts";
import { FunctionBuilder } from "../assembler.ts";
import { VectorMath } from "../math.ts";
import { Control } from "./control.ts";
import { Places } from "./places.ts";
import { RealVectors } from "./values.ts";
import { Variables } from "./variables.ts";

/** The function that is written, and what is known at its present instruction. */
export class Writer {
  readonly f = new FunctionBuilder();
  readonly places = new Places(this.f);
  readonly control = new Control(this.f, this.places);
  readonly variables: Variables;
  readonly vectors: RealVectors;

  constructor(program: MatrixProgram, relaxed: boolean) {
    this.variables = new Variables(program);
    const math = new VectorMath(this.f, relaxed);
    this.vectors = new RealVectors(this.f, math, program.dtype === "float64", relaxed);
  }
}
