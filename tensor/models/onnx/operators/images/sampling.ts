/** Images at other places: by grids, in regions, from windows. */
import { sizeOf } from "../../../../../backend/internal.ts";
import { Tensor } from "../../../../class/tensor.ts";
import type { Call, Operators } from "../../core/call.ts";
import { Value } from "../../core/value.ts";

/** Elements at places between them, for each image: (N, C, spatial...) and (N, spatial..., axes). */
function gridSample(call: Call): Tensor {
  const x = call.tensor(0), grid = call.tensor(1), lengths = x.shape.slice(2);
  const mode = call.text("mode", "linear").replace(/^bi/, "");
  const edges = call.text("padding_mode", "zeros"), isAligned = call.int("align_corners", 0) === 1;
  const axes = lengths.length, front = grid.shape.slice(0, -1).map(() => null);
  // The grid names the last axis first.
  const sources = lengths.map((n, k) => {
    const place = grid.slice(...front, axes - 1 - k).add(1).div(2);
    return isAligned ? place.mul(n - 1) : place.mul(n).sub(0.5);
  });
  return sampled({ x, lengths, edges, isAligned }, sources, mode);
}

/**
 * Elements at places, of which each axis has its own tensor, (N, positions...): the nearest ones, or sums of
 * their neighbours by "linear" or "cubic" shares.
 */
export function sampled(options: Sampled, sources: readonly Tensor[], mode: string): Tensor {
  if (mode === "nearest") return picked(options, sources.map((s) => s.round()));
  const { lengths } = options, axes = lengths.length;
  const isCubic = mode === "cubic", offsets = isCubic ? [-1, 0, 1, 2] : [0, 1];
  const floors = sources.map((s) => s.floor());
  const shares = sources.map((s, k) =>
    offsets.map((o) => shareAt(s.sub(floors[k]!).sub(o), isCubic))
  );
  let sum: Tensor | null = null;
  for (let k = 0; k < offsets.length ** axes; k++) {
    const digits = lengths.map((_, axis) =>
      Math.floor(k / offsets.length ** axis) % offsets.length
    );
    const values = picked(options, floors.map((f, axis) => f.add(offsets[digits[axis]!]!)));
    const share = digits.map((d, axis) => shares[axis]![d]!).reduce((a, b) => a.mul(b));
    const part = values.mul(share.unsqueeze(1));
    sum = sum ? sum.add(part) : part;
  }
  return sum!;
}

function shareAt(distance: Tensor, isCubic: boolean): Tensor {
  const d = distance.abs(), a = -0.75;
  if (!isCubic) return d.neg().add(1);
  const near = d.mul(a + 2).sub(a + 3).mul(d).mul(d).add(1);
  const far = d.mul(a).sub(5 * a).mul(d).add(8 * a).mul(d).sub(4 * a);
  return d.le(1).where(near, far);
}

/** An image, and what stands for elements outside of it: "zeros", "border" or "reflection". */
interface Sampled {
  readonly x: Tensor;
  readonly lengths: readonly number[];
  readonly edges: string;
  readonly isAligned: boolean;
}

/** The elements at whole places, with what stands for those outside. */
function picked({ x, lengths, edges, isAligned }: Sampled, places: readonly Tensor[]): Tensor {
  const [n, c] = x.shape as [number, number], shape = places[0]!.shape;
  let flat: Tensor | null = null, inside: Tensor | null = null;
  places.forEach((place, k) => {
    const length = lengths[k]!;
    const own = edges === "reflection" ? reflected(place, length, isAligned) : place;
    const hit = own.ge(0).logicalAnd(own.lt(length));
    inside = inside ? (inside as Tensor).logicalAnd(hit) : hit;
    const at = own.clamp(0, length - 1).cast("int32");
    flat = flat ? (flat as Tensor).mul(length).add(at) : at;
  });
  const all = x.reshape([n, c, -1]), count = sizeOf(shape.slice(1));
  const at = flat!.reshape([n, 1, count]).expand([n, c, count]);
  const values = all.gather(2, at).reshape([n, c, ...shape.slice(1)]);
  return edges === "zeros" ? inside!.unsqueeze(1).where(values, 0) : values;
}

function reflected(place: Tensor, length: number, isAligned: boolean): Tensor {
  if (isAligned && length === 1) return place.mul(0);
  const low = isAligned ? 0 : -0.5, span = isAligned ? length - 1 : length;
  const turned = place.sub(low).abs().remainder(2 * span);
  return turned.gt(span).where(turned.neg().add(2 * span), turned).add(low);
}

