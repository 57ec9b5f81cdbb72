/** Models as people train them: a GPT, a ResNet, an embedding, attention. The peers have the same. */
import { type DType, nn, noGrad, Tensor } from "@netcl/netcl";

/** True if a model computes in single precision, or its products in half precision. */
export type Precision = "float32" | "float16" | "bfloat16";

/** A value of uniform numbers in [-0.5, 0.5). */
export function uniform(shape: number[], dtype: DType = "float32"): Tensor {
  return noGrad(() => Tensor.rand(shape).sub(0.5).cast(dtype).realize());
}

/** The sizes of a {@linkcode GPT}. */
export interface GPTSizes {
  readonly vocabulary: number;
  readonly context: number;
  readonly width: number;
  readonly heads: number;
  readonly layers: number;
}

class Block extends nn.Module {
  readonly norm1: nn.LayerNorm;
  readonly attention: nn.MultiheadAttention;
  readonly norm2: nn.LayerNorm;
  readonly up: nn.Linear;
  readonly down: nn.Linear;

  constructor({ width, heads }: GPTSizes) {
    super();
    this.norm1 = new nn.LayerNorm(width);
    this.attention = new nn.MultiheadAttention(width, heads, { batchFirst: true });
    this.norm2 = new nn.LayerNorm(width);
    this.up = new nn.Linear(width, 4 * width);
    this.down = new nn.Linear(4 * width, width);
  }

  forward(x: Tensor): Tensor {
    const normed = this.norm1.forward(x);
    const y = x.add(this.attention.forward(normed, normed, normed, { isCausal: true }));
    return y.add(this.down.forward(this.up.forward(this.norm2.forward(y)).gelu()));
  }
}

/** A decoder-only transformer: ids (N, L) give logits (N * L, vocabulary). */
export class GPT extends nn.Module {
  readonly tokens: nn.Embedding;
  readonly positions: nn.Embedding;
  readonly blocks: Block[];
  readonly norm: nn.LayerNorm;
  readonly head: nn.Linear;

  constructor(sizes: GPTSizes) {
    super();
    this.tokens = new nn.Embedding(sizes.vocabulary, sizes.width);
    this.positions = new nn.Embedding(sizes.context, sizes.width);
    this.blocks = Array.from({ length: sizes.layers }, () => new Block(sizes));
    this.norm = new nn.LayerNorm(sizes.width);
    this.head = new nn.Linear(sizes.width, sizes.vocabulary, { bias: false });
  }

  forward(ids: Tensor): Tensor {
    const places = Tensor.arange(0, ids.shape[1], 1, { dtype: "int32" });
    let x = this.tokens.forward(ids).add(this.positions.forward(places));
    for (const block of this.blocks) x = block.forward(x);
    const logits = this.head.forward(this.norm.forward(x));
    return logits.reshape([-1, logits.shape[2]!]);
  }
}

class Residual extends nn.Module {
  readonly conv1: nn.Conv2d;
  readonly norm1: nn.BatchNorm2d;
  readonly conv2: nn.Conv2d;
  readonly norm2: nn.BatchNorm2d;
  readonly shortcut: nn.Sequential | null;

  constructor(inputs: number, outputs: number, stride: number) {
    super();
    this.conv1 = new nn.Conv2d(inputs, outputs, 3, { stride, padding: 1, bias: false });
    this.norm1 = new nn.BatchNorm2d(outputs);
    this.conv2 = new nn.Conv2d(outputs, outputs, 3, { padding: 1, bias: false });
    this.norm2 = new nn.BatchNorm2d(outputs);
    this.shortcut = stride === 1 && inputs === outputs ? null : new nn.Sequential(
      new nn.Conv2d(inputs, outputs, 1, { stride, bias: false }),
      new nn.BatchNorm2d(outputs),
    );
  }

  forward(x: Tensor): Tensor {
    const y = this.norm1.forward(this.conv1.forward(x)).relu();
    const around = this.shortcut ? this.shortcut.forward(x) as Tensor : x;
    return this.norm2.forward(this.conv2.forward(y)).add(around).relu();
  }
}

/**
 * A residual network (K. He et al., 2015): `widths` are the stages' channels. For images of 32x32; with
 * `large`, of 224x224, which are made a quarter as wide first.
 */
export class ResNet extends nn.Module {
  readonly stem: nn.Conv2d;
  readonly norm: nn.BatchNorm2d;
  readonly pool: nn.MaxPool2d | null;
  readonly blocks: Residual[];
  readonly head: nn.Linear;

  constructor(widths: readonly number[], blocks: number, { classes = 10, large = false } = {}) {
    super();
    this.stem = large
      ? new nn.Conv2d(3, widths[0]!, 7, { stride: 2, padding: 3, bias: false })
      : new nn.Conv2d(3, widths[0]!, 3, { padding: 1, bias: false });
    this.pool = large ? new nn.MaxPool2d(3, { stride: 2, padding: 1 }) : null;
    this.norm = new nn.BatchNorm2d(widths[0]!);
    this.blocks = widths.flatMap((width, stage) =>
      Array.from({ length: blocks }, (_, block) =>
        new Residual(
          block > 0 || stage === 0 ? width : widths[stage - 1]!,
          width,
          block === 0 && stage > 0 ? 2 : 1,
        ))
    );
    this.head = new nn.Linear(widths.at(-1)!, classes);
  }

  forward(x: Tensor): Tensor {
    let y = this.norm.forward(this.stem.forward(x)).relu();
    if (this.pool) y = this.pool.forward(y);
    for (const block of this.blocks) y = block.forward(y);
    return this.head.forward(y.mean([2, 3]));
  }
}
