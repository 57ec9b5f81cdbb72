/** Programs whose kernels are compiled for devices that are not here: what users compute, in every element type. */
import {
  compile,
  distributions,
  type DType,
  einsum,
  linalg,
  manualSeed,
  nn,
  type nn as layers,
  optim,
  special,
  Tensor,
} from "../../mod.ts";
import * as fft from "../../tensor/fft/mod.ts";
import { Transformer } from "../../examples/transformer/model.ts";
import { blockBytes } from "../../backend/formats/block_format.ts";
import { type BlockFormatName, formatTable } from "../../backend/formats/block_formats.ts";

/** Plans a program: the kernels of what it realizes are those that are compiled. */
export type PlannedProgram = () => void;

const floats = ["float32", "float16", "bfloat16", "float64"] as const;
const wholes = ["int32", "int64", "uint8"] as const;

/** Values that are in memory, of a type. */
function values(dtype: DType, ...shape: number[]): Tensor {
  const size = shape.reduce((a, b) => a * b, 1);
  return Tensor.fromHost(new Float32Array(size), { shape }).cast(dtype).realize();
}

/** The same as what is learned. */
function weights(dtype: DType, ...shape: number[]): Tensor {
  const made = values(dtype, ...shape);
  made.requiresGrad = true;
  return made;
}

const places = (...shape: number[]): Tensor => values("int32", ...shape);

/** Programs of one type: what they give is realized together. */
type Programs = Readonly<Record<string, (t: DType) => Tensor[]>>;

/** The values, and the gradients of what they were computed from. */
function withGradients(made: Tensor, ...leaves: Tensor[]): Tensor[] {
  made.sum().backward();
  return [made, ...leaves.map((leaf) => leaf.grad!)];
}

const ofAnyNumbers: Programs = {
  "sums along each axis": (t) => {
    const x = values(t, 130, 257);
    return [x.sum(0), x.sum(1), x.max(0), x.sum()];
  },
  "transposed copies": (t) => [
    values(t, 600, 700).transpose(0, 1).contiguous(),
    values(t, 3, 200, 90, 40).permute([0, 2, 3, 1]).contiguous(),
  ],
  "sums of many": (t) => [values(t, 3_000_000).sum(), values(t, 4, 600_000).sum(1)],
  "scans": (t) => [
    values(t, 70, 3000).cumsum(1),
    values(t, 3000, 70).cumsum(0),
    values(t, 900, 20).cumsum(1),
  ],
  "sorts of short rows": (t) => {
    const { values: sorted, indices } = values(t, 200, 100).sort(1);
    return [sorted, indices];
  },
  "sorts of long rows": (t) => {
    const { values: sorted, indices } = values(t, 3, 70_000).sort(1);
    return [sorted, indices];
  },
  "largest and their positions": (t) => {
    const x = values(t, 40, 1000), { values: top, indices } = x.topk(7);
    return [
      ...[top, indices, x.argmax(1), x.argmin(0)],
      ...[x.topk(300).indices, values(t, 5000, 100).topk(3).indices],
    ];
  },
  "gathers and scatters": (t) => {
    const x = values(t, 100, 64);
    return [
      x.indexSelect(0, places(33)),
      x.gather(1, places(100, 5)),
      x.scatterAdd(0, places(50, 64), values(t, 50, 64)),
      values(t, 80, 500).scatterAdd(1, places(80, 700), values(t, 80, 700)),
      values(t, 30).scatterAdd(0, places(100_000), values(t, 100_000)),
      x.indexAdd(0, places(33), values(t, 33, 64)),
    ];
  },
  "views, joined": (t) => {
    const x = values(t, 12, 20, 30);
    return [
      Tensor.concat([x.transpose(0, 2), x.transpose(0, 2).flip([1])], 1).add(1),
      x.slice(null, [1, 19, 3]).contiguous(),
    ];
  },
  "arithmetic": (t) => {
    const a = values(t, 61, 67), b = values(t, 67);
    return [a.mul(b).add(3).sub(a), a.maximum(b).remainder(5), a.floorDivide(7), a.gt(b)];
  },
  "casts": (t) => {
    const x = values(t, 999);
    return [...floats, ...wholes, "bool" as const].map((to) => x.add(1).cast(to));
  },
};

