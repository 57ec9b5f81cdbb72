/** LSTM, GRU and RNN, step by step: any activations, lengths of sequences, both directions. */
import { Tensor } from "../../../class/tensor.ts";
import type { Call, Operators } from "../core/call.ts";

type Activation = (x: Tensor) => Tensor;

/** Activations by their names; alpha and beta are theirs where the node says so. */
export const activations: Readonly<Record<string, (alpha?: number, beta?: number) => Activation>> =
  {
    Sigmoid: () => (x) => x.sigmoid(),
    Tanh: () => (x) => x.tanh(),
    Relu: () => (x) => x.relu(),
    Affine: (alpha = 1, beta = 0) => (x) => x.mul(alpha).add(beta),
    LeakyRelu: (alpha = 0.01) => (x) => x.leakyRelu(alpha),
    ThresholdedRelu: (alpha = 1) => (x) => x.gt(alpha).where(x, 0),
    ScaledTanh: (alpha = 1, beta = 1) => (x) => x.mul(beta).tanh().mul(alpha),
    HardSigmoid: (alpha = 0.2, beta = 0.5) => (x) => x.mul(alpha).add(beta).clamp(0, 1),
    Elu: (alpha = 1) => (x) => x.elu(alpha),
    Softsign: () => (x) => x.div(x.abs().add(1)),
    Softplus: () => (x) => x.softplus(),
  };

/** Weights and settings of a direction of a layer. */
interface Direction {
  readonly weight: Tensor;
  readonly recurrent: Tensor;
  /** Of the input's product, and of the state's. */
  readonly bias: readonly [Tensor, Tensor] | null;
  readonly peepholes: Tensor | null;
  readonly activations: readonly Activation[];
  readonly clip: number;
  readonly hidden: number;
  /** Inputs and states as their products see them. */
  readonly seen: (x: Tensor) => Tensor;
  readonly call: Call;
}

/** From the input's part of the gates and the states, the states after a step; the first is the output. */
type Step = (input: Tensor, states: readonly Tensor[], direction: Direction) => Tensor[];

function gatesOf(x: Tensor, count: number, hidden: number): Tensor[] {
  return Array.from({ length: count }, (_, k) => x.slice(null, [k * hidden, (k + 1) * hidden]));
}

function bounded(x: Tensor, clip: number): Tensor {
  return clip > 0 ? x.clamp(-clip, clip) : x;
}

/** Gates in the order input, output, forget, cell. */
const lstm: Step = (
  input,
  [h, c],
  { recurrent, bias, peepholes, activations, clip, hidden, seen, call },
) => {
  const product = seen(h!).matmul(recurrent.transpose()), sum = input.add(product);
  const [i, o, f, g] = gatesOf(bias ? sum.add(bias[1]) : sum, 4, hidden) as [
    Tensor,
    Tensor,
    Tensor,
    Tensor,
  ];
  const [gate, cell, out] = activations as [Activation, Activation, Activation];
  const [pi, po, pf] = peepholes ? gatesOf(peepholes.unsqueeze(0), 3, hidden) : [];
  const peeped = (x: Tensor, state: Tensor, p?: Tensor) =>
    bounded(p ? x.add(p.mul(state)) : x, clip);
  const enters = gate(peeped(i, c!, pi));
  const isJoined = call.int("input_forget", 0) === 1;
  const keeps = isJoined ? enters.neg().add(1) : gate(peeped(f, c!, pf));
  const next = keeps.mul(c!).add(enters.mul(cell(bounded(g, clip))));
  return [gate(peeped(o, next, po)).mul(out(next)), next];
};

/** Gates in the order update, reset, hidden. */
const gru: Step = (input, [h], { recurrent, bias, activations, clip, hidden, call }) => {
  const [gate, candidate] = activations as [Activation, Activation];
  const [xz, xr, xh] = gatesOf(input, 3, hidden) as [Tensor, Tensor, Tensor];
  const rows = (k: number) => recurrent.slice([k * hidden, (k + 1) * hidden]).transpose();
  const biasOf = (k: number) => bias?.[1].slice([k * hidden, (k + 1) * hidden]);
  const product = (state: Tensor, k: number) => {
    const p = state.matmul(rows(k)), b = biasOf(k);
    return b ? p.add(b) : p;
  };
  const z = gate(bounded(xz.add(product(h!, 0)), clip)),
    r = gate(bounded(xr.add(product(h!, 1)), clip));
  const isAfter = call.int("linear_before_reset", 0) !== 0;
  const own = isAfter ? r.mul(product(h!, 2)) : product(r.mul(h!), 2);
  const g = candidate(bounded(xh.add(own), clip));
  return [g.mul(z.neg().add(1)).add(z.mul(h!))];
};

