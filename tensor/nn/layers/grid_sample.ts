/** Images at any places, with gradients to the images and to the places: spatial transformers. */
import { sameDevice } from "../../core/apply.ts";
import { Tensor } from "../../class/tensor.ts";
import { withoutGrad } from "../../core/modes/grad_mode.ts";
import { compute } from "../../core/operations.ts";
import { shapeError } from "../../core/rules/errors.ts";
import { checkOptions, requireValue, type Rules, takes } from "../../core/rules/options.ts";

/** Options of {@linkcode gridSample}. */
export interface GridSampleOptions {
  /** Weighted sum of the four pixels around a place (default), of the sixteen, or the nearest one. */
  mode?: "bilinear" | "bicubic" | "nearest";
  /** Pixels outside: 0 (default), the nearest at the border, or the image mirrored. */
  paddingMode?: "zeros" | "border" | "reflection";
  /** True: -1 and 1 are the centres of the outer pixels, not their edges; default false. */
  alignCorners?: boolean;
}

const rules: Rules<GridSampleOptions> = {
  mode: takes.oneOf("bilinear", "bicubic", "nearest"),
  paddingMode: takes.oneOf("zeros", "border", "reflection"),
  alignCorners: takes.bool,
};

/**
 * Images at places, as in PyTorch: (N, C, H, W) and (N, H', W', 2) give (N, C, H', W').
 *
 * @param x Images.
 * @param grid Places as (x, y) from -1, left and top, to 1.
 * @throws {ShapeError} When a shape does not fit.
 * @example A picture in half the size
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const grid = nn.affineGrid(Tensor.fromHost([[[1, 0, 0], [0, 1, 0]]]), [1, 3, 8, 8]);
 * assertEquals(nn.gridSample(Tensor.rand([1, 3, 16, 16]), grid).shape, [1, 3, 8, 8]);
 * ```
 */
export function gridSample(x: Tensor, grid: Tensor, options: GridSampleOptions = {}): Tensor {
  const op = "gridSample";
  sameDevice(op, [x, grid]);
  checkOptions(op, options, rules);
  const isRight = x.ndim === 4 && grid.ndim === 4 && grid.shape[3] === 2 && x.size > 0 &&
    x.shape[0] === grid.shape[0];
  if (isRight) return compute(sampled, x, grid, options);
  throw shapeError(op)`
    Cannot gridSample a tensor of shape ${x.shape} at places of shape ${grid.shape}: pass
    (N, C, H, W) and (N, H, W, 2)`;
}

function sampled(x: Tensor, grid: Tensor, options: GridSampleOptions): Tensor {
  const { mode = "bilinear" } = options, [n, c, h, w] = x.shape as [number, number, number, number];
  const [column, row] = [w, h].map((size, k) => {
    const place = placeOf(grid.slice(null, null, null, k), size, options);
    // Of a cubic sum each pixel is padded by itself.
    return mode === "bicubic" ? place : padded(place, size, options);
  });
  const shape = column!.shape, flat = x.reshape([n, c, h * w]);
  const at = (y: Tensor, x: Tensor): Tensor => {
    const [isInside, places] = withoutGrad(() => {
      const isInside = within(y, h).logicalAnd(within(x, w)).reshape([n, 1, -1]);
      const place = y.clamp(0, h - 1).mul(w).add(x.clamp(0, w - 1)).cast("int32");
      return [
        isInside,
        place.reshape([n, 1, -1]).expand([n, c, shape[1]! * shape[2]!]).contiguous(),
      ];
    });
    return isInside.where(flat.gather(2, places), 0).reshape([n, c, ...shape.slice(1)]);
  };
  // Whole places have no gradient.
  if (mode === "nearest") return at(row!.detach().round(), column!.detach().round());
  if (mode === "bicubic") {
    const [ys, xs] = [cubic(row!, h, options), cubic(column!, w, options)];
    const lines = ys.map((y) => weighted(xs, (x) => at(y.place, x.place)).mul(y.weight));
    return lines.reduce((sum, line) => sum.add(line));
  }
  const [top, left] = withoutGrad(() => [row!.detach().floor(), column!.detach().floor()]);
  const [down, right] = [row!.sub(top!).unsqueeze(1), column!.sub(left!).unsqueeze(1)];
  const upper = at(top!, left!).mul(right.neg().add(1)).add(at(top!, left!.add(1)).mul(right));
  const lower = at(top!.add(1), left!).mul(right.neg().add(1))
    .add(at(top!.add(1), left!.add(1)).mul(right));
  return upper.mul(down.neg().add(1)).add(lower.mul(down));
}

