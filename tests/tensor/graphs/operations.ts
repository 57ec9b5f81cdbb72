/**
 * Steps of random graphs. Every step takes any tensors and any numbers: it adapts what does
 * not fit, keeps values small, and stays away from points where a function has no derivative, so that
 * rounding cannot change a result by much.
 */
import { checkpoint, nn, Tensor } from "../../../mod.ts";

/** A step: operands, and numbers from 0 to 99 that it may use as it likes. */
export type Operation = (
  a: Tensor,
  b: Tensor,
  numbers: readonly [number, number, number],
) => Tensor;

/** More elements than this are summed up. */
let most = 0;

export function small(t: Tensor): Tensor {
  return t.size > most ? t.mean(0) : t;
}

export function fits(a: readonly number[], b: readonly number[]): boolean {
  const [p, q] = [a.toReversed(), b.toReversed()];
  return p.every((n, k) => q[k] === undefined || n === 1 || q[k] === 1 || n === q[k]);
}

/** `b`, or its mean where it does not broadcast with `a`. */
export function beside(a: Tensor, b: Tensor): Tensor {
  return fits(a.shape, b.shape) ? b : mean(b);
}

/** The mean of everything; 0 of nothing. */
function mean(t: Tensor): Tensor {
  return t.sum().mul(1 / Math.max(1, t.size));
}

export function axisOf(t: Tensor, n: number): number {
  return t.ndim === 0 ? 0 : n % (2 * t.ndim) - t.ndim;
}

/** With at least one axis, none of them empty. */
export function filled(t: Tensor): Tensor {
  if (t.size === 0) return t.sum().reshape([1]);
  return t.ndim === 0 ? t.reshape([1]) : t;
}

export function matrix(t: Tensor): Tensor {
  const full = filled(t);
  return full.reshape([full.shape[0]!, -1]);
}

function positive(t: Tensor): Tensor {
  return t.square().add(0.5);
}

function axes(t: Tensor, n: number): number[] | undefined {
  const list = t.shape.map((_, k) => k).filter((k) => (n >> k) & 1);
  return n % 8 === 0 ? undefined : list;
}

function order(t: Tensor, n: number): number[] {
  const rest = t.shape.map((_, k) => k), out: number[] = [];
  for (let rank = n; rest.length > 0; rank = rank * 7 + 3) {
    out.push(...rest.splice(rank % rest.length, 1));
  }
  return out;
}

/** Positions along an axis, computed from values in a way that rounding does not change. */
function indices(t: Tensor, axis: number, n: number): Tensor {
  return t.indexLike(t.shape).mul(2 * n + 1).remainder(t.shape.at(axis)!);
}

export function images(t: Tensor): Tensor {
  const full = matrix(t);
  return full.reshape([1, 1, ...full.shape]);
}

let uses = 0;

/** A graph of tensors of so many elements begins: it breaks ties as every graph does. */
export function begin(elements: number): void {
  most = elements;
  uses = 0;
}

/** Moves elements that may be equal apart, each time differently: rounding must not choose. */
function apart(t: Tensor): Tensor {
  const phase = 0.59 * ++uses;
  return t.add(t.indexLike(t.shape).cast(t.dtype).mul(0.37).add(phase).sin().mul(0.01));
}

