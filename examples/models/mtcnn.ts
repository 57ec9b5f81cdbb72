/**
 * Finds faces by three nets (K. Zhang et al., Joint Face Detection and Alignment, 2016), with the weights of
 * PyPI's facenet-pytorch: the first one looks everywhere in pictures of falling size, the others look closer
 * at what it found.
 */
import { noGrad, Tensor } from "@netcl/netcl";

/** A part of a picture, in pixels, and how much it looks like a face, 0 to 1. */
export interface Box {
  readonly x1: number;
  readonly y1: number;
  readonly x2: number;
  readonly y2: number;
  readonly score: number;
}

/** A picture on the host: red, green and blue from 0 to 255, (3, height, width). */
export interface HostImage {
  readonly data: ArrayLike<number>;
  readonly height: number;
  readonly width: number;
}

/** A net: the windows of its layers, its heads, and the layer in front of those that sees everything. */
interface Net {
  readonly pools: readonly number[];
  readonly heads: readonly string[];
  readonly dense?: string;
}

/** The nets by the files that hold their weights. */
export const nets = {
  pnet: { pools: [2, 0, 0], heads: ["conv4_1", "conv4_2"] },
  rnet: { pools: [3, 3, 0], heads: ["dense5_1", "dense5_2"], dense: "4" },
  onet: { pools: [3, 3, 2, 0], heads: ["dense6_1", "dense6_2"], dense: "5" },
} as const satisfies Record<string, Net>;

/** Weights of the nets, by their names in the files. */
export type Weights = Readonly<Record<keyof typeof nets, Record<string, Tensor>>>;

/** The largest of windows, of which the last ones may reach beyond the image. */
function pool(x: Tensor, size: number): Tensor {
  const more = x.shape.slice(2).map((n): [number, number] => [0, (n - size) % 2]);
  return x.pad([[0, 0], [0, 0], ...more], -1e30).maxPool2d(size, { stride: 2 });
}

/** (N, 3, H, W) to scores of no face and a face, and four corrections: (N, 6, ...). */
export function runNet(weights: Record<string, Tensor>, net: Net, image: Tensor): Tensor {
  const w = (name: string): Tensor => weights[name]!;
  let x = image;
  net.pools.forEach((size, k) => {
    x = x.conv2d(w(`conv${k + 1}.weight`), { bias: w(`conv${k + 1}.bias`) });
    x = x.prelu(w(`prelu${k + 1}.weight`));
    if (size > 0) x = pool(x, size);
  });
  const linear = (x: Tensor, name: string): Tensor =>
    x.matmul(w(`${name}.weight`).transpose()).add(w(`${name}.bias`));
  if (net.dense !== undefined) {
    // The file's features are in the order width, height, channels.
    const flat = x.permute([0, 3, 2, 1]).flatten(1);
    x = linear(flat, `dense${net.dense}`).prelu(w(`prelu${net.dense}.weight`));
  }
  const [scores, corrections] = net.heads.map((name) =>
    net.dense === undefined
      ? x.conv2d(w(`${name}.weight`), { bias: w(`${name}.bias`) })
      : linear(x, name)
  );
  return Tensor.concat([scores!.softmax(1), corrections!], 1);
}

/** A part of a picture in another size, each pixel the mean of what it covers; black is outside. */
function resized(
  { data, height, width }: HostImage,
  part: Pick<Box, "x1" | "y1" | "x2" | "y2">,
  rows: number,
  columns: number,
): Float32Array<ArrayBuffer> {
  const out = new Float32Array(3 * rows * columns), h = part.y2 - part.y1, w = part.x2 - part.x1;
  for (let r = 0; r < rows; r++) {
    const top = Math.floor(r * h / rows), bottom = Math.ceil((r + 1) * h / rows);
    for (let c = 0; c < columns; c++) {
      const left = Math.floor(c * w / columns), right = Math.ceil((c + 1) * w / columns);
      const count = (bottom - top) * (right - left);
      for (let channel = 0; channel < 3; channel++) {
        let sum = 0;
        for (let y = Math.max(0, part.y1 + top); y < Math.min(height, part.y1 + bottom); y++) {
          for (let x = Math.max(0, part.x1 + left); x < Math.min(width, part.x1 + right); x++) {
            sum += data[(channel * height + y) * width + x]!;
          }
        }
        // The nets know colours from -1 to 1.
        out[(channel * rows + r) * columns + c] = (sum / count - 127.5) / 128;
      }
    }
  }
  return out;
}

