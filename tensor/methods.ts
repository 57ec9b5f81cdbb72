/**
 * The table of methods: which function each method of `Tensor` calls, and how. It stands above `ops/`,
 * `execution/` and `autograd/`, whose functions it hands to the class in `core/`; the entry points of
 * the package import it for that effect. A method without a row does not compile.
 */
import type { Shape } from "../backend/internal.ts";
import { backward } from "./autograd/autograd.ts";
import { addGradientHook } from "./autograd/gradient_hooks.ts";
import type { OperationKind } from "./core/calls.ts";
import type { TensorLike } from "./core/arguments.ts";
import type { ConvOptions, ConvTransposeOptions } from "./core/image_options.ts";
import { type Methods, provideMethods } from "./core/method_table.ts";
import { act, compute, computeDistinct } from "./core/operations.ts";
import type { Tensor } from "./core/tensor.ts";
import * as assignment from "./execution/assignment.ts";
import { explain } from "./execution/explain.ts";
import { lendBlock } from "./execution/native_access.ts";
import * as printing from "./execution/printing.ts";
import * as reading from "./execution/reading.ts";
import * as contractions from "./ops/contractions.ts";
import * as random from "./ops/creation/random.ts";
import * as sequences from "./ops/creation/sequences.ts";
import * as activations from "./ops/elementwise/activations.ts";
import * as arithmetic from "./ops/elementwise/arithmetic.ts";
import * as bits from "./ops/elementwise/bits.ts";
import { isClose } from "./ops/elementwise/comparisons.ts";
import {
  binaries,
  binary,
  type BinaryName,
  cast,
  logicalNot,
  select,
  unaries,
  unary,
  type UnaryName,
} from "./ops/elementwise/elementwise.ts";
import * as functional from "./ops/functional.ts";
import { conv, convTranspose } from "./ops/images/convolution.ts";
import { padReflect, padReplicate } from "./ops/images/edge_padding.ts";
import { pixelShuffle, pixelUnshuffle } from "./ops/images/pixel_shuffle.ts";
import * as pooling from "./ops/images/pooling.ts";
import { interpolate } from "./ops/images/resampling.ts";
import * as counting from "./ops/indexing/counting.ts";
import * as indexing from "./ops/indexing/indexing.ts";
import { searchsorted } from "./ops/indexing/searching.ts";
import * as selection from "./ops/indexing/selection.ts";
import { crossEntropy } from "./ops/losses.ts";
import * as reductions from "./ops/reductions.ts";
import * as scans from "./ops/scans.ts";
import * as joining from "./ops/shaping/joining.ts";
import * as slices from "./ops/shaping/slices.ts";
import * as triangles from "./ops/shaping/triangles.ts";
import * as views from "./ops/shaping/views.ts";
import { copyTo } from "./ops/transfer.ts";

// deno-lint-ignore no-explicit-any -- rows take what they take
type Row = (...args: any[]) => any;

/** Rows with the functions that `wrap` makes of them, which take what the rows take. */
function each<Rows extends Readonly<Record<string, Row>>>(
  rows: Rows,
  wrap: (fn: Row) => Row,
): Rows {
  return Object.fromEntries(Object.entries(rows).map(([name, fn]) => [name, wrap(fn)])) as Rows;
}

/** Methods that give tensors and do nothing else: four arguments at most, the tensor among them. */
function computing<Rows extends Readonly<Record<string, Row>>>(rows: Rows): Rows {
  return each(rows, (fn) => (x, a, b, c) => compute(fn, x, a, b, c));
}

/** The same for those that may have nothing to do, and then give another tensor of the same value. */
function computingDistinct<Rows extends Readonly<Record<string, Row>>>(rows: Rows): Rows {
  return each(rows, (fn) => (x, a, b) => computeDistinct(fn, x, a, b));
}

/** Methods that do something with a tensor: two arguments at most beside it. */
function acting<Rows extends Readonly<Record<string, Row>>>(kind: OperationKind, rows: Rows): Rows {
  return each(rows, (fn) => (x, a, b) => act(kind, fn, x, a, b));
}

/** A row for each name. */
function named<Name extends string, F>(
  names: Readonly<Record<Name, unknown>>,
  row: (name: Name) => F,
) {
  const list = Object.keys(names) as Name[];
  return Object.fromEntries(list.map((name) => [name, row(name)])) as Record<Name, F>;
}

const convolution = (dims: number) => (x: Tensor, weight: Tensor, options?: ConvOptions) =>
  conv(dims, x, weight, options);

const transposed = (dims: number) => (x: Tensor, weight: Tensor, options?: ConvTransposeOptions) =>
  convTranspose(dims, x, weight, options);

const elementwise = computing({
  ...named<UnaryName, (x: Tensor) => Tensor>(unaries, (name) => (x) => unary(name, x)),
  ...named<BinaryName, (a: Tensor, b: TensorLike) => Tensor>(
    binaries,
    (name) => (a, b) => binary(name, a, b),
  ),
  pow: arithmetic.pow,
  lerp: arithmetic.lerp,
  square: arithmetic.square,
  frac: arithmetic.frac,
  isFinite: arithmetic.isFinite,
  isClose,
  cast,
  logicalNot,
  where: select,
  maskedFill: (x: Tensor, mask: Tensor, value: TensorLike) => select(mask, value, x),
  bitwiseNot: bits.bitwiseNot,
  bitwiseLeftShift: bits.bitwiseLeftShift,
  bitwiseRightShift: bits.bitwiseRightShift,
  relu: (x: Tensor) => binary("relu", x, 0),
  leakyRelu: activations.leakyRelu,
  prelu: activations.prelu,
  elu: activations.elu,
  gelu: activations.gelu,
  silu: activations.silu,
  logSigmoid: activations.logSigmoid,
  hardsigmoid: activations.hardsigmoid,
  hardswish: activations.hardswish,
  mish: activations.mish,
  softplus: activations.softplus,
});

