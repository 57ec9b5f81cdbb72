/** The operations of the programs, by the names that `make_fixtures.py` gives them. */
import { type DType, Tensor } from "../../mod.ts";

/** Takes tensors and the parameters of a step. */
type Operation = (tensors: readonly Tensor[], parameters: readonly never[]) => Tensor;

// deno-lint-ignore no-explicit-any -- methods are called by their names
type Methods = Record<string, (...args: any[]) => Tensor>;

function method(name: string): Operation {
  return ([a, b]) => (a as unknown as Methods)[name]!(...(b ? [b] : []));
}

// deno-lint-ignore no-explicit-any -- parameters are those of the operation
const special: Record<string, (a: Tensor, p: readonly any[], b: Tensor) => Tensor> = {
  clamp: (a, [low, high]) => a.clamp(low, high),
  where: (a, _, b) => a.gt(0).where(a, b),
  cast: (a, [dtype]) => a.cast(dtype as DType),
  any: (a, [axes, keepDims]) => a.ne(0).any(axes, { keepDims }),
  all: (a, [axes, keepDims]) => a.ne(0).all(axes, { keepDims }),
  variance: (a, [axes, keepDims]) => a.variance(axes, { keepDims, correction: 0 }),
  reshape: (a, [shape]) => a.reshape(shape),
  permute: (a, [order]) => a.permute(order),
  expand: (a, [shape]) => a.expand(shape),
  slice: (a, [ranges, back]) => {
    const axes = (back as boolean[]).flatMap((is, k) => is ? [k] : []);
    return a.slice(...ranges).flip(axes);
  },
  sliceAssign: (a, [ranges, value]) => a.sliceAssign(ranges, value),
  unsqueeze: (a, [axis]) => a.unsqueeze(axis),
  squeeze: (a, [axis]) => a.squeeze(axis),
  tril: (a, [diagonal]) => a.tril(diagonal),
  triu: (a, [diagonal]) => a.triu(diagonal),
  flip: (a, [axes]) => a.flip(axes),
  roll: (a, [shift, axis]) => a.roll(shift, axis),
  pad: (a, [widths, value]) => a.pad(widths, value),
  repeat: (a, [times]) => a.repeat(times),
  concat: (a, [axis], b) => {
    const isAlike = `${a.shape}` === `${b.shape}`;
    return Tensor.concat([a, isAlike ? b.cast(a.dtype) : a], axis);
  },
  stack: (a, [axis]) => Tensor.stack([a, a], axis),
  indexSelect: (a, [axis, at]) => {
    return a.indexSelect(axis, Tensor.fromHost(Int32Array.from(at), { device: a.device }));
  },
  gather: (a, [axis, factor]) => a.gather(axis, indicesOf(a, axis, factor)),
  scatterAdd: (a, [axis, factor]) => a.scatterAdd(axis, indicesOf(a, axis, factor), a),
  sort: (a, [axis, descending]) => a.sort(axis, descending).values,
  gram: (a) => a.matmul(a.transpose()),
  conv2d: (a, [padding, stride]) => {
    const weight = a.slice([0, 2], [0, 3]).unsqueeze(0).unsqueeze(0);
    return a.unsqueeze(0).unsqueeze(0).conv2d(weight, { padding, stride });
  },
  maxPool2d: (a, [padding, stride]) =>
    a.unsqueeze(0).unsqueeze(0).maxPool2d(2, { padding, stride }),
  avgPool2d: (a, [padding, stride]) =>
    a.unsqueeze(0).unsqueeze(0).avgPool2d(2, { padding, stride }),
};

for (const name of ["add", "sub", "mul", "div", "remainder", "pow"] as const) {
  special[`${name}Number`] = (a, [n]) => a[name](n);
}
for (const name of ["sum", "mean", "max", "min", "logSumExp", "norm"] as const) {
  special[name] = (a, [axes, keepDims]) => a[name](axes, { keepDims });
}
for (const name of ["prod", "argmax", "argmin", "softmax", "logSoftmax", "cumsum"] as const) {
  special[name] = (a, [axis]) => a[name](axis);
}

function indicesOf(a: Tensor, axis: number, factor: number): Tensor {
  return a.indexLike(a.shape).mul(factor).remainder(a.shape.at(axis)!);
}

/** The operation of a name: a method of tensors, where nothing else is known of it. */
export function operationOf(name: string): Operation {
  const fn = special[name];
  return fn === undefined ? method(name) : ([a, b], parameters) => fn(a!, parameters, b!);
}
