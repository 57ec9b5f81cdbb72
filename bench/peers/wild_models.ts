/**
 * Models as their authors write them: a Llama, a vision transformer, a U-Net, a diffusion model, a graph
 * attention network. netcl's kernels are not tuned on them; the peers have the same in torch_wild.py.
 */
import { nn, Tensor } from "@netcl/netcl";

/** The sizes of a {@linkcode Llama}. */
export interface LlamaSizes {
  readonly vocabulary: number;
  readonly context: number;
  readonly width: number;
  readonly hidden: number;
  readonly heads: number;
  /** The number of heads of keys and values; a divisor of `heads`. */
  readonly groups: number;
  readonly layers: number;
}

/** Halves of the last axis turned by angles that grow with the position (J. Su et al., 2021). */
function rotate(x: Tensor, cosine: Tensor, sine: Tensor): Tensor {
  const [a, b] = x.chunk(2, -1) as [Tensor, Tensor];
  return x.mul(cosine).add(Tensor.concat([b.neg(), a], -1).mul(sine));
}

class LlamaBlock extends nn.Module<[x: Tensor, cosine: Tensor, sine: Tensor]> {
  readonly norm1: nn.RMSNorm;
  readonly norm2: nn.RMSNorm;
  readonly q: nn.Linear;
  readonly k: nn.Linear;
  readonly v: nn.Linear;
  readonly o: nn.Linear;
  readonly gate: nn.Linear;
  readonly up: nn.Linear;
  readonly down: nn.Linear;
  readonly sizes: LlamaSizes;

  constructor(sizes: LlamaSizes) {
    super();
    const { width, heads, groups, hidden } = sizes;
    const linear = (from: number, to: number) => new nn.Linear(from, to, { bias: false });
    this.norm1 = new nn.RMSNorm(width);
    this.norm2 = new nn.RMSNorm(width);
    this.q = linear(width, width);
    this.k = linear(width, width / heads * groups);
    this.v = linear(width, width / heads * groups);
    this.o = linear(width, width);
    this.gate = linear(width, hidden);
    this.up = linear(width, hidden);
    this.down = linear(hidden, width);
    this.sizes = sizes;
  }

  forward(x: Tensor, cosine: Tensor, sine: Tensor): Tensor {
    const { heads, groups } = this.sizes, [n, length, width] = x.shape as [number, number, number];
    const split = (y: Tensor, heads: number) => y.reshape([n, length, heads, -1]).transpose(1, 2);
    const y = this.norm1.forward(x);
    const q = rotate(split(this.q.forward(y), heads), cosine, sine);
    const k = rotate(split(this.k.forward(y), groups), cosine, sine);
    const v = split(this.v.forward(y), groups);
    const shared = (t: Tensor) => t.repeatInterleave(heads / groups, 1);
    const seen = nn.scaledDotProductAttention(q, shared(k), shared(v), { isCausal: true });
    x = x.add(this.o.forward(seen.transpose(1, 2).reshape([n, length, width])));
    const z = this.norm2.forward(x);
    return x.add(this.down.forward(this.gate.forward(z).silu().mul(this.up.forward(z))));
  }
}

/** A decoder as Llama's authors have it: ids (N, L) give logits (N * L, vocabulary). */
export class Llama extends nn.Module {
  readonly tokens: nn.Embedding;
  readonly blocks: LlamaBlock[];
  readonly norm: nn.RMSNorm;
  readonly head: nn.Linear;
  readonly cosine: Tensor;
  readonly sine: Tensor;

  constructor(sizes: LlamaSizes) {
    super();
    const { vocabulary, width, heads, context, layers } = sizes, half = width / heads / 2;
    this.tokens = new nn.Embedding(vocabulary, width);
    this.blocks = Array.from({ length: layers }, () => new LlamaBlock(sizes));
    this.norm = new nn.RMSNorm(width);
    this.head = new nn.Linear(width, vocabulary, { bias: false });
    const rates = Tensor.arange(half, { dtype: "float32" }).mul(-Math.log(1e4) / half).exp();
    const angles = Tensor.arange(context, { dtype: "float32" }).unsqueeze(1).mul(rates);
    const both = Tensor.concat([angles, angles], 1);
    this.cosine = nn.buffer(both.cos());
    this.sine = nn.buffer(both.sin());
  }

