/** Operators of ai.onnx.ml: what converters write for scikit-learn's linear models, trees and scalers. */
import { Tensor } from "../../../class/tensor.ts";
import { type Call, type Operators, typed } from "../core/call.ts";
import type { Value } from "../core/value.ts";

/** Numbers of an attribute that must be there. */
function floatsOf(call: Call, name: string): number[] {
  const floats = call.floats(name);
  if (floats) return floats;
  throw new TypeError(`its attribute "${name}" is missing`);
}

function rowOf(numbers: readonly number[]): Tensor {
  return Tensor.fromHost(Float32Array.from(numbers));
}

/** Scores as a node's `post_transform` says. */
function transformed(scores: Tensor, call: Call): Tensor {
  const kind = call.text("post_transform", "NONE");
  if (kind === "NONE") return scores;
  if (kind === "LOGISTIC") return scores.sigmoid();
  if (kind === "SOFTMAX") return scores.softmax(-1);
  if (kind !== "SOFTMAX_ZERO") throw new TypeError(`its post_transform ${kind} is not run`);
  const exps = scores.sub(scores.max(-1, { keepDims: true })).exp();
  const known = scores.ne(0).where(exps, 0);
  return known.div(known.sum(-1, { keepDims: true }));
}

function labelsOf(call: Call): readonly number[] {
  const labels = call.ints("classlabels_ints") ?? call.ints("classlabels_int64s");
  if (labels && labels.length > 0) return labels;
  throw new TypeError(
    "its classes are texts, which are not run: convert it with numbers for classes",
  );
}

/** The labels of classes by their places. */
function named(places: Tensor, labels: readonly number[]): Value {
  const table = Tensor.fromHost(BigInt64Array.from(labels, BigInt));
  return typed(table.indexSelect(0, places.cast("int64")), "int64");
}

function linear(call: Call, outputs: number): Tensor {
  const x = call.tensor(0).cast("float32"), coefficients = rowOf(floatsOf(call, "coefficients"));
  const product = x.matmul(coefficients.reshape([outputs, -1]).transpose());
  const intercepts = call.floats("intercepts") ?? [];
  return intercepts.length > 0 ? product.add(rowOf(intercepts)) : product;
}

function linearClassifier(call: Call): (Value | Tensor)[] {
  const labels = labelsOf(call), rows = call.floats("intercepts")?.length ?? labels.length;
  if (rows !== labels.length) {
    throw new TypeError(`it has ${rows} rows of coefficients for ${labels.length} classes`);
  }
  const scores = linear(call, rows);
  return [named(scores.argmax(-1), labels), transformed(scores, call)];
}

function normalizer(call: Call): Tensor {
  const x = call.tensor(0).cast("float32"),
    options = { keepDims: true },
    kind = call.text("norm", "MAX");
  const norm = kind === "L1"
    ? x.abs().sum(-1, options)
    : kind === "L2"
    ? x.square().sum(-1, options).sqrt()
    : x.max(-1, options);
  return norm.eq(0).where(x, x.div(norm));
}

/** Comparisons of a feature with a node's value. */
const comparisons: Readonly<Record<string, (x: Tensor, value: Tensor) => Tensor>> = {
  BRANCH_LEQ: (x, value) => x.le(value),
  BRANCH_LT: (x, value) => x.lt(value),
  BRANCH_GTE: (x, value) => x.ge(value),
  BRANCH_GT: (x, value) => x.gt(value),
  BRANCH_EQ: (x, value) => x.eq(value),
  BRANCH_NEQ: (x, value) => x.ne(value),
};

/** Trees in tables with a row a node; the ways of a leaf lead to itself. */
interface Forest {
  readonly roots: readonly number[];
  readonly depth: number;
  readonly modes: readonly string[];
  readonly features: readonly number[];
  readonly values: readonly number[];
  readonly yes: readonly number[];
  readonly no: readonly number[];
  readonly missingIsYes: readonly boolean[];
  /** The row of a node, by tree and number. */
  readonly rowOf: (tree: number, node: number) => number;
}