function area({ x1, y1, x2, y2 }: Box): number {
  return Math.max(0, x2 - x1 + 1) * Math.max(0, y2 - y1 + 1);
}

/** Without boxes that overlap a better one by more than a share of both. */
function suppressed(boxes: readonly Box[], share: number): Box[] {
  const kept: Box[] = [];
  for (const box of boxes.toSorted((a, b) => b.score - a.score)) {
    const isNew = kept.every((other) => {
      const both = area({
        x1: Math.max(box.x1, other.x1),
        y1: Math.max(box.y1, other.y1),
        x2: Math.min(box.x2, other.x2),
        y2: Math.min(box.y2, other.y2),
        score: 0,
      });
      return both / (area(box) + area(other) - both) <= share;
    });
    if (isNew) kept.push(box);
  }
  return kept;
}

/** A box moved by what a net says of it, in shares of its size. */
function corrected(box: Box, by: readonly number[], score: number): Box {
  const w = box.x2 - box.x1, h = box.y2 - box.y1;
  const [a, b, c, d] = by as [number, number, number, number];
  return { x1: box.x1 + a * w, y1: box.y1 + b * h, x2: box.x2 + c * w, y2: box.y2 + d * h, score };
}

/** The square around the middle of a box, in whole pixels. */
function squared({ x1, y1, x2, y2, score }: Box): Box {
  const side = Math.max(x2 - x1, y2 - y1), x = (x1 + x2 - side) / 2, y = (y1 + y2 - side) / 2;
  const [left, top, size] = [Math.floor(x), Math.floor(y), Math.max(1, Math.round(side))];
  return { x1: left, y1: top, x2: left + size, y2: top + size, score };
}

/** Of pictures that get smaller, so that faces of every size are once as large as the net's window. */
async function proposals(image: HostImage, weights: Weights, smallest: number): Promise<Box[]> {
  const found: Box[] = [], whole = { x1: 0, y1: 0, x2: image.width, y2: image.height };
  let scale = 12 / smallest;
  for (; Math.min(image.height, image.width) * scale >= 12; scale *= 0.709) {
    const rows = Math.ceil(image.height * scale), columns = Math.ceil(image.width * scale);
    const x = Tensor.fromHost(resized(image, whole, rows, columns), {
      shape: [1, 3, rows, columns],
    });
    const map = noGrad(() => runNet(weights.pnet, nets.pnet, x)), numbers = await map.toNumbers();
    const [height, width] = map.shape.slice(2) as [number, number], own: Box[] = [];
    for (let k = 0; k < height * width; k++) {
      const [, score, ...by] = Array.from(
        { length: 6 },
        (_, c) => numbers[c * height * width + k]!,
      );
      if (score! < 0.6) continue;
      const x = 2 * (k % width), y = 2 * Math.floor(k / width);
      const box = {
        x1: x / scale,
        y1: y / scale,
        x2: (x + 12) / scale,
        y2: (y + 12) / scale,
        score: 0,
      };
      own.push(corrected(box, by, score!));
    }
    found.push(...suppressed(own, 0.5));
  }
  return suppressed(found, 0.7);
}

/** Looks at each box again, with a net of a larger window. */
async function refined(
  image: HostImage,
  boxes: readonly Box[],
  weights: Record<string, Tensor>,
  net: Net,
  size: number,
): Promise<Box[]> {
  if (boxes.length === 0) return [];
  const squares = boxes.map(squared), data = new Float32Array(squares.length * 3 * size * size);
  squares.forEach((box, k) => data.set(resized(image, box, size, size), k * 3 * size * size));
  const x = Tensor.fromHost(data, { shape: [squares.length, 3, size, size] });
  const numbers = await noGrad(() => runNet(weights, net, x)).toNumbers();
  const better = squares.flatMap((box, k) => {
    const [, score, ...by] = numbers.slice(6 * k, 6 * k + 6);
    return score! < 0.7 ? [] : [corrected(box, by, score!)];
  });
  return suppressed(better, 0.7);
}

/**
 * The faces of a picture, the surest first.
 *
 * @param smallest The side of the smallest face that is looked for, in pixels.
 */
export async function findFaces(image: HostImage, weights: Weights, smallest = 20): Promise<Box[]> {
  const first = await proposals(image, weights, smallest);
  const second = await refined(image, first, weights.rnet, nets.rnet, 24);
  return await refined(image, second, weights.onet, nets.onet, 48);
}