  forward(ids: Tensor): Tensor {
    let x = this.tokens.forward(ids);
    for (const block of this.blocks) x = block.forward(x, this.cosine, this.sine);
    const logits = this.head.forward(this.norm.forward(x));
    return logits.reshape([-1, logits.shape[2]!]);
  }
}

/** The sizes of a {@linkcode ViT}. */
export interface ViTSizes {
  /** The side of the images, and of the squares that they are cut into. */
  readonly side: number;
  readonly patch: number;
  readonly width: number;
  readonly heads: number;
  readonly layers: number;
}

/** A vision transformer (A. Dosovitskiy et al., 2020): images (N, 3, H, W) give logits (N, 10). */
export class ViT extends nn.Module {
  readonly patches: nn.Conv2d;
  readonly token: Tensor;
  readonly positions: Tensor;
  readonly encoder: nn.TransformerEncoder;
  readonly norm: nn.LayerNorm;
  readonly head: nn.Linear;

  constructor({ side, patch, width, heads, layers }: ViTSizes) {
    super();
    this.patches = new nn.Conv2d(3, width, patch, { stride: patch });
    this.token = nn.parameter(Tensor.zeros([1, 1, width]));
    this.positions = nn.parameter(Tensor.randn([1, (side / patch) ** 2 + 1, width]).mul(0.02));
    const options = { dimFeedforward: 4 * width, dropout: 0, activation: "gelu" } as const;
    const layer = { ...options, batchFirst: true, normFirst: true };
    this.encoder = new nn.TransformerEncoder(
      () => new nn.TransformerEncoderLayer(width, heads, layer),
      layers,
    );
    this.norm = new nn.LayerNorm(width);
    this.head = new nn.Linear(width, 10);
  }

  forward(x: Tensor): Tensor {
    const y = this.patches.forward(x).flatten(2).transpose(1, 2), [n, , width] = y.shape;
    const first = this.token.expand([n!, 1, width!]).cast(y.dtype);
    const z = this.encoder.forward(Tensor.concat([first, y], 1).add(this.positions));
    return this.head.forward(this.norm.forward(z.slice([0], 0)));
  }
}

function convolved(from: number, to: number): nn.Sequential {
  return new nn.Sequential(
    new nn.Conv2d(from, to, 3, { padding: 1 }),
    new nn.BatchNorm2d(to),
    new nn.ReLU(),
    new nn.Conv2d(to, to, 3, { padding: 1 }),
    new nn.BatchNorm2d(to),
    new nn.ReLU(),
  );
}

/** Segmentation by a U (O. Ronneberger et al., 2015): (N, 3, H, W) gives logits (N * H * W, 4). */
export class UNet extends nn.Module {
  readonly down: nn.Sequential[];
  readonly pool = new nn.MaxPool2d(2);
  readonly raise: nn.ConvTranspose2d[];
  readonly up: nn.Sequential[];
  readonly head: nn.Conv2d;

  constructor(widths: readonly number[]) {
    super();
    this.down = widths.map((width, level) =>
      convolved(level === 0 ? 3 : widths[level - 1]!, width)
    );
    const steps = widths.slice(1).map((width, level) => [width, widths[level]!] as const);
    this.raise = steps.map(([from, to]) => new nn.ConvTranspose2d(from, to, 2, { stride: 2 }));
    this.up = steps.map(([, to]) => convolved(2 * to, to));
    this.head = new nn.Conv2d(widths[0]!, 4, 1);
  }

  forward(x: Tensor): Tensor {
    const seen: Tensor[] = [];
    for (const [level, block] of this.down.entries()) {
      x = block.forward(level === 0 ? x : this.pool.forward(x)) as Tensor;
      seen.push(x);
    }
    for (let level = this.up.length - 1; level >= 0; level--) {
      const raised = this.raise[level]!.forward(x);
      x = this.up[level]!.forward(Tensor.concat([seen[level]!, raised], 1)) as Tensor;
    }
    return this.head.forward(x).permute([0, 2, 3, 1]).reshape([-1, 4]);
  }
}

