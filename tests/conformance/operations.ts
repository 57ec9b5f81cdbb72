/**
 * The operations under test: one row each, how it is called with the tensors and the further
 * arguments of a case, and what is particular about it.
 */
import {
  type BackendName,
  type DType,
  einsum,
  gradient,
  histogramdd,
  interp,
  nn,
  percentile,
  polyval,
  type ScatterReduction,
  special,
  Tensor,
} from "../../mod.ts";
import { decode } from "./fixture.ts";

/** The call of an operation, and its peculiarities. */
export interface Operation {
  readonly call: (tensors: readonly Tensor[], args: readonly unknown[]) => Tensor | Tensor[];
  /** PyTorch's positions are int64; netcl's are int32. */
  readonly positions?: boolean;
  /** The floating types that it is held in; all by default. */
  readonly floats?: readonly DType[];
  /** Errors may be this much larger: sums of many terms, cancellation. */
  readonly slack?: number;
}

type Method = (...args: unknown[]) => Tensor;

function argument(value: unknown): unknown {
  return value === null
    ? undefined
    : typeof value === "string" && /^(-?inf|nan)$/.test(value)
    ? decode(value)
    : value;
}

/** Calls the method of the first tensor; the others come in front of the arguments. */
function method(name: string): Operation["call"] {
  return ([x, ...others], args) => {
    const call = (x as unknown as Record<string, Method | undefined>)[name];
    if (!call) throw new Error(`There is no method ${name}`);
    return call.call(x, ...others, ...args.map(argument));
  };
}

/** Index tensors for the axes of which the pattern has their numbers. */
function indices(tensors: readonly Tensor[], pattern: unknown): (Tensor | null)[] {
  return (pattern as (number | null)[]).map((k) => k === null ? null : tensors[k]!);
}

/** Calls a method that gives values with their positions. */
function pair(name: string): Operation["call"] {
  return (tensors, args) => {
    const made = method(name)(tensors, args) as unknown as { values: Tensor; indices: Tensor };
    return [made.values, made.indices];
  };
}

/** The same call, with what stands at a place of the arguments as an option of that name. */
function option(at: number, name: string, call: Operation["call"]): Operation["call"] {
  return (tensors, args) =>
    call(tensors, args.map((value, k) => k === at && value !== null ? { [name]: value } : value));
}

/** Calls a method with a norm, which JSON has as text where it is infinite. */
function norms(name: string): Operation["call"] {
  return (tensors, [p]) => method(name)(tensors, p === undefined ? [] : [{ p: argument(p) }]);
}

/** Calls a static method of `Tensor`. */
function maker(name: string): Operation["call"] {
  return (_, args) => (Tensor as unknown as Record<string, Method>)[name]!(...args.map(argument));
}

/** Calls a function of the tensors and what follows. */
function free(fn: (...args: never[]) => Tensor): Operation["call"] {
  return (tensors, args) => (fn as unknown as Method)(...tensors, ...args.map(argument));
}

/** Calls a convolution; a third tensor is the bias. */
function convolution(name: string): Operation["call"] {
  return ([x, weight, bias], [options]) =>
    method(name)([x!, weight!], [{ ...options as object, ...(bias ? { bias } : {}) }]);
}

const makers = "zeros ones full linspace eye".split(" ");

const precise: readonly DType[] = ["float64", "float32"];

