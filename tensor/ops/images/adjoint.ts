/**
 * The adjoint of a convolution: what a transposed convolution computes, and the gradient of an image.
 *
 * The element `x` of an image is read by tap `t` at position `p` where `x + padding = s p + t`, for a stride
 * of `s`. Written as `x = s q + r` with a phase `r < s`, its taps are every s-th one from
 * `(r + padding) mod s` on, read at the positions `q + carry - j`, where `carry` is the whole part of
 * `(r + padding) / s`: for each phase a dense convolution in which no zeros are multiplied. Neighbouring
 * phases of equally many taps and of one carry are rows of one product. (Spreading what came out by the
 * stride, and convolving that with the whole kernel, costs s times the products along each axis.)
 */
import type { Shape } from "../../../backend/internal.ts";
import type { Tensor } from "../../core/mod.ts";
import { contract } from "../contractions.ts";
import { concat } from "../shaping/joining.ts";
import { dilate, pad } from "../shaping/slices.ts";
import { im2col } from "../shaping/im2col.ts";
import { axesFrom } from "../shaping/axes.ts";
import type { Geometry } from "./geometry.ts";

/**
 * Phases of unlike numbers of taps take a kernel each, and one that joins them: worth it from so many saved
 * products on (PoCL 3.1 on two cores: 30 million save 0.3 ms, and cost as much).
 */
const MIN_SAVED_PRODUCTS = 1 << 25;

/** Neighbouring phases of an axis that have equally many taps and one carry. */
interface PhaseClass {
  readonly first: number;
  readonly count: number;
  /** The first tap of the first phase; that of the next phase is the next one. */
  readonly tap: number;
  readonly taps: number;
  readonly carry: number;
}

/** One axis of an adjoint. */
interface Axis {
  /** Number of phases: from one element of a phase to the next. */
  readonly step: number;
  /** Elements of what came out are spread by so much first: 1 unless both stride and dilation are more. */
  readonly spread: number;
  readonly dilation: number;
  /** Elements of the image, and of a phase. */
  readonly length: number;
  readonly places: number;
  /** In the order of the phases. */
  readonly classes: readonly PhaseClass[];
}

/**
 * Adjoint of a convolution: its result, (N, O, positions...), to the image, (N, C, lengths...).
 *
 * @param weight (O, C / groups, kernel...).
 * @param lengths Of the image's axes.
 * @param minSavedProducts Phases of unlike numbers of taps are computed one by one where they save so much.
 */
export function adjointProduct(
  g: Tensor,
  weight: Tensor,
  geometry: Geometry,
  lengths: Shape,
  minSavedProducts: number = MIN_SAVED_PRODUCTS,
): Tensor {
  const axes = axesOf(weight, geometry, lengths, true);
  const parts = axes.reduce((n, { classes }) => n * classes.filter((p) => p.taps > 0).length, 1);
  const saved = parts === 1 ? Infinity : savedProducts(g.shape[0]!, weight, geometry, lengths);
  return inPhases(
    g,
    weight,
    geometry.groups,
    saved < minSavedProducts ? axesOf(weight, geometry, lengths, false) : axes,
  );
}

function axesOf(
  weight: Tensor,
  { stride, dilation, padding }: Geometry,
  lengths: Shape,
  isPhased: boolean,
): Axis[] {
  return lengths.map((length, k) => {
    const taps = weight.shape[2 + k]!, step = isPhased && dilation[k] === 1 ? stride[k]! : 1;
    return {
      step,
      spread: stride[k]! / step,
      dilation: dilation[k]!,
      length,
      places: Math.ceil(length / step),
      classes: classesOf(taps, step, padding[k]!),
    };
  });
}

function classesOf(kernel: number, step: number, padding: number): PhaseClass[] {
  const classes: PhaseClass[] = [];
  for (let r = 0; r < step; r++) {
    const tap = (r + padding) % step, carry = Math.floor((r + padding) / step);
    const taps = Math.max(0, Math.ceil((kernel - tap) / step));
    const last = classes[classes.length - 1];
    if (last && last.taps === taps && last.carry === carry) {
      classes[classes.length - 1] = { ...last, count: last.count + 1 };
    } else classes.push({ first: r, count: 1, tap, taps, carry });
  }
  return classes;
}