/** The steps by name. */
export const operations: Readonly<Record<string, Operation>> = {
  // functions of one element
  neg: (a) => a.neg(),
  tanh: (a) => a.tanh(),
  sigmoid: (a) => a.sigmoid(),
  exp: (a) => a.tanh().exp(),
  log: (a) => positive(a).log(),
  sqrt: (a) => positive(a).sqrt(),
  rsqrt: (a) => positive(a).rsqrt(),
  sin: (a) => a.sin(),
  erf: (a) => a.erf(),
  gelu: (a) => a.gelu(),
  softplus: (a) => a.softplus(),
  relu: (a) => apart(a).relu(),
  abs: (a) => apart(a).abs(),
  clamp: (a, _, [n]) => apart(a).clamp(-0.503, 0.1 + n / 50),
  scale: (a, _, [n]) => a.mul((n - 50) / 40),
  shift: (a, _, [n]) => a.add((n - 50) / 20),
  pow: (a, _, [n]) => positive(a).pow((n % 5) / 2 - 1),
  // of two
  add: (a, b) => a.add(beside(a, b)),
  sub: (a, b) => beside(a, b).sub(a),
  mul: (a, b) => a.mul(beside(a, b).tanh()),
  div: (a, b) => a.div(positive(beside(a, b))),
  maximum: (a, b) => apart(a).maximum(beside(a, b)),
  minimum: (a, b) => apart(a).minimum(beside(a, b).neg()),
  atan2: (a, b) => a.atan2(positive(beside(a, b))),
  lerp: (a, b, [n]) => a.lerp(beside(a, b), n / 99),
  where: (a, b) => apart(a).gt(0.003).where(a, beside(a, b)),
  whereNumber: (a, _, [n]) => apart(a).le(0.203).where(n / 50, a),
  maskedFill: (a, b, [n]) => a.maskedFill(apart(beside(a, b)).lt(0.107), n / 40),
  logic: (a, b) => {
    const x = apart(a).gt(0.011), y = apart(beside(a, b)).lt(0.021);
    return x.logicalXor(y).logicalOr(x).cast(a.dtype).add(a.mul(0.5));
  },
  // reductions
  sum: (a, _, [n, keep]) => a.sum(axes(a, n), { keepDims: keep % 2 === 0 }).mul(0.3),
  mean: (a, _, [n, keep]) => filled(a).mean(axes(filled(a), n), { keepDims: keep % 2 === 0 }),
  max: (a, _, [n, keep]) => apart(filled(a)).max(axes(filled(a), n), { keepDims: keep % 2 === 0 }),
  min: (a, _, [n, keep]) => apart(filled(a)).min(axes(filled(a), n), { keepDims: keep % 2 === 0 }),
  prod: (a, _, [n]) => a.tanh().add(0.2).prod(axes(a, n)),
  variance: (a, _, [n, keep]) =>
    filled(a).variance(axes(filled(a), n), { correction: 0, keepDims: keep % 2 === 0 }),
  logSumExp: (a, _, [n, keep]) =>
    filled(a).logSumExp(axes(filled(a), n), { keepDims: keep % 2 === 0 }),
  norm: (a, _, [n]) => filled(a).add(0.01).norm(axes(filled(a), n)),
  argmax: (a, _, [n]) => {
    const full = apart(filled(a)), axis = axisOf(full, n);
    return full.argmax(axis, { keepDims: true }).cast(a.dtype).mul(0.1).add(full);
  },
  softmax: (a, _, [n]) => a.softmax(axisOf(filled(a), n) % Math.max(1, a.ndim)),
  logSoftmax: (a, _, [n]) => filled(a).logSoftmax(axisOf(filled(a), n)),
  cumsum: (a, _, [n]) => filled(a).cumsum(axisOf(filled(a), n)).mul(0.4),
  normalize: (a) => {
    const x = filled(a), centred = x.sub(x.mean(-1, { keepDims: true }));
    return centred.mul(centred.square().mean(-1, { keepDims: true }).add(0.1).rsqrt());
  },
  layerNorm: (a) => {
    const x = filled(a);
    return new nn.LayerNorm(x.shape.at(-1)!, { affine: false, eps: 0.1 }).forward(x);
  },
  crossEntropy: (a, _, [n]) => {
    const rows = matrix(a), classes = rows.shape[1]!;
    return rows.crossEntropy(rows.indexLike([rows.shape[0]!]).mul(n).remainder(classes));
  },
  // products
  matmul: (a, b) => {
    const x = matrix(a), y = matrix(b);
    if (x.shape[1] === y.shape[0] && x.shape[0]! * y.shape[1]! <= most) return x.matmul(y).mul(0.3);
    const [short, long] = x.shape[0]! < x.shape[1]! ? [x, x.transpose()] : [x.transpose(), x];
    return short.matmul(long).mul(0.3);
  },
  residual: (a) => {
    const x = matrix(a).slice(null, [0, 80]), square = x.transpose().matmul(x).mul(0.1);
    return x.add(x.matmul(square).tanh());
  },
  batches: (a, b) => {
    const x = filled(a), y = filled(b);
    const left = x.unsqueeze(-1), right = y.reshape([1, -1]);
    return small(left.matmul(right.slice(null, [0, 3]))).mul(0.5);
  },
  outer: (a, b) =>
    small(matrix(a).reshape([-1, 1])).matmul(small(matrix(b)).reshape([1, -1]).slice(null, [0, 5])),
  dot: (a) => filled(a).reshape([-1]).matmul(filled(a).reshape([-1])).mul(0.1).tanh(),
  conv2d: (a, b, [p, s]) => {
    const x = images(a), weight = matrix(b).slice([0, 2], [0, 2]).unsqueeze(0).unsqueeze(0);
    return x.conv2d(weight, { padding: 1 + p % 2, stride: 1 + s % 2 }).mul(0.5);
  },
  maxPool2d: (a, _, [s]) => images(apart(a)).maxPool2d(2, { padding: 1, stride: 1 + s % 2 }),
  avgPool2d: (a, _, [s]) => images(a).avgPool2d(2, { padding: 1, stride: 1 + s % 2 }),
  // views
  flatten: (a) => a.flatten(),
  reshape: (a, _, [n]) => {
    const divisors = [1, 2, 3, 4, 5, 6].filter((d) => a.size % d === 0);
    return a.size === 0 ? a : a.reshape([divisors[n % divisors.length]!, -1]);
  },
  permute: (a, _, [n]) => a.permute(order(a, n)),
  unsqueeze: (a, _, [n]) => a.ndim > 3 ? a.squeeze() : a.unsqueeze(n % (a.ndim + 1)),
  squeeze: (a) => a.squeeze(),
  expand: (a, _, [n]) => small(a.ndim > 3 ? a : a.unsqueeze(0).expand([n % 4, ...a.shape])),
  repeat: (a, _, [n]) => small(filled(a).repeat(filled(a).shape.map((_, k) => 1 + ((n >> k) & 1)))),
  slice: (a, _, [n, m]) =>
    a.slice(...a.shape.map((size, k): [number, number | null, number] => {
      const step = [1, 2, -1, -2][(n >> k) % 4]!;
      return step > 0 ? [m % (size + 1), null, step] : [size - 1 - m % (size + 1), null, step];
    })),
  pick: (a, _, [n]) => filled(a).slice(-1 - n % filled(a).shape[0]!),
  flip: (a, _, [n]) => a.flip(axes(a, n) ?? []),
  roll: (a, _, [n, m]) => a.ndim === 0 ? a : a.roll(n, axisOf(a, m)),
  pad: (a, _, [n, m]) =>
    small(a.pad(a.shape.map((_, k) => [(n >> k) % 3, (m >> k) % 2]), n % 2 / 2)),
  cut: (a) => a.pad(a.shape.map((size) => [size > 2 ? -1 : 1, 0])),
  assign: (a, b, [n]) => filled(a).sliceAssign([n % filled(a).shape[0]!], mean(b)),
  concat: (a, b, [n]) => {
    const x = filled(a), y = filled(b), axis = axisOf(x, n);
    const alike = x.ndim === y.ndim &&
      x.shape.every((size, k) => k === (axis + x.ndim) % x.ndim || size === y.shape[k]);
    return small(Tensor.concat(alike ? [x, y.cast(x.dtype)] : [x, x.neg(), x], axis));
  },
  stack: (a, _, [n]) => small(Tensor.stack([a, a.mul(2)], n % (a.ndim + 1))),
  split: (a, _, [n, m]) => {
    const x = filled(a), parts = x.split(1 + n % 3, axisOf(x, m));
    return parts[n % parts.length]!;
  },
  tril: (a, _, [n]) => matrix(a).tril(n % 5 - 2),
  triu: (a, _, [n]) => matrix(a).triu(n % 5 - 2),
  diagonal: (a) => matrix(a).diagonal(),
  // indexing
  gather: (a, _, [n, m]) => {
    const x = filled(a), axis = axisOf(x, m);
    return x.gather(axis, indices(x, axis, n));
  },
  indexSelect: (a, _, [n, m]) => {
    const x = filled(a), axis = axisOf(x, m), size = x.shape.at(axis)!;
    return small(
      x.indexSelect(
        axis,
        Tensor.arange(4, undefined, 1, { dtype: "int32", device: a.device }).mul(n).remainder(size),
      ),
    );
  },
  scatterAdd: (a, b, [n, m]) => {
    const x = filled(a), axis = axisOf(x, m);
    const source = fits(x.shape, b.shape) && b.size === x.size && b.ndim === x.ndim &&
        `${b.shape}` === `${x.shape}`
      ? b.cast(x.dtype)
      : x.mul(0.5);
    return x.scatterAdd(axis, indices(x, axis, n), source);
  },
  sorted: (a, _, [n]) => {
    const x = apart(filled(a)), axis = axisOf(x, n);
    return x.gather(axis, x.argsort(axis));
  },
  topk: (a, _, [n]) => {
    const x = apart(filled(a)), axis = axisOf(x, n);
    return x.topk(1 + n % x.shape.at(axis)!, axis).values;
  },
  // types, memory, gradients
  single: (a) => a.cast("float32"),
  double: (a) => a.cast("float64"),
  whole: (a) => apart(a).mul(4).floor().cast("int32").cast("float64").mul(0.25).add(a),
  bits: (a) => apart(a).gt(0.013).cast("uint8").cast("float64").sum().mul(0.1).add(a),
  random: (a) => a.mul(a.randLike()),
  contiguous: (a) => a.contiguous(),
  detach: (a) => a.detach().add(a),
  realize: (a) => a.mul(1.5).realize(),
  checkpoint: (a, b) =>
    checkpoint((x: Tensor, y: Tensor) => x.tanh().mul(beside(x, y)).sin(), a, b),
};