const rnn: Step = (input, [h], { recurrent, bias, activations, clip }) => {
  const sum = input.add(h!.matmul(recurrent.transpose()));
  return [activations[0]!(bounded(bias ? sum.add(bias[1]) : sum, clip))];
};

interface Layer {
  readonly step: Step;
  readonly gates: number;
  readonly states: number;
  readonly defaults: readonly string[];
}

const layers: Readonly<Record<string, Layer>> = {
  LSTM: { step: lstm, gates: 4, states: 2, defaults: ["Sigmoid", "Tanh", "Tanh"] },
  GRU: { step: gru, gates: 3, states: 1, defaults: ["Sigmoid", "Tanh"] },
  RNN: { step: rnn, gates: 1, states: 1, defaults: ["Tanh"] },
};

function directionOf(
  call: Call,
  k: number,
  { gates, defaults }: Layer,
  seen: (x: Tensor) => Tensor,
): Direction {
  const recurrent = call.tensor(2).slice(k), hidden = recurrent.shape[1]!, width = gates * hidden;
  const bias = call.optional(3)?.slice(k), count = defaults.length;
  const names = call.texts("activations") ?? defaults;
  const alphas = call.floats("activation_alpha") ?? [],
    betas = call.floats("activation_beta") ?? [];
  const own = defaults.map((fallback, j) => {
    const at = k * count + j, name = names[at] ?? names[j] ?? fallback, make = activations[name];
    if (!make) {
      throw new TypeError(`its activation "${name}" is none of ${Object.keys(activations)}`);
    }
    return make(alphas[at], betas[at]);
  });
  return {
    weight: call.tensor(1).slice(k),
    recurrent,
    bias: bias ? [bias.slice([0, width]), bias.slice([width, 2 * width])] : null,
    peepholes: call.optional(7)?.slice(k) ?? null,
    activations: own,
    clip: call.float("clip", 0),
    hidden,
    seen,
    call,
  };
}

/** A direction over all steps: (T, N, H) and the last states. */
function walk(
  x: Tensor,
  first: readonly Tensor[],
  direction: Direction,
  step: Step,
  isBack: boolean,
) {
  const length = x.shape[0]!, lengths = direction.call.optional(4)?.cast("int32").unsqueeze(1);
  const product = direction.seen(x).matmul(direction.weight.transpose());
  const inputs = direction.bias ? product.add(direction.bias[0]) : product;
  const outputs = new Array<Tensor>(length);
  let states = first;
  for (let k = 0; k < length; k++) {
    const t = isBack ? length - 1 - k : k, next = step(inputs.slice(t), states, direction);
    // Rows whose sequence is over keep their states, and give zeros.
    const isOn = lengths?.gt(t);
    outputs[t] = isOn ? isOn.where(next[0]!, 0).cast(x.dtype) : next[0]!;
    states = isOn ? next.map((state, j) => isOn.where(state, states[j]!)) : next;
  }
  return { outputs: Tensor.stack(outputs, 0), states };
}

/**
 * A layer of all directions.
 *
 * @param seen Inputs and states as the products of an LSTM see them.
 */
export function recurrentLayer(
  call: Call,
  seen: (x: Tensor) => Tensor = (x) => x,
): Tensor[] {
  const layer = layers[call.kind]!, isBatchFirst = call.int("layout", 0) === 1;
  const x = isBatchFirst ? call.tensor(0).transpose(0, 1) : call.tensor(0), n = x.shape[1]!;
  const kind = call.text("direction", "forward"), count = kind === "bidirectional" ? 2 : 1;
  const all = Array.from({ length: count }, (_, k) => {
    const direction = directionOf(call, k, layer, seen);
    const first = Array.from({ length: layer.states }, (_, j) => {
      const given = call.optional(5 + j);
      if (!given) return x.zerosLike([n, direction.hidden]);
      return isBatchFirst ? given.slice(null, k) : given.slice(k);
    });
    return walk(x, first, direction, layer.step, kind === "reverse" || k === 1);
  });
  const axis = isBatchFirst ? 1 : 0;
  // (T, directions, N, H), or (N, T, directions, H).
  const y = Tensor.stack(all.map(({ outputs }) => outputs), 1);
  const last = Array.from(
    { length: layer.states },
    (_, j) => Tensor.concat(all.map(({ states }) => states[j]!.unsqueeze(axis)), axis),
  );
  return [isBatchFirst ? y.permute([2, 0, 1, 3]) : y, ...last];
}

/** Recurrent layers, by their kinds. */
export const recurrent: Operators = {
  LSTM: (call) => recurrentLayer(call),
  GRU: (call) => recurrentLayer(call),
  RNN: (call) => recurrentLayer(call),
};