const ofFloats: Programs = {
  "product": (t) => [values(t, 128, 96).matmul(values(t, 96, 160))],
  "product of odd sizes": (t) => [values(t, 67, 93).matmul(values(t, 93, 129))],
  "large product": (t) => [values(t, 1024, 512).matmul(values(t, 512, 768))],
  "products of transposed, batched": (t) => [
    values(t, 8, 64, 100).transpose(1, 2).matmul(values(t, 8, 80, 64).transpose(1, 2)),
    values(t, 512, 1).transpose().matmul(values(t, 512, 300)),
  ],
  "product with what follows": (t) => {
    const [x, w, b] = [weights(t, 64, 256), weights(t, 256, 128), weights(t, 128)];
    return withGradients(x.matmul(w).add(b).gelu(), x, w, b);
  },
  "einsum": (t) => [einsum("bhqd,bhkd->bhqk", values(t, 2, 3, 33, 16), values(t, 2, 3, 40, 16))],
  "convolution": (t) => {
    const x = weights(t, 8, 16, 24, 24), w = weights(t, 32, 16, 3, 3);
    return withGradients(x.conv2d(w, { padding: 1 }).relu(), x, w);
  },
  "convolution in steps, in groups": (t) => {
    const x = weights(t, 2, 32, 21, 20), w = weights(t, 64, 16, 3, 3), v = weights(t, 32, 1, 5, 5);
    return [
      ...withGradients(x.conv2d(w, { padding: 1, stride: 2, groups: 2 }), x, w),
      ...withGradients(x.conv2d(v, { padding: 2, groups: 32 }), v),
    ];
  },
  "pooling and resampling": (t) => {
    const x = weights(t, 2, 8, 24, 24);
    return [
      ...withGradients(x.maxPool2d(2), x),
      x.avgPool2d(3, { stride: 2 }),
      x.interpolate({ scaleFactor: 2, mode: "bilinear" }),
    ];
  },
  "attention": (t) => {
    const [q, k, v] = [
      weights(t, 2, 4, 128, 64),
      weights(t, 2, 4, 128, 64),
      weights(t, 2, 4, 128, 64),
    ];
    return withGradients(nn.scaledDotProductAttention(q, k, v, { isCausal: true }), q, k, v);
  },
  "attention of few queries": (t) => {
    const k = values(t, 1, 8, 700, 128);
    return [nn.scaledDotProductAttention(values(t, 1, 8, 1, 128), k, k)];
  },
  "softmax and losses": (t) => {
    const x = weights(t, 64, 1000);
    return [...withGradients(x.crossEntropy(places(64)), x), x.softmax(1), x.logSumExp(0)];
  },
  "norms": (t) => {
    const x = weights(t, 40, 768), images = values(t, 4, 16, 12, 12);
    return [
      ...withGradients(new nn.LayerNorm(768).forward(x.cast("float32")), x),
      new nn.RMSNorm(768).forward(x.detach().cast("float32")),
      new nn.GroupNorm(4, 16).forward(images.cast("float32")),
    ];
  },
  "functions": (t) => {
    const x = weights(t, 5000);
    const made = x.exp().add(x.sin()).mul(x.tanh()).add(x.abs().add(1).log()).add(x.sigmoid());
    return [...withGradients(made.add(x.erf()).add(x.square().add(1).sqrt()), x), x.lgamma()];
  },
  "random numbers": (t) => {
    manualSeed(1);
    return [
      Tensor.rand([1000], { dtype: t }),
      Tensor.randn([1000], { dtype: t }),
      new nn.Dropout(0.3).forward(values(t, 1000)),
    ];
  },
  "pairs of rows": (t) => {
    const x = weights(t, 700, 24), y = values(t, 900, 24);
    return [...withGradients(x.cdist(y), x), x.detach().cdist(y, { p: 1 })];
  },
  "statistics": (t) => {
    const x = values(t, 33, 500);
    return [x.variance(1), x.median(1), x.norm(0), x.cumprod(1)];
  },
  "embeddings": (t) => {
    const table = weights(t, 500, 48);
    return withGradients(table.indexSelect(0, places(200)).square(), table);
  },
};