function forestOf(call: Call): Forest {
  const trees = call.neededInts("nodes_treeids"), nodes = call.neededInts("nodes_nodeids");
  const modes = call.texts("nodes_modes") ?? [];
  const places = new Map(trees.map((tree, k) => [`${tree} ${nodes[k]}`, k]));
  const rowOf = (tree: number, node: number): number => {
    const row = places.get(`${tree} ${node}`);
    if (row !== undefined) return row;
    throw new TypeError(`its tree ${tree} has no node ${node}`);
  };
  const isLeaf = (k: number): boolean => modes[k] === "LEAF";
  const ways = (name: string): number[] => {
    const given = call.neededInts(name);
    return trees.map((tree, k) => isLeaf(k) ? k : rowOf(tree, given[k]!));
  };
  const yes = ways("nodes_truenodeids"), no = ways("nodes_falsenodeids");
  const aims = new Set([...yes, ...no].filter((to, k) => to !== k % trees.length));
  const roots = trees.map((_, k) => k).filter((k) => !aims.has(k));
  const missing = call.ints("nodes_missing_value_tracks_true") ?? [];
  return {
    ...{ roots, modes, yes, no, rowOf, depth: depthOf(roots, yes, no) },
    features: call.neededInts("nodes_featureids"),
    values: floatsOf(call, "nodes_values"),
    missingIsYes: trees.map((_, k) => missing[k] === 1),
  };
}

/** Steps from a root to the farthest leaf. */
function depthOf(roots: readonly number[], yes: readonly number[], no: readonly number[]): number {
  let level = [...roots], depth = 0;
  for (;; depth++) {
    const next = level.flatMap((k) => yes[k] === k ? [] : [yes[k]!, no[k]!]);
    if (next.length === 0) return depth;
    if (depth > yes.length) throw new TypeError("its trees have no end");
    level = next;
  }
}

/** The leaves that rows of x end in: (rows, trees). */
function leavesOf(x: Tensor, forest: Forest): Tensor {
  const { roots, depth, modes, features, values, yes, no, missingIsYes } = forest;
  const whole = (numbers: readonly number[]) =>
    Tensor.fromHost(BigInt64Array.from(numbers, BigInt));
  const tables = {
    features: whole(features),
    yes: whole(yes),
    no: whole(no),
    values: rowOf(values),
  };
  const shape = [x.shape[0]!, roots.length];
  const kinds = [...new Set(modes)].filter((mode) => mode !== "LEAF");
  const masks = kinds.map((kind) => rowOf(modes.map((mode) => Number(mode === kind))));
  const missing = missingIsYes.includes(true) ? rowOf(missingIsYes.map(Number)) : null;
  let at = whole(roots).unsqueeze(0).expand(shape);
  for (let step = 0; step < depth; step++) {
    const rows = at.flatten(), own = (t: Tensor): Tensor => t.indexSelect(0, rows).reshape(shape);
    const feature = x.gather(1, own(tables.features)), value = own(tables.values);
    const isYes = kinds.map((kind, k) => {
      const compare = comparisons[kind];
      if (!compare) throw new TypeError(`its mode ${kind} is not run`);
      const found = compare(feature, value);
      return kinds.length === 1 ? found : found.logicalAnd(own(masks[k]!).ne(0));
    }).reduce((a, b) => a.logicalOr(b));
    const goes = missing ? isYes.logicalOr(feature.isNaN().logicalAnd(own(missing).ne(0))) : isYes;
    at = goes.where(own(tables.yes), own(tables.no));
  }
  return at;
}

/** Sums of the weights of leaves; `kind` begins the names of the attributes that say them. */
function treeScores(call: Call, kind: "class" | "target", count: number): Tensor {
  const forest = forestOf(call), trees = call.neededInts(`${kind}_treeids`);
  const nodes = call.neededInts(`${kind}_nodeids`), ids = call.neededInts(`${kind}_ids`);
  const weights = floatsOf(call, `${kind}_weights`),
    table = new Float32Array(forest.modes.length * count);
  trees.forEach((tree, k) => {
    table[forest.rowOf(tree, nodes[k]!) * count + ids[k]!]! += weights[k]!;
  });
  const x = call.tensor(0).cast("float32"), base = call.floats("base_values") ?? [];
  const leaves = leavesOf(x, forest), rows = x.shape[0]!;
  const found = Tensor.fromHost(table, { shape: [forest.modes.length, count] })
    .indexSelect(0, leaves.flatten()).reshape([rows, forest.roots.length, count]);
  const joined = aggregated(found, call.text("aggregate_function", "SUM"));
  return base.length > 0 ? joined.add(rowOf(base)) : joined;
}

