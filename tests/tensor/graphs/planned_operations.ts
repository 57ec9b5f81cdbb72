/**
 * Further steps of random graphs, for graphs that are planned and written as kernels but whose numbers nobody
 * compares: types of few digits, and operations of many parts, where the order of additions shows.
 */
import { type DType, nn, noGrad, Tensor } from "../../../mod.ts";
import { isFloat } from "../../../backend/internal.ts";
import { binaries, unaries } from "../../../tensor/ops/elementwise/elementwise.ts";
import {
  axisOf,
  beside,
  filled,
  images,
  matrix,
  type Operation,
  operations,
  small,
} from "./operations.ts";

/** As a floating type: that of the tensor, or one of the numbers. */
function float(t: Tensor, n = 0): Tensor {
  return isFloat(t.dtype) ? t : t.cast((["float32", "float16", "bfloat16"] as const)[n % 3]!);
}

/** Rows of features, with leading axes where there are some. */
function rows(t: Tensor, n: number): Tensor {
  const full = float(filled(t), n);
  if (full.ndim < 2) return full.reshape([-1, 1]);
  return full.ndim > 4 ? full.flatten(0, 2) : full;
}

function attend(a: Tensor, b: Tensor, n: number, options: object): Tensor {
  const query = rows(a, n), like = rows(b, n).cast(query.dtype), features = query.shape.at(-1)!;
  const alike = like.shape.at(-1) === features && (like.ndim === 2 || like.ndim === query.ndim &&
      `${like.shape.slice(0, -2)}` === `${query.shape.slice(0, -2)}`);
  const key = alike ? like : query;
  return nn.scaledDotProductAttention(
    query,
    key,
    key.mul(0.5).slice(...key.shape.map(() => null)),
    options,
  );
}

const cast = (dtype: DType): Operation => (a) => a.cast(dtype);

type Method = (this: Tensor, b?: Tensor) => Tensor;

/** Every function of one element or two that is no step yet: a row of the tables is one by itself. */
const elementwise: Readonly<Record<string, Operation>> = Object.fromEntries(
  [...Object.keys(unaries), ...Object.keys(binaries)].flatMap((name) => {
    const method = (Tensor.prototype as unknown as Record<string, Method>)[name];
    if (name in operations || method === undefined) return [];
    const as = (t: Tensor) => name.startsWith("bitwise") ? t.cast("int32") : t;
    const step: Operation = (a, b) =>
      method.call(as(a), ...(name in unaries ? [] : [as(beside(a, b))]) as []);
    return [[name, step]];
  }),
);

/** The steps by name. */
export const planned: Readonly<Record<string, Operation>> = {
  ...Object.fromEntries(
    (["float16", "bfloat16", "int32", "int64", "uint8"] as const).map((dtype) => [
      dtype,
      cast(dtype),
    ]),
  ),
  ...elementwise,
  bool: (a) => a.gt(0).logicalNot().contiguous().cast("int32"),
  attention: (a, b, [n, m]) => attend(a, b, n, { isCausal: m % 3 === 0, dropout: m % 4 ? 0 : 0.1 }),
  "attention with a mask": (a, _, [n, m]) => {
    const query = rows(a, n),
      open = query.slice(
        ...query.shape.map((_, k) => k === query.ndim - 1 ? [0, 1] as [number, number] : null),
      ).detach();
    const mask = m % 2 ? open.gt(0) : open;
    return attend(a, a, n, {
      mask: mask.expand([...query.shape.slice(0, -1), query.shape.at(-2)!]),
    });
  },
  "attention of heads": (a, _, [n]) => {
    const x = rows(a, n), features = x.shape.at(-1)!;
    const heads = [4, 2, 1].find((h) => features % h === 0)!;
    const split = x.reshape([...x.shape.slice(0, -1), heads, -1]).transpose(-3, -2);
    return nn.scaledDotProductAttention(split, split, split);
  },
  recurrence: (a, _, [n]) => {
    const x = rows(a, n), steps = x.ndim === 3 ? x : matrix(x).unsqueeze(0), size = 1 + n % 9;
    const made = n % 2 ? new nn.LSTM(steps.shape[2]!, size) : new nn.GRU(steps.shape[2]!, size);
    return made.forward(steps.cast("float32")).output;
  },
  conv1d: (a, _, [n, m]) => {
    const x = matrix(float(a, n)).unsqueeze(1), weight = x.slice([0, 1], null, [0, 3]).detach();
    return x.conv1d(weight.expand([1 + n % 5, 1, weight.shape[2]!]), {
      padding: 2,
      stride: 1 + m % 2,
    });
  },
  channels: (a, _, [n, m]) => {
    const x = images(float(a, n)), many = x.expand([2, 1 + m % 3 * 8, ...x.shape.slice(2)]);
    const weight = Tensor.ones([1 + n % 17, many.shape[1]!, 3, 3], { device: a.device });
    weight.requiresGrad = true;
    return small(many.conv2d(weight.cast(x.dtype), { padding: 1 }));
  },
  depthwise: (a, _, [n]) => {
    const x = images(float(a, n)), channels = 1 + n % 9;
    const weight = Tensor.ones([channels, 1, 3, 3], { device: a.device }).cast(x.dtype);
    weight.requiresGrad = true;
    return small(
      x.expand([2, channels, ...x.shape.slice(2)]).conv2d(weight, { padding: 1, groups: channels }),
    );
  },
  convTranspose2d: (a, _, [n, m]) => {
    const x = images(float(a, n)), weight = Tensor.ones([1, 3, 2, 2], { device: a.device });
    return small(x.convTranspose2d(weight.cast(x.dtype), { stride: 1 + m % 2 }));
  },
  batchNorm: (a, _, [n]) => {
    const x = images(float(a, n));
    return small(new nn.BatchNorm2d(1).forward(x.expand([2, ...x.shape.slice(1)])));
  },
  embedding: (a, b, [n]) => {
    const table = matrix(float(a, n)), places = matrix(b).indexLike([1 + n % 7]);
    return small(table.indexSelect(0, places.remainder(table.shape[0]!)));
  },
  indexPut: (a, _, [n]) => {
    const x = matrix(a), places = x.indexLike([3]).mul(n).remainder(x.shape[0]!);
    return x.indexPut([places], x.slice([0, 1]).detach(), { accumulate: n % 2 > 0 });
  },
  cumprod: (a, _, [n]) => filled(a).cumprod(axisOf(filled(a), n)),
  multinomial: (a, _, [n]) =>
    noGrad(() => matrix(float(a, n)).cast("float32").abs().add(0.1).multinomial(1)),
  argmin: (a, _, [n]) => filled(a).argmin(axisOf(filled(a), n), { keepDims: n % 2 > 0 }),
  linear: (a, _, [n]) => {
    const x = matrix(float(a, n)), layer = new nn.Linear(x.shape[1]!, 8 * (1 + n % 17));
    return small(layer.forward(x.cast("float32")).gelu());
  },
  "linear of halves": (a, _, [n]) => {
    const x = matrix(float(a, n)), layer = new nn.Linear(x.shape[1]!, 8 * (1 + n % 17));
    const dtype = n % 2 ? "float16" as const : "bfloat16" as const;
    return small(x.cast(dtype).matmul(layer.weight.cast(dtype).transpose()).silu());
  },
};
