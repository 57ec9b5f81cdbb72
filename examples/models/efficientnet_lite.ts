import { nn, type Tensor } from "@netcl/netcl";

/** Kernel, stride, expansion and channels of each block of EfficientNet-Lite0. */
const stages: readonly (readonly [
  count: number,
  kernel: number,
  stride: number,
  expand: number,
  out: number,
])[] = [
  [1, 3, 1, 1, 16],
  [2, 3, 2, 6, 24],
  [2, 5, 2, 6, 40],
  [3, 3, 2, 6, 80],
  [3, 5, 1, 6, 112],
  [4, 5, 2, 6, 192],
  [1, 3, 1, 6, 320],
];

/** Pads as TensorFlow does, more behind than in front, so that ceil(n / stride) windows fit. */
function padded(x: Tensor, kernel: number, stride: number): Tensor {
  const widths = x.shape.slice(2).map((n): [number, number] => {
    const total = Math.max(0, (Math.ceil(n / stride) - 1) * stride + kernel - n);
    return [Math.floor(total / 2), Math.ceil(total / 2)];
  });
  return x.pad([[0, 0], [0, 0], ...widths], 0);
}

const convolution = (from: number, to: number, kernel = 1, stride = 1, groups = 1): nn.Conv2d =>
  new nn.Conv2d(from, to, kernel, { stride, groups, bias: false });
const norm = (channels: number): nn.BatchNorm2d => new nn.BatchNorm2d(channels, { eps: 1e-3 });
const relu6 = (x: Tensor): Tensor => x.clamp(0, 6);

/** A block: wider, each channel by itself, narrower; properties are named as in the file. */
class Block extends nn.Module {
  _expand_conv: nn.Conv2d | null;
  _bn0: nn.BatchNorm2d | null;
  _depthwise_conv: nn.Conv2d;
  _bn1: nn.BatchNorm2d;
  _project_conv: nn.Conv2d;
  _bn2: nn.BatchNorm2d;
  readonly #kernel: number;
  readonly #stride: number;
  readonly #isResidual: boolean;

  constructor(from: number, to: number, kernel: number, stride: number, expand: number) {
    super();
    const wide = from * expand;
    this._expand_conv = expand > 1 ? convolution(from, wide) : null;
    this._bn0 = expand > 1 ? norm(wide) : null;
    this._depthwise_conv = convolution(wide, wide, kernel, stride, wide);
    this._bn1 = norm(wide);
    this._project_conv = convolution(wide, to);
    this._bn2 = norm(to);
    [this.#kernel, this.#stride, this.#isResidual] = [kernel, stride, stride === 1 && from === to];
  }

  forward(x: Tensor): Tensor {
    let y = x;
    if (this._expand_conv) y = relu6(this._bn0!.forward(this._expand_conv.forward(y)));
    const image = padded(y, this.#kernel, this.#stride);
    y = relu6(this._bn1.forward(this._depthwise_conv.forward(image)));
    y = this._bn2.forward(this._project_conv.forward(y));
    return this.#isResidual ? y.add(x) : y;
  }
}

/** EfficientNet-Lite0, a classifier of 1,000 classes for images of 224 by 224 pixels. */
export class EfficientNetLite extends nn.Module {
  _conv_stem: nn.Conv2d = convolution(3, 32, 3, 2);
  _bn0: nn.BatchNorm2d = norm(32);
  _blocks: Block[] = [];
  _conv_head: nn.Conv2d = convolution(320, 1280);
  _bn1: nn.BatchNorm2d = norm(1280);
  _fc: nn.Linear = new nn.Linear(1280, 1000);

  constructor() {
    super();
    let from = 32;
    for (const [count, kernel, stride, expand, to] of stages) {
      for (let k = 0; k < count; k++) {
        this._blocks.push(new Block(from, to, kernel, k === 0 ? stride : 1, expand));
        from = to;
      }
    }
  }

  /** (N, 3, H, W) of bytes as floats, 0 to 255, to logits (N, 1000). */
  forward(image: Tensor): Tensor {
    const x = padded(image.sub(127).div(128), 3, 2);
    let y = relu6(this._bn0.forward(this._conv_stem.forward(x)));
    for (const block of this._blocks) y = block.forward(y);
    y = relu6(this._bn1.forward(this._conv_head.forward(y)));
    return this._fc.forward(y.mean([2, 3]));
  }
}

/** The middle of a picture, uint8 (3, H, W), as a batch of one in a size. */
export function centered(picture: Tensor, size: number): Tensor {
  const [, height, width] = picture.shape as [number, number, number];
  const side = Math.floor(Math.min(height, width) * 0.875);
  const [top, left] = [height, width].map((n) => Math.floor((n - side) / 2)) as [number, number];
  const part = picture.slice(null, [top, top + side], [left, left + side]);
  return part.cast("float32").unsqueeze(0).interpolate({ size, mode: "bilinear" });
}