/** The places that matrices give to the pixels of an image. */
function affineGrid(call: Call): Tensor {
  const theta = call.tensor(0), size = call.value(1).numbers().slice(2);
  const isAligned = call.int("align_corners", 0) === 1, dims = size.length;
  const lines = size.map((n, axis) => {
    const places = Float32Array.from(
      { length: n },
      (_, k) => isAligned ? n === 1 ? 0 : -1 + 2 * k / (n - 1) : (2 * k + 1) / n - 1,
    );
    const shape = size.map((_, k) => k === axis ? n : 1);
    return Tensor.fromHost(places, { shape }).cast(theta.dtype).expand(size);
  });
  const points = Tensor.stack([...lines.reverse(), lines[0]!.onesLike()], dims).reshape([
    -1,
    dims + 1,
  ]);
  const out = points.matmul(theta.transpose());
  return out.reshape([theta.shape[0]!, ...size, dims]);
}

/** The sums of windows that overlap. */
function col2im(call: Call): Tensor {
  const x = call.tensor(0),
    size = call.value(1).numbers(),
    block = call.value(2).numbers(),
    axes = size.length;
  const strides = call.ints("strides") ?? block.map(() => 1);
  const dilations = call.ints("dilations") ?? block.map(() => 1);
  const pads = call.ints("pads") ?? [...block, ...block].map(() => 0);
  const whole = size.map((n, k) => n + pads[k]! + pads[k + axes]!);
  const counts = whole.map((n, k) =>
    Math.floor((n - (block[k]! - 1) * dilations[k]! - 1) / strides[k]!) + 1
  );
  const taps = sizeOf(block), positions = sizeOf(counts);
  const places = Int32Array.from({ length: taps * positions }, (_, k) => {
    let tap = Math.floor(k / positions), position = k % positions, place = 0, step = 1;
    for (let axis = axes - 1; axis >= 0; axis--) {
      const at = (tap % block[axis]!) * dilations[axis]! +
        (position % counts[axis]!) * strides[axis]!;
      place += at * step;
      step *= whole[axis]!;
      tap = Math.floor(tap / block[axis]!);
      position = Math.floor(position / counts[axis]!);
    }
    return place;
  });
  const n = x.shape[0]!, c = x.shape[1]! / taps, all = sizeOf(whole);
  const at = Tensor.fromHost(places).reshape([1, 1, -1]).expand([n, c, taps * positions]);
  const sums = x.zerosLike([n, c, all]).scatterAdd(2, at, x.reshape([n, c, -1]));
  const bounds = size.map((length, k) => [pads[k]!, pads[k]! + length] as const);
  return sums.reshape([n, c, ...whole]).slice(null, null, ...bounds);
}

/** Boxes along an axis of the image. */
interface Edges {
  /** Their beginnings, [boxes, 1]. */
  readonly start: Tensor;
  /** Their length. */
  readonly size: Tensor;
  /** Cells along the axis. */
  readonly cells: number;
  /** Length of the image. */
  readonly length: number;
  /** Samples of a cell; as many as it is long where that is 0. */
  readonly ratio: number;
}

/** The image's elements that cells are made of along an axis: two for each sample, one on each side. */
interface Taps {
  /** Places, [boxes, cells, taps]. */
  readonly at: Tensor;
  /** Their shares; 0 for samples that a box has not, or that lie outside. */
  readonly share: Tensor;
  /** True for samples that there are. */
  readonly isThere: Tensor;
  /** Samples of a cell, [boxes, 1]. */
  readonly count: Tensor;
}

function tapsOf({ start, size, cells, length, ratio }: Edges): Taps {
  const cell = size.div(cells), count = ratio > 0 ? cell.onesLike().mul(ratio) : cell.ceil();
  const most = ratio > 0 ? ratio : highest(count), wide = (t: Tensor) => t.unsqueeze(2);
  const inner = cell.indexLike([1, most]).cast(cell.dtype).add(0.5).mul(cell.div(count));
  const first = start.add(cell.indexLike([1, cells]).mul(cell));
  // [boxes, cells, samples].
  const place = wide(first).add(inner.unsqueeze(1));
  const isThere = wide(count).gt(cell.indexLike([1, 1, most]))
    .logicalAnd(place.ge(-1)).logicalAnd(place.le(length));
  const within = place.clamp(0, length - 1), before = within.floor(), share = within.sub(before);
  const kept = isThere.cast(share.dtype), beside = before.add(1).clamp(0, length - 1);
  return {
    at: Tensor.concat([before, beside], 2).cast("int32"),
    share: Tensor.concat([share.neg().add(1).mul(kept), share.mul(kept)], 2),
    isThere: Tensor.concat([isThere, isThere], 2),
    count,
  };
}