class TimedBlock extends nn.Module<[x: Tensor, time: Tensor]> {
  readonly norm1: nn.GroupNorm;
  readonly conv1: nn.Conv2d;
  readonly time: nn.Linear;
  readonly norm2: nn.GroupNorm;
  readonly conv2: nn.Conv2d;
  readonly around: nn.Conv2d | null;

  constructor(from: number, to: number, time: number) {
    super();
    this.norm1 = new nn.GroupNorm(8, from);
    this.conv1 = new nn.Conv2d(from, to, 3, { padding: 1 });
    this.time = new nn.Linear(time, to);
    this.norm2 = new nn.GroupNorm(8, to);
    this.conv2 = new nn.Conv2d(to, to, 3, { padding: 1 });
    this.around = from === to ? null : new nn.Conv2d(from, to, 1);
  }

  forward(x: Tensor, time: Tensor): Tensor {
    const shift = this.time.forward(time.silu()).unsqueeze(-1).unsqueeze(-1);
    const y = this.conv1.forward(this.norm1.forward(x).silu()).add(shift);
    const z = this.conv2.forward(this.norm2.forward(y).silu());
    return z.add(this.around?.forward(x) ?? x);
  }
}

class PixelAttention extends nn.Module {
  readonly norm: nn.GroupNorm;
  readonly project: nn.Conv2d;
  readonly join: nn.Conv2d;

  constructor(readonly width: number) {
    super();
    this.norm = new nn.GroupNorm(8, width);
    this.project = new nn.Conv2d(width, 3 * width, 1);
    this.join = new nn.Conv2d(width, width, 1);
  }

  forward(x: Tensor): Tensor {
    const [n, width, h, w] = x.shape as [number, number, number, number];
    const parts = this.project.forward(this.norm.forward(x)).reshape([n, 3 * width, h * w]);
    const [q, k, v] = parts.transpose(1, 2).chunk(3, 2) as [Tensor, Tensor, Tensor];
    const seen = nn.scaledDotProductAttention(q, k, v).transpose(1, 2).reshape([n, width, h, w]);
    return x.add(this.join.forward(seen));
  }
}

/**
 * A diffusion model's U-Net (J. Ho et al., 2020): noisy images (N, 3, H, W) at times (N) give the noise
 * in them. The times are those of the batch's numbers.
 */
export class Diffusion extends nn.Module {
  readonly time: nn.Sequential;
  readonly first: nn.Conv2d;
  readonly down1: TimedBlock;
  readonly half1: nn.Conv2d;
  readonly down2: TimedBlock;
  readonly half2: nn.Conv2d;
  readonly middle1: TimedBlock;
  readonly attention: PixelAttention;
  readonly middle2: TimedBlock;
  readonly up2: TimedBlock;
  readonly up1: TimedBlock;
  readonly norm: nn.GroupNorm;
  readonly last: nn.Conv2d;

  constructor(readonly width: number) {
    super();
    const w = width, time = 4 * width, half = { stride: 2, padding: 1 };
    this.time = new nn.Sequential(new nn.Linear(w, time), new nn.SiLU(), new nn.Linear(time, time));
    this.first = new nn.Conv2d(3, w, 3, { padding: 1 });
    this.down1 = new TimedBlock(w, w, time);
    this.half1 = new nn.Conv2d(w, w, 3, half);
    this.down2 = new TimedBlock(w, 2 * w, time);
    this.half2 = new nn.Conv2d(2 * w, 2 * w, 3, half);
    this.middle1 = new TimedBlock(2 * w, 4 * w, time);
    this.attention = new PixelAttention(4 * w);
    this.middle2 = new TimedBlock(4 * w, 2 * w, time);
    this.up2 = new TimedBlock(4 * w, w, time);
    this.up1 = new TimedBlock(2 * w, w, time);
    this.norm = new nn.GroupNorm(8, w);
    this.last = new nn.Conv2d(w, 3, 3, { padding: 1 });
  }