const methods =
  "neg abs sign exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin acos atan \
sinh cosh tanh asinh acosh atanh erf erfc sigmoid logSigmoid floor ceil round trunc frac square relu \
leakyRelu elu gelu silu hardswish hardsigmoid mish prelu softplus isNaN isInf isFinite logicalNot clamp \
add sub mul div pow maximum minimum remainder floorDivide atan2 eq ne lt le gt ge logicalAnd \
logicalOr logicalXor where maskedFill lerp cast \
sum mean prod max min any all variance std norm logSumExp softmax logSoftmax cumsum cumprod bitwiseAnd bitwiseOr bitwiseXor bitwiseNot bitwiseLeftShift bitwiseRightShift \
matmul dot maxPool2d avgPool2d adaptiveAvgPool2d adaptiveMaxPool2d pixelShuffle \
pixelUnshuffle padReflect padReplicate \
reshape flatten permute transpose expand repeat squeeze unsqueeze flip roll pad tril triu diagonal \
split chunk unbind clone embedding bmm outer fullLike zerosLike onesLike contiguous detach"
    .split(/\s+/);

/** Every operation, by name. */
export const operations: Readonly<Record<string, Operation>> = {
  ...Object.fromEntries(
    "conv1d conv2d conv3d convTranspose1d convTranspose2d convTranspose3d".split(" ")
      .map((name) => [name, { call: convolution(name), slack: 4 }]),
  ),
  crossEntropy: {
    call: ([logits, target, weight], [options]) =>
      logits!.crossEntropy(target!, { ...options as object, ...(weight ? { weight } : {}) }),
  },
  ...Object.fromEntries(methods.map((name) => [name, { call: method(name) }])),
  ...Object.fromEntries(makers.map((name) => [name, { call: maker(name) }])),
  ...Object.fromEntries(
    "median nanmedian quantile nanquantile nansum nanmean nanToNum cov corrcoef diff xlogy logaddexp hypot sinc"
      .split(" ").map((name) => [name, { call: method(name), slack: 2 }]),
  ),
  // Series, and differences of large numbers where the value is small.
  ...Object.fromEntries(
    "lgamma digamma polygamma erfinv".split(" ")
      .map((name) => [name, { call: method(name), floats: precise, slack: 8 }]),
  ),
  ...Object.fromEntries(
    (["i0", "i0e", "i1", "i1e", "erfcx", "ndtr", "ndtri", "logNdtr", "logit", "entr"] as const)
      .map((name) => [name, { call: free(special[name]), floats: precise, slack: 8 }]),
  ),
  ...Object.fromEntries(
    (["multigammaln", "xlog1py", "beta", "logBeta"] as const)
      .map((name) => [name, { call: free(special[name]), floats: precise, slack: 16 }]),
  ),
  zeta: { call: ([x], [s]) => special.zeta(s as number, x!), floats: precise, slack: 8 },
  ...Object.fromEntries(
    (["gammainc", "gammaincc"] as const).map((name) => [name, {
      call: ([x]: readonly Tensor[], [a]: readonly unknown[]) => {
        const { device, dtype } = x!;
        return special[name](Tensor.fromHost(a as number[], { device, dtype }), x!);
      },
      floats: precise,
      slack: 64,
    }]),
  ),
  ...Object.fromEntries(
    ("celu selu glu hardtanh relu6 hardshrink softshrink softsign tanhshrink threshold".split(
      " ",
    ) as (
      "celu"
    )[]).map((name) => [name, { call: free(nn[name]), floats: precise, slack: 4 }]),
  ),
  ...Object.fromEntries(
    (["fold", "gridSample", "affineGrid"] as const)
      .map((name) => [name, { call: free(nn[name]), floats: precise, slack: 8 }]),
  ),
  // That of images, or the method's windows along one axis: three numbers.
  unfold: {
    call: (inputs, args) => (args.length === 3 ? method("unfold") : free(nn.unfold))(inputs, args),
    floats: precise,
    slack: 8,
  },
  percentile: {
    call: ([x], [q, axis]) =>
      percentile(x!, q as number, axis === undefined ? {} : { axis: axis as number }),
    slack: 2,
  },
  interp: { call: free(interp), floats: precise, slack: 4 },
  polyval: { call: free(polyval), floats: precise, slack: 8 },
  histogramdd: {
    call: ([x], [bins]) => {
      const { counts, edges } = histogramdd(x!, bins as number[]);
      return [counts, ...edges];
    },
  },
  gcd: { call: method("gcd") },
  lcm: { call: method("lcm") },
  mode: { call: pair("mode"), positions: true },
  logcumsumexp: { call: method("logcumsumexp"), slack: 4 },
  scatterReduce: {
    call: ([x, indices, source], [axis, reduce, options]) =>
      x!.scatterReduce(axis as number, indices!, source!, {
        ...options as object,
        reduce: reduce as ScatterReduction,
      }),
    slack: 2,
  },
  ...Object.fromEntries(
    ["cdist", "pdist"].map((name) => [name, { call: norms(name), floats: precise, slack: 8 }]),
  ),
  gradient: {
    call: ([x, ...places], [options]) =>
      gradient(x!, { ...options as object, ...places.length > 0 ? { spacing: places } : {} }),
    floats: precise,
    slack: 4,
  },
  frexp: {
    call: ([x]) => {
      const { mantissa, exponent } = special.frexp(x!);
      return [mantissa, exponent];
    },
    floats: precise,
  },
  nextafter: { call: free(special.nextafter), floats: precise },
  betainc: {
    call: ([x], [a, b]) => {
      const { device, dtype } = x!;
      const [left, right] = [a, b].map((data) =>
        Tensor.fromHost(data as number[], { device, dtype })
      );
      return special.betainc(left!, right!, x!);
    },
    floats: precise,
    slack: 64,
  },
  indexAdd: {
    call: ([x, indices, source], [axis, options]) =>
      x!.indexAdd(axis as number, indices!, source!, options as object | undefined),
  },
  trapezoid: {
    call: ([y, x], [options]) => y!.trapezoid({ ...options as object, ...x && { x } }),
    slack: 2,
  },
  // Cases without a type are of PyTorch's floating ones.
  arange: {
    call: (_, args) => {
      const [start, stop, step, options] = args.map(argument) as [number, number, number, object];
      return Tensor.arange(start, stop, step, options ?? { dtype: "float32" });
    },
  },
  slice: { call: ([x], ranges) => x!.slice(...ranges as number[]) },
  sliceAssign: {
    call: ([x, value], [ranges, number]) =>
      x!.sliceAssign(ranges as number[], value ?? (number as number)),
  },
  concat: { call: (tensors, [axis]) => Tensor.concat([...tensors], axis as number | undefined) },
  stack: { call: (tensors, [axis]) => Tensor.stack([...tensors], axis as number | undefined) },
  einsum: { call: (tensors, [equation]) => einsum(equation as string, ...tensors), slack: 4 },
  meshgrid: { call: (tensors, [options]) => Tensor.meshgrid([...tensors], options as object) },
  maskedSelect: { call: method("maskedSelect") },
  nonzero: { call: method("nonzeroSync"), positions: true },
  index: { call: ([x, ...tensors], [pattern]) => x!.index(indices(tensors, pattern)) },
  indexPut: {
    call: ([x, values, ...tensors], [pattern, options]) =>
      x!.indexPut(indices(tensors, pattern), values!, options as object),
  },
  repeatInterleave: {
    call: ([x, repeats], [times, axis]) =>
      x!.repeatInterleave(repeats ?? times as number, argument(axis) as number | undefined),
  },
  unique: {
    call: ([x]) => {
      const { values, inverse, counts } = x!.uniqueSync();
      return [values, inverse, counts];
    },
    positions: true,
  },
  bincount: {
    call: ([x, weights], [, minLength]) =>
      x!.bincount({
        ...weights && { weights },
        ...minLength ? { minLength: minLength as number } : {},
      }),
    positions: true,
  },
  histogram: {
    call: ([x, edges], [bins, options]) => {
      const made = x!.histogram(edges ?? bins as number, options as object | undefined);
      return [made.counts, made.edges];
    },
  },
  searchsorted: { call: method("searchsorted"), positions: true },
  cummax: { call: pair("cummax"), positions: true },
  cummin: { call: pair("cummin"), positions: true },
  maxWithIndices: { call: pair("maxWithIndices"), positions: true },
  minWithIndices: { call: pair("minWithIndices"), positions: true },
  // Places between pixels are computed in the type of the pixels.
  interpolate: { call: method("interpolate"), slack: 8 },
  argmax: { call: method("argmax"), positions: true },
  argmin: { call: method("argmin"), positions: true },
  indexSelect: { call: ([x, indices], [axis]) => x!.indexSelect(axis as number, indices!) },
  gather: { call: ([x, indices], [axis]) => x!.gather(axis as number, indices!) },
  scatterAdd: {
    call: ([x, indices, source], [axis]) => x!.scatterAdd(axis as number, indices!, source!),
  },
  scatter: {
    call: ([x, indices, source], [axis]) => x!.scatter(axis as number, indices!, source!),
  },
  oneHot: { call: method("oneHot"), positions: true },
  argsort: { call: option(1, "descending", method("argsort")), positions: true },
  sort: { call: option(1, "descending", pair("sort")), positions: true },
  topk: { call: option(2, "largest", pair("topk")), positions: true },
  // 8 bits are lost in subtracting what is almost equal, and in products of many numbers.
  prod: { call: method("prod"), floats: precise },
  variance: { call: method("variance"), floats: precise, slack: 4 },
  std: { call: method("std"), floats: precise, slack: 4 },
};