/** The largest of counts, which is read: so many samples are there. */
function highest(counts: Tensor): number {
  return counts.size === 0 ? 0 : Value.of(counts.max()).numbers()[0]!;
}

/** K. He et al., Mask R-CNN, 2017: means or extremes of samples in the cells of boxes. */
function roiAlign(call: Call): Tensor {
  const x = call.tensor(0), boxes = call.tensor(1), images = call.tensor(2).cast("int32");
  const [, channels, height, width] = x.shape as [number, number, number, number];
  const isHalf = call.opset >= 16 &&
    call.text("coordinate_transformation_mode", "half_pixel") === "half_pixel";
  const edges = boxes.mul(call.float("spatial_scale", 1)).sub(isHalf ? 0.5 : 0);
  const along = (k: number, cells: number, length: number): Taps => {
    const start = edges.slice(null, [k, k + 1]),
      span = edges.slice(null, [k + 2, k + 3]).sub(start);
    const size = isHalf ? span : span.maximum(1);
    return tapsOf({ start, size, cells, length, ratio: call.int("sampling_ratio", 0) });
  };
  const rows = along(1, call.int("output_height", 1), height);
  const columns = along(0, call.int("output_width", 1), width);
  // [boxes, rows of cells, columns of cells, taps, taps].
  const down = (t: Tensor) => t.unsqueeze(2).unsqueeze(4);
  const right = (t: Tensor) => t.unsqueeze(1).unsqueeze(3);
  const first = images.mul(height * width).reshape([-1, 1, 1, 1, 1]);
  const at = down(rows.at).mul(width).add(right(columns.at)).add(first);
  const share = down(rows.share).mul(right(columns.share)).unsqueeze(5).cast(x.dtype);
  // Elements of an image as rows of channels: a place is one row.
  const table = x.permute([0, 2, 3, 1]).reshape([-1, channels]);
  const parts = table.embedding(at).mul(share), taps = [3, 4];
  if (call.text("mode", "avg") === "max") {
    const isThere = down(rows.isThere).logicalAnd(right(columns.isThere)).unsqueeze(5);
    return isThere.where(parts, -Infinity).max(taps).permute([0, 3, 1, 2]);
  }
  const samples = rows.count.mul(columns.count).clamp(1).reshape([-1, 1, 1, 1]);
  return parts.sum(taps).div(samples.cast(x.dtype)).permute([0, 3, 1, 2]);
}

/** Extremes of regions of images that are divided into cells of whole elements. */
function maxRoiPool(call: Call): Tensor {
  const x = call.tensor(0), boxes = call.tensor(1), cells = call.neededInts("pooled_shape");
  const edges = boxes.slice(null, [1, 5]).mul(call.float("spatial_scale", 1)).add(0.5).floor();
  // True where a cell of a region has an element: [regions, cells, length].
  const seen = (axis: number): Tensor => {
    const length = x.shape[axis + 2]!,
      count = cells[axis]!,
      edge = (k: number) => edges.slice(null, [k, k + 1]);
    const from = edge(1 - axis), size = edge(3 - axis).sub(from).add(1).clamp(1).div(count);
    const place = x.indexLike([count]).cast("float32");
    const begin = place.mul(size).floor().add(from), end = place.add(1).mul(size).ceil().add(from);
    const at = x.indexLike([length]).cast("float32");
    return at.ge(begin.unsqueeze(2)).logicalAnd(at.lt(end.unsqueeze(2)));
  };
  const own = x.indexSelect(0, boxes.slice(null, 0).cast("int64")), lowest = -Infinity;
  const columns = seen(1).unsqueeze(1).unsqueeze(1).where(own.unsqueeze(3), lowest).max(4);
  const all = seen(0).unsqueeze(1).unsqueeze(4).where(columns.unsqueeze(2), lowest).max(3);
  return all.eq(lowest).where(0, all).cast(x.dtype);
}

/** Images at other places, by their kinds. */
export const sampling: Operators = {
  GridSample: gridSample,
  AffineGrid: affineGrid,
  Col2Im: col2im,
  MaxRoiPool: maxRoiPool,
  RoiAlign: roiAlign,
};