/** One of the four pixels of a line around a place, and what it counts for. */
interface Neighbour {
  readonly place: Tensor;
  readonly weight: Tensor;
}

/** R. Keys (1981), with the slope -3/4 as PyTorch's. */
function cubic(place: Tensor, size: number, options: GridSampleOptions): Neighbour[] {
  const first = withoutGrad(() => place.detach().floor()), t = place.sub(first).unsqueeze(1);
  const near = (d: Tensor) => d.mul(1.25).sub(2.25).mul(d).mul(d).add(1);
  const far = (d: Tensor) => d.mul(-0.75).add(3.75).mul(d).sub(6).mul(d).add(3);
  const rest = t.neg().add(1);
  return [far(t.add(1)), near(t), near(rest), far(rest.add(1))].map((weight, k) => ({
    weight,
    place: withoutGrad(() => padded(first.add(k - 1), size, options)),
  }));
}

function weighted(line: readonly Neighbour[], pixel: (at: Neighbour) => Tensor): Tensor {
  return line.map((at) => pixel(at).mul(at.weight)).reduce((sum, part) => sum.add(part));
}

function within(place: Tensor, size: number): Tensor {
  return place.ge(0).logicalAnd(place.le(size - 1));
}

/** Places as indices of pixels. */
function placeOf(g: Tensor, size: number, { alignCorners = false }: GridSampleOptions): Tensor {
  return alignCorners ? g.add(1).mul((size - 1) / 2) : g.add(1).mul(size / 2).sub(0.5);
}

/** Indices outside of the image by the padding. */
function padded(place: Tensor, size: number, options: GridSampleOptions): Tensor {
  const { paddingMode = "zeros", alignCorners = false } = options;
  if (paddingMode === "zeros") return place;
  if (paddingMode === "border") return place.clamp(0, size - 1);
  const low = alignCorners ? 0 : -0.5, span = alignCorners ? size - 1 : size;
  if (span === 0) return place.zerosLike();
  const distance = place.sub(low).abs(),
    turns = withoutGrad(() => distance.detach().div(span).floor());
  const rest = distance.sub(turns.mul(span)), isEven = turns.remainder(2).eq(0);
  return isEven.where(rest, rest.neg().add(span)).add(low).clamp(0, size - 1);
}

/**
 * Places for {@linkcode gridSample} of affine maps, as in PyTorch.
 *
 * @param theta Maps (N, 2, 3): rows for x and y.
 * @param size (N, C, H, W) of what is to be sampled.
 * @param options Where -1 and 1 are.
 * @throws {ShapeError} When a shape does not fit.
 */
export function affineGrid(
  theta: Tensor,
  size: readonly number[],
  options: Pick<GridSampleOptions, "alignCorners"> = {},
): Tensor {
  const op = "affineGrid";
  sameDevice(op, [theta]);
  checkOptions(op, options, { alignCorners: takes.bool });
  requireValue(op, "size", size, takes.wholeNumbers);
  if (theta.ndim === 3 && theta.shape[1] === 2 && theta.shape[2] === 3 && size.length === 4) {
    return compute(gridOf, theta, size, options.alignCorners ?? false);
  }
  throw shapeError(op)`
    Cannot affineGrid with maps of shape ${theta.shape} for a size of ${size.length} numbers: pass
    (N, 2, 3) and (N, C, H, W)`;
}

function gridOf(theta: Tensor, size: readonly number[], alignCorners: boolean): Tensor {
  const [, , h, w] = size as [number, number, number, number], { device, dtype } = theta;
  const line = (n: number): Tensor => {
    const edge = n === 1 ? 0 : alignCorners ? 1 : 1 - 1 / n;
    return Tensor.linspace(-edge, edge, n, { device, dtype });
  };
  const x = line(w).reshape([1, w]).expand([h, w]), y = line(h).reshape([h, 1]).expand([h, w]);
  const points = Tensor.stack([x, y, x.onesLike()], -1).reshape([1, h * w, 3]);
  return points.matmul(theta.transpose(1, 2)).reshape([theta.shape[0]!, h, w, 2]);
}
