/** Images in another size. An output is a weighted sum of few inputs, and so is each gradient. */
import { formatShape, isFloat } from "../../../backend/internal.ts";
import { result } from "../../core/apply.ts";
import { dtypeError, shapeError } from "../../core/rules/errors.ts";
import type { Tensor } from "../../core/mod.ts";
import { repeatEach } from "../shaping/joining.ts";
import { checkOptions, requireValue, type Rules, shown, takes } from "../../core/rules/options.ts";
import type { Rule } from "../../../ffi/host/option_rules.ts";
import type { InterpolateOptions } from "../../core/image_options.ts";

const scales: Rule = {
  takes: "a positive number, or one for each axis",
  accepts: (value) => [value].flat().length > 0 && [value].flat().every(takes.positive.accepts),
};

const sizes: Rule = {
  takes: "a whole number of at least 1, or one for each axis",
  accepts: (value) => [value].flat().length > 0 && [value].flat().every(takes.count.accepts),
};

/** Rules for {@linkcode InterpolateOptions}. */
const interpolateRules: Rules<InterpolateOptions> = {
  size: sizes,
  scaleFactor: scales,
  mode: takes.oneOf("nearest", "bilinear"),
  alignCorners: takes.bool,
};

/** @throws {TypeError} Unless the options say one size, and corners only where there are some. */
export function checkInterpolation(action: string, options: InterpolateOptions): void {
  requireValue(action, "options", options, takes.object("{ size } or { scaleFactor }"));
  checkOptions(action, options, interpolateRules);
  const { size, scaleFactor, mode, alignCorners } = options;
  if ((size === undefined) === (scaleFactor === undefined)) {
    throw new TypeError(
      `Cannot ${action} with size ${shown(size)} and scaleFactor ${shown(scaleFactor)}: pass one ` +
        `of them`,
    );
  }
  if (alignCorners && mode !== "bilinear") {
    throw new TypeError(
      `Cannot ${action} with alignCorners by "${mode ?? "nearest"}": pass mode "bilinear"`,
    );
  }
}

/** Images in another size, axis by axis. */
export function interpolate(x: Tensor, options: InterpolateOptions): Tensor {
  checkInterpolation("interpolate", options);
  const { mode = "nearest", alignCorners = false } = options;
  const dims = x.ndim - 2;
  if (mode === "bilinear" ? dims !== 2 : dims < 1 || dims > 3) {
    throw shapeError("interpolate")`
      Cannot interpolate a tensor of shape ${x.shape} by "${mode}": pass [N, C, H, W]`;
  }
  if (mode === "bilinear" && !isFloat(x.dtype)) {
    throw dtypeError("interpolate")`
      Cannot interpolate ${x.dtype} by "bilinear": cast it with .cast("float32")`;
  }
  const size = lengthsOf(x, options);
  return size.reduce((image, length, k) => {
    const n = x.shape[2 + k]!;
    const factor = options.scaleFactor === undefined
      ? undefined
      : [options.scaleFactor].flat()[k] ?? [options.scaleFactor].flat()[0];
    // As in PyTorch, whatever factor led to these lengths.
    if (length === n) return image;
    const isWhole = length % n === 0 && (factor ?? length / n) === length / n;
    if (mode === "nearest" && (isWhole || length === 2 * n)) {
      return repeatEach(image, length / n, 2 + k);
    }
    const grid = mode === "nearest"
      ? nearest(n, length, factor)
      : linear(n, length, factor, alignCorners);
    return resample(image, 2 + k, grid, false);
  }, x).reshape([...x.shape.slice(0, 2), ...size]);
}

function lengthsOf(x: Tensor, { size, scaleFactor }: InterpolateOptions): number[] {
  const given = [size ?? scaleFactor!].flat() as number[], dims = x.ndim - 2;
  if (given.length !== 1 && given.length !== dims) {
    throw shapeError("interpolate")`
      Cannot interpolate a tensor of shape ${x.shape} to ${shown(given)}: pass one number, or
      ${dims}`;
  }
  const lengths = x.shape.slice(2).map((n, k) => {
    const value = given[k] ?? given[0]!;
    return size === undefined ? Math.floor(n * value) : value;
  });
  if (lengths.every((n) => n > 0) && !x.shape.slice(2).includes(0)) return lengths;
  throw shapeError("interpolate")`
    Cannot interpolate a tensor of shape ${x.shape} to ${formatShape(lengths)}: images have pixels`;
}

