/** The gates of recurrent layers: one step forward, and its gradient in closed form. */
import type { SliceRange } from "../../core/arguments.ts";
import type { Tensor } from "../../core/mod.ts";

/**
 * One of the tensors of a state, (N, H): h is 0, c is 1. Made when it is asked for, since a tensor that
 * is never computed would keep what it is made from.
 */
export type StateOf = (k: number) => Tensor;

/** Inputs of a step: the products (N, gates * H), H, and the state before it. */
export interface GateInputs {
  readonly input: Tensor;
  readonly hidden: Tensor;
  readonly features: number;
  readonly state: StateOf;
}

/**
 * Step of a recurrent layer to the next state. The gradients of a step are blocks (N, H) side
 * by side, so that one kernel computes them; those of the product with h are neighbours.
 */
export interface Gates {
  /** Number of rows of the weights for a feature of h. */
  readonly count: number;
  /** Of how many tensors the state is: h, or h and c. */
  readonly states: number;
  /** The next state. */
  readonly step: (inputs: GateInputs) => Tensor[];
  /**
   * The blocks of a step's gradients, from those of the next state. `elsewhere` is what the tensors of
   * the state before get besides; none at the first step.
   */
  readonly gradient: (
    inputs: GateInputs,
    next: StateOf,
    gradients: readonly Tensor[],
    elsewhere: readonly Tensor[],
  ) => Tensor[];
  /** Range of blocks with the gradient of the product with h: from one to before another. */
  readonly hidden: readonly [number, number];
  /** Those of the product with the input, range behind range. */
  readonly input: readonly (readonly [number, number])[];
  /**
   * Gradient to the state before beside the product: to h without its other gradients, null for
   * nothing; to c all.
   */
  readonly direct: (
    inputs: GateInputs,
    gradients: readonly Tensor[],
    blocks: Tensor,
  ) => (Tensor | null)[];
}

/** The derivative of a sigmoid, from its value. */
function sigmoidSlope(y: Tensor): Tensor {
  return y.mul(y.mul(-1).add(1));
}

/** The derivative of a tanh, from its value. */
function tanhSlope(y: Tensor): Tensor {
  return y.mul(y).mul(-1).add(1);
}

/** Blocks `from` to before `to` along the last axis, each of so many features. */
export function blocks(x: Tensor, [from, to]: readonly [number, number], features: number): Tensor {
  const range: SliceRange = [from * features, to * features];
  return x.slice(...x.shape.map((_, k) => k === x.ndim - 1 ? range : null));
}

function part(x: Tensor, k: number, features: number): Tensor {
  return blocks(x, [k, k + 1], features);
}

/** The input, forget, cell and output gate. */
function lstmGates({ input, hidden, features }: GateInputs): [Tensor, Tensor, Tensor, Tensor] {
  const sum = input.add(hidden);
  const gate = (k: number): Tensor => part(sum, k, features);
  return [gate(0).sigmoid(), gate(1).sigmoid(), gate(2).tanh(), gate(3).sigmoid()];
}

/** `c' = f * c + i * g`, `h' = o * tanh(c')`: F. Gers et al., Learning to forget, 2000. */
const lstm: Gates = {
  count: 4,
  states: 2,
  step(inputs) {
    const [i, f, g, o] = lstmGates(inputs);
    const next = f.mul(inputs.state(1)).add(i.mul(g));
    return [o.mul(next.tanh()), next];
  },
  gradient(inputs, next, gradients, elsewhere) {
    const [i, f, g, o] = lstmGates(inputs);
    const tanh = next(1).tanh(), dh = gradients[0]!;
    const dc = gradients[1]!.add(dh.mul(o).mul(tanhSlope(tanh)));
    const passed = dc.mul(f);
    return [
      dc.mul(g).mul(sigmoidSlope(i)),
      dc.mul(inputs.state(1)).mul(sigmoidSlope(f)),
      dc.mul(i).mul(tanhSlope(g)),
      dh.mul(tanh).mul(sigmoidSlope(o)),
      elsewhere[1] ? passed.add(elsewhere[1]) : passed,
    ];
  },
  hidden: [0, 4],
  input: [[0, 4]],
  direct: ({ features }, _, blocks) => [null, part(blocks, 4, features)],
};

/** The reset gate (0) or the update gate (1). */
function gruGate({ input, hidden, features }: GateInputs, k: number): Tensor {
  return part(input, k, features).add(part(hidden, k, features)).sigmoid();
}

/** The reset and update gate, the candidate, and what the reset gate multiplies in it. */
function gruGates(inputs: GateInputs): [Tensor, Tensor, Tensor, Tensor] {
  const r = gruGate(inputs, 0), z = gruGate(inputs, 1);
  const inner = part(inputs.hidden, 2, inputs.features);
  return [r, z, part(inputs.input, 2, inputs.features).add(r.mul(inner)).tanh(), inner];
}

/** `h' = (1 - z) * n + z * h`, K. Cho et al. 2014, with the reset after the product as in PyTorch. */
const gru: Gates = {
  count: 3,
  states: 1,
  step(inputs) {
    const [, z, n] = gruGates(inputs);
    return [n.add(z.mul(inputs.state(0).sub(n)))];
  },
  gradient(inputs, _, [dh]) {
    const [r, z, n, inner] = gruGates(inputs);
    const dn = dh!.mul(z.mul(-1).add(1)).mul(tanhSlope(n));
    const dz = dh!.mul(inputs.state(0).sub(n)).mul(sigmoidSlope(z));
    const dr = dn.mul(inner).mul(sigmoidSlope(r));
    return [dn, dr, dz, dn.mul(r)];
  },
  hidden: [1, 4],
  input: [[1, 3], [0, 1]],
  direct: (inputs, [dh]) => [dh!.mul(gruGate(inputs, 1))],
};

/** One gate, whose slope is known from its value. */
function simple(activate: (x: Tensor) => Tensor, through: (g: Tensor, y: Tensor) => Tensor): Gates {
  return {
    count: 1,
    states: 1,
    step: ({ input, hidden }) => [activate(input.add(hidden))],
    gradient: (_, next, gradients) => [through(gradients[0]!, next(0))],
    hidden: [0, 1],
    input: [[0, 1]],
    direct: () => [null],
  };
}

/** The kinds of recurrent layers. */
export type GateKind = "lstm" | "gru" | "tanh" | "relu";

/** The gates of every kind, in PyTorch's order of rows. */
export const gatesOf: Readonly<Record<GateKind, Gates>> = {
  lstm,
  gru,
  tanh: simple((x) => x.tanh(), (g, y) => g.mul(tanhSlope(y))),
  relu: simple((x) => x.relu(), (g, y) => y.gt(0).where(g, 0)),
};
