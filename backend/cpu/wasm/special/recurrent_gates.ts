/** The gates of recurrent layers in vectors: four features of a row, or one in all lanes. */
import { sigmoid, tanh } from "../../../codegen/functions/exponentials.ts";
import type { RecurrentGates } from "../../../graph/op.ts";
import type { FunctionBuilder, Local } from "../assembler.ts";
import type { VectorMath } from "../math.ts";
import { f32x4 } from "../opcodes.ts";

/** Reads of a step for some features of a row, by names of `RecurrenceOp`. */
export interface GateCell {
  /** Inputs of a gate: from the input, and from the product with h. */
  readonly input: (gate: number) => Local;
  readonly hidden: (gate: number) => Local;
  /** A plane before the step, and after it. */
  readonly before: (plane: number) => Local;
  readonly after: (plane: number) => Local;
}

/** The blocks of a step's gradients, and what flows to each state before it beside the product. */
export interface GateGradients {
  readonly blocks: readonly Local[];
  readonly direct: readonly Local[];
}

/** Writes the arithmetic of gates. */
export class GateWriter {
  readonly #f: FunctionBuilder;
  readonly #math: VectorMath;

  constructor(f: FunctionBuilder, math: VectorMath) {
    this.#f = f;
    this.#math = math;
  }

  /** The planes after a step: states, then what the backward pass reads. */
  step(gates: RecurrentGates, cell: GateCell): Local[] {
    const { input, hidden, before } = cell;
    const sum = (gate: number): Local => this.add(input(gate), hidden(gate));
    switch (gates) {
      case "lstm": {
        const [i, f] = [this.#sigmoid(sum(0)), this.#sigmoid(sum(1))];
        const [g, o] = [this.#tanh(sum(2)), this.#sigmoid(sum(3))];
        const c = this.#math.madd(f, before(1), this.#mul(i, g));
        return [this.#mul(o, this.#tanh(c)), c, i, f, g, o];
      }
      case "gru": {
        const [r, z, inner] = [this.#sigmoid(sum(0)), this.#sigmoid(sum(1)), hidden(2)];
        const n = this.#tanh(this.#math.madd(r, inner, input(2)));
        return [this.#math.madd(z, this.#sub(before(0), n), n), r, z, n, inner];
      }
      case "tanh":
        return [this.#tanh(sum(0))];
      case "relu": {
        const x = sum(0), zero = this.#f.float(0);
        return [this.#math.select(this.#f.v(f32x4.lt, x, zero), zero, x)];
      }
      default:
        return gates satisfies never;
    }
  }

  /** Results of a step back, from the gradients of the states after it. */
  gradients(
    gates: RecurrentGates,
    { before, after }: GateCell,
    [dh, dc]: readonly Local[],
  ): GateGradients {
    const product = (...factors: Local[]): Local => factors.reduce((x, y) => this.#mul(x, y));
    const rest = (x: Local): Local => this.#sub(this.#f.float(1), x);
    const zero = this.#f.float(0);
    switch (gates) {
      case "lstm": {
        const [i, f, g, o] = [2, 3, 4, 5].map(after) as [Local, Local, Local, Local];
        const t = this.#tanh(after(1));
        const toC = this.#math.madd(product(dh!, o), rest(this.#mul(t, t)), dc!);
        const blocks = [
          product(toC, g, i, rest(i)),
          product(toC, before(1), f, rest(f)),
          product(toC, i, rest(this.#mul(g, g))),
          product(dh!, t, o, rest(o)),
        ];
        return { blocks, direct: [zero, this.#mul(toC, f)] };
      }
      case "gru": {
        const [r, z, n, inner] = [1, 2, 3, 4].map(after) as [Local, Local, Local, Local];
        const dn = product(dh!, rest(z), rest(this.#mul(n, n)));
        const blocks = [
          dn,
          product(dn, inner, r, rest(r)),
          product(dh!, this.#sub(before(0), n), z, rest(z)),
          this.#mul(dn, r),
        ];
        return { blocks, direct: [this.#mul(dh!, z)] };
      }
      case "tanh": {
        const y = after(0);
        return { blocks: [this.#mul(dh!, rest(this.#mul(y, y)))], direct: [zero] };
      }
      case "relu": {
        const isOpen = this.#f.v(f32x4.gt, after(0), zero);
        return { blocks: [this.#math.select(isOpen, dh!, zero)], direct: [zero] };
      }
      default:
        return gates satisfies never;
    }
  }

  /** The sum of two vectors. */
  add(x: Local, y: Local): Local {
    return this.#f.v(f32x4.add, x, y);
  }

  #sub(x: Local, y: Local): Local {
    return this.#f.v(f32x4.sub, x, y);
  }

  #mul(x: Local, y: Local): Local {
    return this.#f.v(f32x4.mul, x, y);
  }

  #sigmoid(x: Local): Local {
    return sigmoid(this.#math, x);
  }

  #tanh(x: Local): Local {
    return tanh(this.#math, x);
  }
}