/** A matrix that elimination needs no exchange for; its values are not looked at. */
const matrix = (t: DType, ...shape: number[]): Tensor => values(t, ...shape);

/** Of the types that linear algebra has. */
const ofMatrices: Programs = {
  "factorizations of small matrices": (t) => {
    const a = matrix(t, 5, 12, 12), { q, r } = linalg.qr(a), { u, s } = linalg.svd(a);
    const { values: of, vectors } = linalg.eigh(a), eigen = linalg.eig(a);
    return [
      ...[linalg.cholesky(a), linalg.solve(a, matrix(t, 5, 12, 2)), q, r, u, s, of, vectors],
      ...[eigen.values.real, eigen.vectors.imag, linalg.matrixExp(a), linalg.det(a)],
    ];
  },
  "factorizations by blocks": (t) => {
    const a = matrix(t, 2, 200, 200), { q, r } = linalg.qr(a), { u, s } = linalg.svd(a);
    const { values: of, vectors } = linalg.eigh(a), right = matrix(t, 2, 200, 70);
    return [
      ...[linalg.cholesky(a), linalg.solve(a, right), linalg.inv(a), q, r, u, s, of, vectors],
      ...[right, right.slice(null, null, [0, 1])].map((b) =>
        linalg.solveTriangular(a, b, { upper: false })
      ),
    ];
  },
  "factorizations of tall matrices": (t) => {
    const a = matrix(t, 9000, 40), { q, r } = linalg.qr(a);
    return [
      q,
      r,
      linalg.lu(matrix(t, 17_000, 20)).l,
      linalg.lstsq(matrix(t, 300, 20), matrix(t, 300, 2)),
    ];
  },
  "Fourier transforms": (t) =>
    [
      fft.fft(values(t, 12, 1000)),
      fft.fft2(values(t, 2, 60, 84)),
      fft.fft(values(t, 2 ** 17)),
      fft.fft(values(t, 3, 1009)),
      fft.fft(values(t, 3, 2 * 59)),
      fft.rfft(values(t, 4096)),
    ].flatMap(({ real, imag }) => [real, imag]),
  "special functions": (t) => {
    const [x, y] = [values(t, 700), values(t, 700)];
    const { mantissa, exponent } = special.frexp(x);
    return [
      ...[special.gammainc(x, y), special.betainc(x, y, 0.5), special.i0(x), special.i1e(x)],
      ...[mantissa, exponent, special.nextafter(x, y), special.erfcx(x), x.digamma()],
    ];
  },
  "samples with gradients": (t) => {
    const x = weights(t, 300), y = weights(t, 300);
    const gamma = new distributions.Gamma(x, y).rsample(), beta = new distributions.Beta(x, y);
    return [
      ...withGradients(gamma, x),
      ...withGradients(beta.rsample(), y),
      ...[Tensor.poisson(x.detach()), Tensor.binomial(20, y.detach())],
      new distributions.Binomial(20, { probs: y.detach() }).entropy(),
    ];
  },
};

/** Two steps of training, compiled, so that later ones are planned as well. */
function trained(model: layers.AnyModule, loss: () => Tensor): void {
  const optimizer = new optim.AdamW(model.parameters(), { lr: 1e-3 });
  const step = compile(() => {
    optimizer.zeroGrad();
    const found = loss();
    found.backward();
    optimizer.step();
    return found;
  });
  for (let k = 0; k < 3; k++) step().dispose();
}

function perceptron(): void {
  const x = values("float32", 64, 784), labels = places(64);
  const model = new nn.Sequential(new nn.Linear(784, 128), new nn.ReLU(), new nn.Linear(128, 10));
  trained(model, () => model.forward(x).crossEntropy(labels));
}

function convolutional(): void {
  const x = values("float32", 32, 1, 28, 28), labels = places(32);
  const model = new nn.Sequential(
    ...[new nn.Conv2d(1, 16, 3, { padding: 1 }), new nn.BatchNorm2d(16), new nn.ReLU()],
    ...[new nn.MaxPool2d(2), new nn.Conv2d(16, 32, 3, { padding: 1 }), new nn.ReLU()],
    ...[new nn.Flatten(), new nn.Dropout(0.2), new nn.Linear(32 * 14 * 14, 10)],
  );
  trained(model, () => model.forward(x).crossEntropy(labels));
}

