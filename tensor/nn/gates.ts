/** The gates of recurrent layers: one step forward, and its gradient in closed form. */
import { Tensor } from "../tensor.ts";

/** The gradients of a step: of its two products, and of the state before it. */
export interface GateGradients {
  /** Of the product with the input, (N, gates * H). */
  readonly input: Tensor;
  /** Of the product with h before, (N, gates * H). */
  readonly hidden: Tensor;
  /** Of each tensor of the state before, but for what flows through the product; null for 0. */
  readonly state: readonly (Tensor | null)[];
}

/** What a step has at hand: the products (N, gates * H), and the state before it, each (N, H). */
export interface GateInputs {
  readonly input: Tensor;
  readonly hidden: Tensor;
  readonly state: readonly Tensor[];
}

/** How a recurrent layer goes from one state to the next. */
export interface Gates {
  /** How many rows of the weights there are for a feature of h. */
  readonly count: number;
  /** Of how many tensors the state is: h, or h and c. */
  readonly states: number;
  /** The next state. */
  readonly step: (inputs: GateInputs) => Tensor[];
  /** The gradients of the step, from those of the next state. */
  readonly gradient: (
    inputs: GateInputs,
    next: readonly Tensor[],
    gradients: readonly Tensor[],
  ) => GateGradients;
}

/** The derivative of a sigmoid, from its value. */
function sigmoidSlope(y: Tensor): Tensor {
  return y.mul(y.mul(-1).add(1));
}

/** The derivative of a tanh, from its value. */
function tanhSlope(y: Tensor): Tensor {
  return y.mul(y).mul(-1).add(1);
}

/** Part `k` of products (N, gates * H). */
function part(x: Tensor, k: number, features: number): Tensor {
  return x.slice(null, [k * features, (k + 1) * features]);
}

/** The input, forget, cell and output gate. */
function lstmGates({ input, hidden, state }: GateInputs): [Tensor, Tensor, Tensor, Tensor] {
  const sum = input.add(hidden), features = state[0]!.shape[1]!;
  const gate = (k: number): Tensor => part(sum, k, features);
  return [gate(0).sigmoid(), gate(1).sigmoid(), gate(2).tanh(), gate(3).sigmoid()];
}

/** `c' = f * c + i * g`, `h' = o * tanh(c')`: F. Gers et al., Learning to forget, 2000. */
const lstm: Gates = {
  count: 4,
  states: 2,
  step(inputs) {
    const [i, f, g, o] = lstmGates(inputs);
    const next = f.mul(inputs.state[1]!).add(i.mul(g));
    return [o.mul(next.tanh()), next];
  },
  gradient(inputs, next, gradients) {
    const [i, f, g, o] = lstmGates(inputs);
    const tanh = next[1]!.tanh(), dh = gradients[0]!;
    const dc = gradients[1]!.add(dh.mul(o).mul(tanhSlope(tanh)));
    const sum = Tensor.concat([
      dc.mul(g).mul(sigmoidSlope(i)),
      dc.mul(inputs.state[1]!).mul(sigmoidSlope(f)),
      dc.mul(i).mul(tanhSlope(g)),
      dh.mul(tanh).mul(sigmoidSlope(o)),
    ], -1).contiguous();
    return { input: sum, hidden: sum, state: [null, dc.mul(f)] };
  },
};

/** The reset and update gate, and the candidate. */
function gruGates({ input, hidden, state }: GateInputs): [Tensor, Tensor, Tensor, Tensor] {
  const features = state[0]!.shape[1]!;
  const sum = (k: number): Tensor => part(input, k, features).add(part(hidden, k, features));
  const r = sum(0).sigmoid(), z = sum(1).sigmoid();
  const inner = part(hidden, 2, features);
  return [r, z, part(input, 2, features).add(r.mul(inner)).tanh(), inner];
}

/** `h' = (1 - z) * n + z * h`, K. Cho et al. 2014, with the reset after the product as in PyTorch. */
const gru: Gates = {
  count: 3,
  states: 1,
  step(inputs) {
    const [, z, n] = gruGates(inputs);
    return [n.add(z.mul(inputs.state[0]!.sub(n)))];
  },
  gradient(inputs, _, [dh]) {
    const [r, z, n, inner] = gruGates(inputs);
    const dn = dh!.mul(z.mul(-1).add(1)).mul(tanhSlope(n));
    const dz = dh!.mul(inputs.state[0]!.sub(n)).mul(sigmoidSlope(z));
    const dr = dn.mul(inner).mul(sigmoidSlope(r));
    return {
      input: Tensor.concat([dr, dz, dn], -1).contiguous(),
      hidden: Tensor.concat([dr, dz, dn.mul(r)], -1).contiguous(),
      state: [dh!.mul(z)],
    };
  },
};

/** One gate, whose slope is known from its value. */
function simple(activate: (x: Tensor) => Tensor, through: (g: Tensor, y: Tensor) => Tensor): Gates {
  return {
    count: 1,
    states: 1,
    step: ({ input, hidden }) => [activate(input.add(hidden))],
    gradient(_, next, gradients) {
      const sum = through(gradients[0]!, next[0]!).contiguous();
      return { input: sum, hidden: sum, state: [null] };
    },
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