function aggregated(found: Tensor, kind: string): Tensor {
  if (kind === "SUM") return found.sum(1);
  if (kind === "AVERAGE") return found.mean(1);
  if (kind === "MIN") return found.min(1);
  if (kind === "MAX") return found.max(1);
  throw new TypeError(`its aggregate_function ${kind} is not run`);
}

function treeClassifier(call: Call): (Value | Tensor)[] {
  const labels = labelsOf(call), ids = call.neededInts("class_ids"), [only] = ids;
  if (labels.length > 2 || ids.some((id) => id !== only)) {
    const scores = treeScores(call, "class", labels.length);
    return [named(scores.argmax(-1), labels), transformed(scores, call)];
  }
  // One score for two classes: a probability where no weight is below 0, else a distance.
  const isShare = floatsOf(call, "class_weights").every((weight) => weight >= 0);
  const score = treeScores(call, "class", only! + 1).slice(null, [only!, only! + 1]);
  const label = named(score.squeeze(1).gt(isShare ? 0.5 : 0), labels);
  const isLogistic = call.text("post_transform", "NONE") === "LOGISTIC";
  if (isShare) return [label, Tensor.concat([score.neg().add(1), score], 1)];
  const both = Tensor.concat([score.neg(), score], 1);
  return [label, isLogistic ? both.sigmoid() : both];
}

/** Kernels of support vectors, of the products of rows with them. */
function kernelOf(call: Call, x: Tensor, vectors: Tensor): Tensor {
  const [gamma = 0, shift = 0, degree = 0] = call.floats("kernel_params") ?? [];
  const kind = call.text("kernel_type", "LINEAR"), product = x.matmul(vectors.transpose());
  if (kind === "LINEAR") return product;
  if (kind === "POLY") return product.mul(gamma).add(shift).pow(degree);
  if (kind === "SIGMOID") return product.mul(gamma).add(shift).tanh();
  if (kind !== "RBF") throw new TypeError(`its kernel ${kind} is not run`);
  const distances = x.unsqueeze(1).sub(vectors).square().sum(-1);
  return distances.mul(-gamma).exp();
}

function supportRegressor(call: Call): Tensor {
  const x = call.tensor(0).cast("float32"), count = call.int("n_supports", 0);
  const coefficients = rowOf(floatsOf(call, "coefficients")), rho = rowOf(floatsOf(call, "rho"));
  const values = count > 0
    ? kernelOf(call, x, rowOf(floatsOf(call, "support_vectors")).reshape([count, -1]))
    : x;
  const sums = values.matmul(coefficients.unsqueeze(1)).add(rho);
  if (call.int("one_class", 0) === 0) return transformed(sums, call);
  return sums.gt(0).where(sums.onesLike(), -1);
}

/** Operators of ai.onnx.ml, by their kinds. */
export const classical: Operators = {
  ArrayFeatureExtractor: (call) => {
    const { type } = call.value(0), x = call.tensor(0), rows = x.ndim === 1 ? x.unsqueeze(0) : x;
    return typed(rows.indexSelect(-1, call.tensor(1).flatten().cast("int64")), type);
  },
  Binarizer: (call) => {
    const x = call.tensor(0);
    return x.gt(call.float("threshold", 0)).cast(x.dtype);
  },
  LinearClassifier: linearClassifier,
  LinearRegressor: (call) => transformed(linear(call, call.int("targets", 1)), call),
  Normalizer: normalizer,
  Scaler: (call) => {
    const x = call.tensor(0).cast("float32");
    return x.sub(rowOf(floatsOf(call, "offset"))).mul(rowOf(floatsOf(call, "scale")));
  },
  SVMRegressor: supportRegressor,
  TreeEnsembleClassifier: treeClassifier,
  TreeEnsembleRegressor: (call) =>
    transformed(treeScores(call, "target", call.int("n_targets", 1)), call),
};