/** Products with the zeros between elements that are spread by the stride. */
function savedProducts(
  images: number,
  weight: Tensor,
  { stride, dilation }: Geometry,
  lengths: Shape,
): number {
  const all = lengths.reduce((n, length) => n * length, images * weight.size);
  const share = stride.reduce((n, s, k) => dilation[k] === 1 ? n * s : n, 1);
  return all * (1 - 1 / share);
}

function inPhases(g: Tensor, weight: Tensor, groups: number, axes: readonly Axis[]): Tensor {
  const spread = dilate(g, [1, 1, ...axes.map(({ spread }) => spread)]);
  const join = (chosen: readonly PhaseClass[]): Tensor => {
    const axis = axes[chosen.length];
    if (axis === undefined) return productOfPhases(spread, weight, groups, axes, chosen);
    // (N, C, places, phases, places, phases, ...)
    const at = 3 + 2 * chosen.length;
    return joinPhases(
      axis,
      at,
      axis.classes.map((c) => c.taps === 0 ? null : join([...chosen, c])),
    );
  };
  const out = join([]);
  const [n, c] = out.shape as [number, number];
  return out.reshape([n, c, ...axes.map(({ places, step }) => places * step)])
    .slice(null, null, ...axes.map(({ length }): [number, number] => [0, length]));
}

/** The phases of an axis side by side, with zeros for those that no tap reads. */
function joinPhases({ classes }: Axis, at: number, blocks: readonly (Tensor | null)[]): Tensor {
  const some = blocks.find((block) => block !== null)!;
  const zeros = (count: number): Tensor =>
    some.zerosLike(some.shape.map((n, k) => k === at ? count : n));
  return concat(blocks.map((block, k) => block ?? zeros(classes[k]!.count)), at);
}

/** The elements of some phases of each axis: (N, C, places, phases, places, phases, ...). */
function productOfPhases(
  g: Tensor,
  weight: Tensor,
  groups: number,
  axes: readonly Axis[],
  classes: readonly PhaseClass[],
): Tensor {
  const dims = axes.length, ones = axes.map(() => 1);
  const [n, outputs] = g.shape as [number, number];
  const channels = weight.shape[1]!;
  const counts = classes.map(({ count }) => count), taps = classes.map((p) => p.taps);
  const steps = axes.map(({ step }) => step);
  // (O, C / groups, taps..., phases...)
  const used = weight.slice(
    null,
    null,
    ...classes.map(({ tap, count, taps }, k): [number, number] => [
      tap,
      tap + (taps - 1) * steps[k]! + count,
    ]),
  );
  const kernels = im2col(used, counts, steps, ones).flip(axesFrom(2, dims))
    .reshape([groups, outputs / groups, channels, ...taps, ...counts])
    .permute([0, 2, ...axesFrom(3 + dims, dims), 1, ...axesFrom(3, dims)]);
  const left = kernels.unsqueeze(0).expand([n, ...kernels.shape]);
  const image = pad(g, [
    [0, 0],
    [0, 0],
    ...axes.map(({ places, dilation }, k): [number, number] => {
      const { carry, taps } = classes[k]!;
      return [(taps - 1) * dilation - carry, places + carry - g.shape[2 + k]!];
    }),
  ]);
  const seen = im2col(image, taps, ones, axes.map(({ dilation }) => dilation));
  const places = axes.map((axis) => axis.places);
  const right = seen.reshape([n, groups, outputs / groups, ...places, ...taps])
    .permute([0, 1, 2, ...axesFrom(3 + dims, dims), ...axesFrom(3, dims)]);
  const out = contract(left, right, 2, 1 + dims, 1 + dims);
  return out.reshape([n, groups * channels, ...counts, ...places])
    .permute([0, 1, ...axes.flatMap((_, k) => [2 + dims + k, 2 + k])]);
}