const all = Deno.env.get("NETCL_CONFORMANCE") === "all";

/**
 * The cases that a backend is held to: all of them, or, where each new kernel costs a compiler run,
 * the first of every operation; with NETCL_CONFORMANCE=all every one there too.
 */
export function sampleFor<C extends { readonly op: string }>(
  backend: BackendName,
  cases: readonly C[],
): readonly C[] {
  if (backend === "cpu" || all) return cases;
  const seen = new Set<string>();
  return cases.filter(({ op }) => !seen.has(op) && seen.add(op));
}

/**
 * The types of a case on a backend: where each new kernel costs a compiler run, one of the two half types by
 * turns, since float32 computes both.
 *
 * @param turn The number of the case among those of its family.
 */
export function typesFor(
  backend: BackendName,
  types: readonly (DType | null)[],
  turn: number,
): readonly (DType | null)[] {
  if (backend === "cpu" || all) return types;
  return types.filter((dtype) => dtype !== (turn % 2 ? "float16" : "bfloat16"));
}

/** Cases in which netcl differs from PyTorch by design, or the expected number means nothing. */
export const apart: ReadonlyMap<string, string> = new Map([
  ["any (uint8)", "the result is bool, in PyTorch uint8"],
  ["all (uint8)", "the result is bool, in PyTorch uint8"],
  ["sort (int64 ascending)", "values stay int64, positions are int32"],
  ["sort (int64 descending)", "values stay int64, positions are int32"],
  ["maxWithIndices (int64)", "values stay int64, positions are int32"],
  ["cummax (int64)", "values stay int64, positions are int32"],
  ["cummin (int64)", "values stay int64, positions are int32"],
  ["unique (int64)", "values stay int64, positions are int32"],
  ["unique (one)", "values stay int64, positions are int32"],
  ["minWithIndices (int64)", "values stay int64, positions are int32"],
  ["floorDivide (special)", "the quotient of an infinity is one, in PyTorch NaN"],
  ["atan2 (special)", "the sign of a zero is not held"],
  ["softplus (edges)", "PyTorch takes x itself from 20 on"],
  ["cast (gradient)", "written for float32"],
  ["sliceAssign (nothing)", "needs a second tensor"],
]);

/** The type that a tensor of PyTorch's has in netcl. */
export function expectedType(operation: Operation, dtype: DType): DType {
  return operation.positions && dtype === "int64" ? "int32" : dtype;
}