function transformer(dtype: DType): void {
  const size = { tokens: 65, context: 64, width: 128, heads: 4, layers: 2, dropout: 0.1 };
  const model = new Transformer(size), ids = places(8, 64), labels = places(8 * 64);
  trained(
    model.to(dtype),
    () => model.forward(ids).reshape([8 * 64, 65]).cast("float32").crossEntropy(labels),
  );
}

function recurrent(make: (inputs: number, size: number) => layers.LSTM | layers.GRU): void {
  const x = values("float32", 8, 20, 24), model = make(24, 32);
  trained(model, () => model.forward(x).output.square().mean());
}

/** Patches of pictures, six layers of one structure: kernels that share launches. */
function visionTransformer(dtype: DType): void {
  const layer = () =>
    new nn.TransformerEncoderLayer(64, 4, { dimFeedforward: 128, batchFirst: true });
  const model = new nn.Sequential(
    ...[new nn.Conv2d(3, 64, 4, { stride: 4 }), new nn.Flatten(2)],
    ...Array.from({ length: 6 }, layer),
  );
  const x = values(dtype, 8, 3, 32, 32);
  trained(model.to(dtype), () => model.forward(x).cast("float32").square().mean());
}

/** Half the size and back, with what was there joined. */
function diffusionNetwork(): void {
  const down = new nn.Conv2d(8, 16, 3, { stride: 2, padding: 1 });
  const up = new nn.ConvTranspose2d(16, 8, 2, { stride: 2 }),
    last = new nn.Conv2d(16, 8, 3, { padding: 1 });
  const norm = new nn.GroupNorm(4, 16), x = values("float32", 4, 8, 32, 32);
  const all = new nn.Sequential(down, norm, up, last);
  trained(all, () => {
    const low = norm.forward(down.forward(x)).silu();
    return last.forward(Tensor.concat([up.forward(low), x], 1)).square().mean();
  });
}

/** A product of one row with weights in blocks of few bits. */
function packed(format: BlockFormatName): void {
  const [n, k] = [512, 1024];
  const size = n * k / formatTable[format].elements * blockBytes(formatTable[format]);
  const blocks = Tensor.fromBlocks(new Uint8Array(size), format).decodeBlocks(format, [n, k]);
  values("float32", 1, k).matmul(blocks.transpose()).add(1).realize();
  for (const t of ["float32", "float16", "bfloat16"] as const) {
    blocks.cast(t).contiguous().realize();
  }
}

function ofTypes(programs: Programs, types: readonly DType[]): [string, PlannedProgram][] {
  return Object.entries(programs).flatMap(([name, make]) =>
    types.map((t): [string, PlannedProgram] => [
      `${name} (${t})`,
      () => make(t).forEach((made) => made.realize()),
    ])
  );
}

/** The programs by name. */
export const programs: ReadonlyMap<string, PlannedProgram> = new Map([
  ...ofTypes(ofAnyNumbers, [...floats, ...wholes]),
  ...ofTypes(ofFloats, floats),
  ...ofTypes(ofMatrices, ["float32", "float64"]),
  ["perceptron's training", perceptron],
  ["convolutional network's training", convolutional],
  ...(["float32", "bfloat16"] as const).map((t): [string, PlannedProgram] => [
    `transformer's training (${t})`,
    () => transformer(t),
  ]),
  ["LSTM's training", () => recurrent((n, size) => new nn.LSTM(n, size))],
  ["GRU's training", () => recurrent((n, size) => new nn.GRU(n, size))],
  ["vision transformer's training (float32)", () => visionTransformer("float32")],
  ["vision transformer's training (bfloat16)", () => visionTransformer("bfloat16")],
  ["diffusion network's training", diffusionNetwork],
  ...(Object.keys(formatTable) as BlockFormatName[]).map((format): [string, PlannedProgram] => [
    `product with packed weights (${format})`,
    () => packed(format),
  ]),
]);