  forward(x: Tensor): Tensor {
    const half = this.width / 2;
    const rates = Tensor.arange(half, { dtype: "float32" }).mul(-Math.log(1e4) / half).exp();
    const angles = Tensor.arange(x.shape[0]!, { dtype: "float32" }).unsqueeze(1).mul(rates);
    const time = this.time.forward(Tensor.concat([angles.sin(), angles.cos()], 1)) as Tensor;
    const larger = (x: Tensor) => x.interpolate({ scaleFactor: 2, mode: "nearest" });
    const a = this.down1.forward(this.first.forward(x), time);
    const b = this.down2.forward(this.half1.forward(a), time);
    const c = this.middle1.forward(this.half2.forward(b), time);
    const d = this.middle2.forward(this.attention.forward(c), time);
    const e = this.up2.forward(Tensor.concat([larger(d), b], 1), time);
    const f = this.up1.forward(Tensor.concat([larger(e), a], 1), time);
    return this.last.forward(this.norm.forward(f).silu());
  }
}

class GraphAttention extends nn.Module<[x: Tensor, from: Tensor, to: Tensor]> {
  readonly project: nn.Linear;
  readonly source: Tensor;
  readonly target: Tensor;

  constructor(from: number, readonly heads: number, readonly width: number) {
    super();
    this.project = new nn.Linear(from, heads * width, { bias: false });
    this.source = nn.parameter(Tensor.randn([heads, width]).mul(0.1));
    this.target = nn.parameter(Tensor.randn([heads, width]).mul(0.1));
  }

  /** Nodes' features (count, from), and the edges' ends: (count, heads * width). */
  forward(x: Tensor, from: Tensor, to: Tensor): Tensor {
    const count = x.shape[0]!, { heads, width } = this;
    const h = this.project.forward(x).reshape([count, heads, width]);
    const ofSource = h.mul(this.source).sum(-1), ofTarget = h.mul(this.target).sum(-1);
    const scores = ofSource.indexSelect(0, from).add(ofTarget.indexSelect(0, to)).leakyRelu(0.2);
    const e = scores.sub(scores.detach().max()).exp();
    const sums = Tensor.zeros([count, heads]).indexAdd(0, to, e);
    const share = e.div(sums.indexSelect(0, to).add(1e-9));
    const sent = h.indexSelect(0, from).mul(share.unsqueeze(-1));
    return Tensor.zeros([count, heads, width]).indexAdd(0, to, sent).reshape([count, -1]);
  }
}

/** Two layers of attention between neighbours (P. Veličković et al., 2017): logits (nodes, 10). */
export class GAT extends nn.Module {
  readonly layer1: GraphAttention;
  readonly layer2: GraphAttention;
  readonly sources: Tensor;
  readonly targets: Tensor;

  constructor(features: number, nodes: number, edges: number) {
    super();
    this.layer1 = new GraphAttention(features, 4, 32);
    this.layer2 = new GraphAttention(128, 1, 10);
    this.sources = nn.buffer(Tensor.randint(0, nodes, [edges]).realize());
    this.targets = nn.buffer(Tensor.randint(0, nodes, [edges]).realize());
  }

  forward(x: Tensor): Tensor {
    const y = this.layer1.forward(x, this.sources, this.targets).elu();
    return this.layer2.forward(y, this.sources, this.targets);
  }
}

/** A recurrent network as a loop over its cell: (L, N, width) gives the last state (N, width). */
export class CellLoop extends nn.Module {
  readonly cell: nn.LSTMCell;

  constructor(readonly width: number) {
    super();
    this.cell = new nn.LSTMCell(width, width);
  }

  forward(x: Tensor): Tensor {
    let h = Tensor.zeros([x.shape[1]!, this.width]), c = h;
    for (const now of x.unbind(0)) [h, c] = this.cell.forward(now, [h, c]);
    return h;
  }
}