const methods: Methods = {
  ...elementwise,
  ...computing({
    fullLike: sequences.fullLike,
    zerosLike: (x: Tensor, shape?: Shape) => sequences.fullLike(x, 0, shape),
    onesLike: (x: Tensor, shape?: Shape) => sequences.fullLike(x, 1, shape),
    indexLike: sequences.indexLike,
    randLike: random.randLike,
    randnLike: random.randnLike,
    bernoulli: random.bernoulli,
    multinomial: random.multinomial,
    to: copyTo,
    backward,
    detach: views.detach,
    clone: views.clone,
    contiguous: views.contiguous,
  }),
  // Reductions and scans.
  ...computingDistinct({
    sum: reductions.sum,
    prod: reductions.prod,
    max: reductions.max,
    min: reductions.min,
    any: reductions.any,
    all: reductions.all,
    softmax: reductions.softmax,
    logSoftmax: reductions.logSoftmax,
  }),
  ...computing({
    mean: reductions.mean,
    argmax: reductions.argmax,
    argmin: reductions.argmin,
    maxWithIndices: reductions.maxWithIndices,
    minWithIndices: reductions.minWithIndices,
    variance: reductions.variance,
    std: reductions.std,
    norm: reductions.norm,
    logSumExp: reductions.logSumExp,
    cumsum: scans.cumsum,
    cumprod: scans.cumprod,
    cummax: (x: Tensor, axis: number) => scans.cumulativeExtreme("max", x, axis),
    cummin: (x: Tensor, axis: number) => scans.cumulativeExtreme("min", x, axis),
  }),
  // Shapes and parts.
  ...computingDistinct({
    clamp: arithmetic.clamp,
    reshape: views.reshape,
    flatten: views.flatten,
    permute: views.permute,
    transpose: views.transpose,
    expand: views.expand,
    squeeze: views.squeeze,
    unsqueeze: views.unsqueeze,
    flip: slices.flip,
    sliceAssign: slices.sliceAssign,
    pad: slices.pad,
    padReflect,
    padReplicate,
    roll: joining.roll,
    repeat: joining.repeat,
    interpolate,
    pixelShuffle,
    pixelUnshuffle,
  }),
  slice: (x, ...ranges) => computeDistinct(slices.slice, x, ranges),
  ...computing({
    split: joining.split,
    chunk: joining.chunk,
    unbind: joining.unbind,
    diagonal: triangles.diagonal,
    tril: triangles.tril,
    triu: triangles.triu,
  }),
  // Indexing, sorting and counting.
  ...computing({
    indexSelect: indexing.indexSelect,
    embedding: (x: Tensor, indices: Tensor) => indexing.indexSelect(x, 0, indices, "embedding"),
    gather: indexing.gather,
    scatter: indexing.scatterSet,
    scatterAdd: indexing.scatterAdd,
    index: selection.index,
    indexPut: selection.indexPut,
    maskedSelect: selection.maskedSelect,
    nonzero: selection.nonzero,
    oneHot: indexing.oneHot,
    argsort: indexing.argsort,
    sort: indexing.sort,
    topk: indexing.topk,
    repeatInterleave: selection.repeatInterleave,
    searchsorted,
    unique: counting.unique,
    bincount: counting.bincount,
    histogram: counting.histogram,
  }),
  // Products, images, losses.
  ...computing({
    matmul: contractions.matmul,
    bmm: contractions.bmm,
    outer: contractions.outer,
    conv1d: convolution(1),
    conv2d: convolution(2),
    conv3d: convolution(3),
    convTranspose1d: transposed(1),
    convTranspose2d: transposed(2),
    convTranspose3d: transposed(3),
    maxPool2d: pooling.maxPool2d,
    avgPool2d: pooling.avgPool2d,
    adaptiveMaxPool2d: pooling.adaptiveMaxPool2d,
    adaptiveAvgPool2d: pooling.adaptiveAvgPool2d,
    crossEntropy,
  }),
  // What is not an operation.
  ...acting("read", {
    toHost: reading.toHost,
    toHostSync: reading.toHostSync,
    item: reading.item,
    itemSync: reading.itemSync,
    toArray: reading.toArray,
    toNumbers: reading.toNumbers,
    allClose: reading.allClose,
    equal: reading.equal,
    print: printing.print,
  }),
  ...acting("realize", { realize: assignment.realize }),
  ...acting("assign", { assign: assignment.assign }),
  ...acting("dispose", { dispose: assignment.dispose }),
  ...acting("set", { setRequiresGrad: assignment.setRequiresGrad }),
  registerHook: addGradientHook,
  lendBlock,
  explain,
  toString: printing.describe,
  toJSON: printing.describe,
  inspect: printing.inspect,
  toPrimitive: printing.toPrimitive,
};

provideMethods({ methods, statics: functional });