/** Source positions of a resampled axis. */
interface Grid {
  readonly inputs: number;
  readonly outputs: number;
  /** Positions of the outputs of these numbers, in inputs. */
  readonly sources: (output: Tensor) => Tensor;
  /** The share of an input in an output that lies at a source. */
  readonly share: (source: Tensor, input: Tensor) => Tensor;
  /** Number of inputs that make an output, the first of them before its source. */
  readonly taps: number;
  /** The first output that an input may have a share in, and how many follow it at most. */
  readonly firstOutput: (input: Tensor) => Tensor;
  readonly reach: number;
}

/** The first output behind `edge`, a place in inputs, and how many outputs lie in two inputs. */
function outputsOf(
  { scale, offset, outputs }: { scale: number; offset: number; outputs: number },
): Pick<Grid, "firstOutput" | "reach"> {
  // One output before and behind, for what rounding may have moved.
  if (scale === 0) return { firstOutput: (input) => input.mul(0), reach: outputs };
  return {
    firstOutput: (input) => input.sub(1 + offset).div(scale).floor().sub(1).clamp(0, outputs - 1),
    reach: Math.min(outputs, Math.ceil(2 / scale) + 4),
  };
}

function nearest(inputs: number, outputs: number, factor = outputs / inputs): Grid {
  const scale = 1 / factor;
  return {
    inputs,
    outputs,
    sources: (output) => output.mul(scale).floor().clamp(0, inputs - 1),
    share: (source, input) => source.eq(input).cast(source.dtype),
    taps: 1,
    ...outputsOf({ scale, offset: 0, outputs }),
  };
}

function linear(
  inputs: number,
  outputs: number,
  factor = outputs / inputs,
  alignCorners: boolean,
): Grid {
  const corners = outputs > 1 ? (inputs - 1) / (outputs - 1) : 0;
  const scale = alignCorners ? corners : 1 / factor;
  const offset = alignCorners ? 0 : scale / 2 - 0.5;
  return {
    inputs,
    outputs,
    sources: (output) => output.mul(scale).add(offset).clamp(0, inputs - 1),
    share: (source, input) => source.sub(input).abs().neg().add(1).relu(),
    taps: 2,
    ...outputsOf({ scale, offset, outputs }),
  };
}

/** The weighted sums along an axis; `isBack` takes outputs to inputs, which is the adjoint. */
function resample(x: Tensor, axis: number, grid: Grid, isBack: boolean): Tensor {
  const value = weightedSums(x.detach(), axis, grid, isBack);
  return result("interpolate", [x], value, (g) => [resample(g, axis, grid, !isBack)]);
}

function weightedSums(x: Tensor, axis: number, grid: Grid, isBack: boolean): Tensor {
  const { inputs, outputs, taps, reach } = grid;
  const dtype = x.dtype === "float64" ? "float64" : "float32";
  const [from, to, count] = isBack ? [outputs, inputs, reach] : [inputs, outputs, taps];
  const here = x.indexLike([to]).cast(dtype).unsqueeze(1);
  const first = isBack ? grid.firstOutput(here) : grid.sources(here).floor();
  if (!isBack && taps === 1) return x.indexSelect(axis, first.cast("int32").squeeze(1));
  const there = first.add(x.indexLike([count]).cast(dtype));
  const shares = isBack
    ? grid.share(grid.sources(there), here)
    : grid.share(grid.sources(here), there);
  // Nothing is seen behind the end, nor by outputs elsewhere, be it infinite.
  const isSeen = isBack ? there.lt(from).logicalAnd(shares.gt(0)) : there.lt(from);
  const taken = x.indexSelect(axis, there.clamp(0, from - 1).cast("int32"));
  const shape = taken.shape.map((n, k) => k === axis || k === axis + 1 ? n : 1);
  const weighted = taken.cast(dtype).mul(shares.reshape(shape));
  return isSeen.reshape(shape).where(weighted, 0).sum(axis + 1).cast(x.dtype);
}
