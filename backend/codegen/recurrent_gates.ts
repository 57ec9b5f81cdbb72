/** The gates of recurrent layers, once for all writers: a step's values, and its gradients. */
import type { RecurrentGates } from "../graph/op.ts";
import type { LaneWriter } from "./functions/lane_writer.ts";

/** Arithmetic of a writer, `V` being the name of a value: some features of a row. */
export interface GateMath<V>
  extends Pick<LaneWriter<V>, "float" | "add" | "sub" | "mul" | "madd" | "lt" | "gt" | "select"> {
  sigmoid(x: V): V;
  tanh(x: V): V;
}

/** Reads of a step, by names of `RecurrenceOp`. */
export interface GateCell<V> {
  /** Inputs of a gate: from the input, and from the product with h. */
  readonly input: (gate: number) => V;
  readonly hidden: (gate: number) => V;
  /** A plane before the step, and after it. */
  readonly before: (plane: number) => V;
  readonly after: (plane: number) => V;
}

/** The planes after a step: states, then what the backward pass reads. */
export function stepValues<V>(
  gates: RecurrentGates,
  m: GateMath<V>,
  { input, hidden, before }: GateCell<V>,
): V[] {
  const sum = (gate: number): V => m.add(input(gate), hidden(gate));
  switch (gates) {
    case "lstm": {
      const [i, f, g, o] = [
        m.sigmoid(sum(0)),
        m.sigmoid(sum(1)),
        m.tanh(sum(2)),
        m.sigmoid(sum(3)),
      ];
      const c = m.madd(f, before(1), m.mul(i, g));
      return [m.mul(o, m.tanh(c)), c, i, f, g, o];
    }
    case "gru": {
      const [r, z, inner] = [m.sigmoid(sum(0)), m.sigmoid(sum(1)), hidden(2)];
      const n = m.tanh(m.madd(r, inner, input(2)));
      return [m.madd(z, m.sub(before(0), n), n), r, z, n, inner];
    }
    case "tanh":
      return [m.tanh(sum(0))];
    case "relu": {
      const x = sum(0), zero = m.float(0);
      return [m.select(m.lt(x, zero), zero, x)];
    }
  }
}

/** The blocks of a step's gradients, and what flows to each state before it beside the product. */
export function stepGradients<V>(
  gates: RecurrentGates,
  m: GateMath<V>,
  { before, after }: Pick<GateCell<V>, "before" | "after">,
  [dh, dc]: readonly V[],
): { readonly blocks: readonly V[]; readonly direct: readonly V[] } {
  const product = (...factors: V[]): V => factors.reduce((x, y) => m.mul(x, y));
  const rest = (x: V): V => m.sub(m.float(1), x), zero = m.float(0);
  switch (gates) {
    case "lstm": {
      const [i, f, g, o] = [2, 3, 4, 5].map(after) as [V, V, V, V], t = m.tanh(after(1));
      const toC = m.madd(product(dh!, o), rest(m.mul(t, t)), dc!);
      const blocks = [
        product(toC, g, i, rest(i)),
        product(toC, before(1), f, rest(f)),
        product(toC, i, rest(m.mul(g, g))),
        product(dh!, t, o, rest(o)),
      ];
      return { blocks, direct: [zero, m.mul(toC, f)] };
    }
    case "gru": {
      const [r, z, n, inner] = [1, 2, 3, 4].map(after) as [V, V, V, V];
      const dn = product(dh!, rest(z), rest(m.mul(n, n)));
      const blocks = [
        dn,
        product(dn, inner, r, rest(r)),
        product(dh!, m.sub(before(0), n), z, rest(z)),
        m.mul(dn, r),
      ];
      return { blocks, direct: [m.mul(dh!, z)] };
    }
    case "tanh": {
      const y = after(0);
      return { blocks: [m.mul(dh!, rest(m.mul(y, y)))], direct: [zero] };
    }
    case "relu":
      return { blocks: [m.select(m.gt(after(0), zero), dh!, zero)], direct: [zero] };
  }
}

/** A step of the one pass has nothing of what the other reads. */
export function unread(): never {
  throw new Error("A recurrent layer's gates read what their pass does not have");
}
