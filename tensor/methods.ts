/**
 * The table of methods: which function each method of `Tensor` calls, and how. It stands above `ops/`,
 * `execution/` and `autograd/`, whose functions it hands to the class in `core/`; the entry points of
 * the package import it for that effect. A method without a row does not compile.
 */
import type { Shape } from "../backend/internal.ts";
import { backward } from "./autograd/autograd.ts";
import { addGradientHook } from "./autograd/gradient_hooks.ts";
import type { OperationKind } from "./core/calls.ts";
import { distinct } from "./core/apply.ts";
import type { SliceRange, TensorLike } from "./core/arguments.ts";
import { provideMethods } from "./core/method_table.ts";
import { act, compute } from "./core/operations.ts";
import type { Tensor } from "./core/tensor.ts";
import * as assignment from "./execution/assignment.ts";
import { explain } from "./execution/explain.ts";
import { exportBlock } from "./execution/native_access.ts";
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
  cast,
  logicalNot,
  select,
  unaries,
  unary,
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

/** What `compute` calls: a function of four arguments at most, the tensor among them. */
// deno-lint-ignore no-explicit-any -- rows take what they take
type Row = (a: any, b: any, c: any, d: any) => any;

type Table = Readonly<Record<string, Row>>;

/** Rows with other functions in their place, which take and return the same. */
function each<Rows extends Table>(rows: Rows, wrap: (fn: Row, name: string) => Row): Rows {
  return Object.fromEntries(Object.entries(rows).map(([k, fn]) => [k, wrap(fn, k)])) as Rows;
}

/** Operations: they give tensors and do nothing else. */
function operations<Rows extends Table>(rows: Rows): Rows {
  return each(rows, (fn) => (a, b, c, d) => compute(fn, a, b, c, d));
}

/**
 * Operations that may have nothing to do. What they give then is another tensor of the same value, so
 * that disposing of one leaves the other.
 */
function distinctOperations<Rows extends Table>(rows: Rows): Rows {
  return operations(each(rows, (fn, name) => (x, a, b, c) => {
    const out = fn(x, a, b, c);
    return out === x ? distinct(name, x) : out;
  }));
}

/** What is done with a tensor, such as to read it. */
function actions<Rows extends Table>(kind: OperationKind, rows: Rows): Rows {
  return each(rows, (fn) => (x, a, b, c) => act(kind, fn, x, a, b, c));
}

/** A row for each name. */
function rowsOf<Name extends string, F>(
  names: Readonly<Record<Name, unknown>>,
  row: (name: Name) => F,
): Record<Name, F> {
  const list = Object.keys(names) as Name[];
  return Object.fromEntries(list.map((name) => [name, row(name)])) as Record<Name, F>;
}

/** An operation whose first argument says which of several it is. */
function which<First, A extends unknown[], R>(
  fn: (first: First, ...args: A) => R,
  first: First,
): (...args: A) => R {
  return (...args) => fn(first, ...args);
}

const elementwise = operations({
  ...rowsOf(unaries, (name) => (x: Tensor) => unary(name, x)),
  ...rowsOf(binaries, (name) => (a: Tensor, b: TensorLike) => binary(name, a, b)),
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

const parts = distinctOperations({ slice: slices.slice });

const methods = {
  ...elementwise,
  ...operations({
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
  ...distinctOperations({
    sum: reductions.sum,
    prod: reductions.prod,
    max: which(reductions.extreme, "max"),
    min: which(reductions.extreme, "min"),
    any: which(reductions.anyAll, "any"),
    all: which(reductions.anyAll, "all"),
    softmax: reductions.softmax,
    logSoftmax: reductions.logSoftmax,
  }),
  ...operations({
    mean: reductions.mean,
    argmax: which(reductions.argExtreme, "argmax"),
    argmin: which(reductions.argExtreme, "argmin"),
    maxWithIndices: which(reductions.extremeWithIndices, "max"),
    minWithIndices: which(reductions.extremeWithIndices, "min"),
    variance: reductions.variance,
    std: reductions.std,
    norm: reductions.norm,
    logSumExp: reductions.logSumExp,
    cumsum: scans.cumsum,
    cumprod: scans.cumprod,
    cummax: which(scans.cumulativeExtreme, "max"),
    cummin: which(scans.cumulativeExtreme, "min"),
  }),
  // Shapes and parts.
  ...distinctOperations({
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
  slice: (x: Tensor, ...ranges: SliceRange[]) => parts.slice(x, ranges),
  ...operations({
    split: joining.split,
    chunk: joining.chunk,
    unbind: joining.unbind,
    diagonal: triangles.diagonal,
    tril: triangles.tril,
    triu: triangles.triu,
  }),
  // Indexing, sorting and counting.
  ...operations({
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
  ...operations({
    matmul: contractions.matmul,
    bmm: contractions.bmm,
    outer: contractions.outer,
    conv1d: which(conv, 1),
    conv2d: which(conv, 2),
    conv3d: which(conv, 3),
    convTranspose1d: which(convTranspose, 1),
    convTranspose2d: which(convTranspose, 2),
    convTranspose3d: which(convTranspose, 3),
    maxPool2d: pooling.maxPool2d,
    avgPool2d: pooling.avgPool2d,
    adaptiveMaxPool2d: pooling.adaptiveMaxPool2d,
    adaptiveAvgPool2d: pooling.adaptiveAvgPool2d,
    crossEntropy,
  }),
  // What is not an operation.
  ...actions("read", {
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
  ...actions("realize", { realize: assignment.realize }),
  ...actions("assign", { assign: assignment.assign }),
  ...actions("dispose", { dispose: assignment.dispose }),
  ...actions("set", { setRequiresGrad: assignment.setRequiresGrad }),
  setGrad: assignment.setGrad,
  registerHook: addGradientHook,
  exportBlock,
  explain,
  toString: printing.describe,
  toJSON: printing.describe,
  inspect: printing.inspect,
  toPrimitive: printing.toPrimitive,
};

provideMethods({ methods, statics: functional });
