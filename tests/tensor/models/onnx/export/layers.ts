/** Every layer of `nn` with inputs that it takes, to be saved as ONNX; or why it is not. */
import { manualSeed, nn, noGrad, Tensor } from "../../../../../mod.ts";
import { saveOnnx } from "@netcl/netcl/models";

/** A layer with its inputs. */
export interface LayerCase {
  /** Makes the layer. */
  readonly make: () => nn.AnyModule;
  /** Makes the inputs, by name, for a batch of this size. */
  readonly inputs: (n: number) => Record<string, Tensor>;
  /** The axis of the batch; it may have any length afterwards. */
  readonly batch: number;
}

/** Calls a layer whose result is no tensor, or whose arguments are not its alone. */
class Calling extends nn.Module<Tensor[], Tensor | Record<string, Tensor>> {
  readonly layer: nn.AnyModule;
  readonly #call: (...inputs: Tensor[]) => Tensor | Record<string, Tensor>;

  constructor(
    layer: nn.AnyModule,
    call: (...inputs: Tensor[]) => Tensor | Record<string, Tensor>,
  ) {
    super();
    this.layer = layer;
    this.#call = call;
  }

  forward(...inputs: Tensor[]): Tensor | Record<string, Tensor> {
    return this.#call(...inputs);
  }
}

/** Operations that programs do between layers. */
function operationsOf(x: Tensor, at: Tensor): Record<string, Tensor> {
  const n = x.shape[0]!, whole = x.mul(5).cast("int32");
  return {
    variance: x.variance(1),
    deviation: x.std(),
    anyOf: x.gt(1).any(1).cast("float32"),
    allOf: x.gt(-1).all(0).cast("float32"),
    rest: x.remainder(0.7),
    wholeRest: whole.remainder(3),
    down: x.floorDivide(0.3),
    wholeDown: whole.floorDivide(2),
    cut: x.mul(3).trunc(),
    infinite: x.gt(0).where(Infinity, x).isInf().cast("float32"),
    rolled: x.roll(1, 0),
    rolledBack: x.roll(-1, 1),
    rolledFlat: x.roll(3),
    repeated: x.repeat([2, 1, 3]),
    heads: x.repeatInterleave(3, 1),
    elements: x.repeatInterleave(2),
    hot: at.oneHot(3),
    stored: x.scatter(1, x.argsort(1), x.mul(2)),
    sums: Tensor.zeros([2, 4]).indexAdd(0, at, x),
    first: Tensor.concat([x, x], 0).slice([0, n]),
    bytes: x.mul(20).cast("int8").add(100).cast("float32"),
  };
}

const on = (...shape: number[]) => (make: () => nn.AnyModule): LayerCase => ({
  make,
  inputs: (n) => ({ x: Tensor.randn([n, ...shape]) }),
  batch: 0,
});
const row = on(6), list = on(4, 10), image = on(4, 8, 8), volume = on(4, 4, 6, 4);

function recurrent(make: () => nn.LSTM | nn.GRU | nn.RNN, isBatchFirst = false): LayerCase {
  const whole = () => {
    const layer = make();
    return new Calling(layer, (x) => {
      const { output, state } = layer.forward(x!);
      return Object.fromEntries([["output", output], ...state.map((s, k) => [`state${k}`, s])]);
    });
  };
  const shape = (n: number) => isBatchFirst ? [n, 5, 6] : [5, n, 6];
  return {
    make: whole,
    inputs: (n) => ({ x: Tensor.randn(shape(n)) }),
    batch: isBatchFirst ? 0 : 1,
  };
}

function cell(make: () => nn.AnyModule, states: number): LayerCase {
  const names = ["h", "c"].slice(0, states);
  const whole = () => {
    const layer = make();
    return new Calling(layer, (x, ...state) => {
      const next = layer.forward(x, states === 1 ? state[0] : state) as Tensor | Tensor[];
      return Object.fromEntries([next].flat().map((t, k) => [`next${k}`, t]));
    });
  };
  const inputs = (n: number) =>
    Object.fromEntries(["x", ...names].map((name) => [name, Tensor.randn([n, 6])]));
  return { make: whole, inputs, batch: 0 };
}

function two(
  make: () => nn.AnyModule,
  call: (layer: nn.AnyModule, a: Tensor, b: Tensor) => Tensor,
): LayerCase {
  const whole = () => {
    const layer = make();
    return new Calling(layer, (a, b) => call(layer, a!, b!));
  };
  const inputs = (n: number) => ({ a: Tensor.randn([n, 5, 8]), b: Tensor.randn([n, 7, 8]) });
  return { make: whole, inputs, batch: 0 };
}

const ids = (length: number) => (make: () => nn.AnyModule): LayerCase => ({
  make,
  inputs: (n) => ({ ids: Tensor.randint(0, 20, [n, length]).cast("int64") }),
  batch: 0,
});

/** The layers by their names, with another word where a layer stands more than once. */
export const layers: Readonly<Record<string, LayerCase>> = {
  AdaptiveAvgPool2d: image(() => new nn.AdaptiveAvgPool2d(2)),
  AvgPool1d: list(() => new nn.AvgPool1d(2)),
  AvgPool2d: image(() => new nn.AvgPool2d(3, { stride: 2, padding: 1 })),
  AvgPool3d: volume(() => new nn.AvgPool3d(2)),
  BatchNorm1d: list(() => new nn.BatchNorm1d(4)),
  BatchNorm2d: image(() => new nn.BatchNorm2d(4)),
  BatchNorm3d: volume(() => new nn.BatchNorm3d(4)),
  CELU: row(() => new nn.CELU(0.7)),
  ConstantPad1d: list(() => new nn.ConstantPad1d([1, 2], 3)),
  ConstantPad2d: image(() => new nn.ConstantPad2d(1, 3)),
  ConstantPad3d: volume(() => new nn.ConstantPad3d(1, 3)),
  Conv1d: list(() => new nn.Conv1d(4, 6, 3, { dilation: 2 })),
  Conv2d: image(() => new nn.Conv2d(4, 6, 3, { padding: 1, stride: 2, groups: 2 })),
  Conv3d: volume(() => new nn.Conv3d(4, 2, 2)),
  ConvTranspose1d: list(() => new nn.ConvTranspose1d(4, 6, 3, { stride: 2 })),
  ConvTranspose2d: image(() => new nn.ConvTranspose2d(4, 6, 3, { stride: 2, outputPadding: 1 })),
  ConvTranspose3d: volume(() => new nn.ConvTranspose3d(4, 2, 2)),
  Dropout: row(() => new nn.Dropout(0.5)),
  Dropout1d: list(() => new nn.Dropout1d(0.5)),
  Dropout2d: image(() => new nn.Dropout2d(0.5)),
  Dropout3d: volume(() => new nn.Dropout3d(0.5)),
  ELU: row(() => new nn.ELU()),
  Embedding: ids(5)(() => new nn.Embedding(20, 6)),
  EmbeddingBag: ids(5)(() => new nn.EmbeddingBag(20, 6)),
  Flatten: image(() => new nn.Flatten()),
  Fold: on(12, 9)(() => new nn.Fold(6, 2, { stride: 2 })),
  "Fold of padded images": on(12, 6)(() => new nn.Fold([6, 5], 2, { stride: 3, padding: 1 })),
  GELU: row(() => new nn.GELU()),
  GLU: row(() => new nn.GLU()),
  GRU: recurrent(() => new nn.GRU(6, 8, { numLayers: 2, bidirectional: true })),
  GRUCell: cell(() => new nn.GRUCell(6, 6), 1),
  "a layer that samples": {
    make: () =>
      new Calling(
        new nn.Identity(),
        (x, grid) => nn.gridSample(x!, grid!, { paddingMode: "border", alignCorners: true }),
      ),
    inputs: (n) => ({
      x: Tensor.randn([n, 2, 6, 5]),
      grid: Tensor.rand([n, 3, 4, 2]).mul(2).sub(1),
    }),
    batch: 0,
  },
  GroupNorm: image(() => new nn.GroupNorm(2, 4)),
  Hardshrink: row(() => new nn.Hardshrink()),
  Hardsigmoid: row(() => new nn.Hardsigmoid()),
  Hardswish: row(() => new nn.Hardswish()),
  Hardtanh: row(() => new nn.Hardtanh(-0.5, 0.7)),
  Identity: row(() => new nn.Identity()),
  InstanceNorm1d: list(() => new nn.InstanceNorm1d(4, { affine: true })),
  InstanceNorm2d: image(() => new nn.InstanceNorm2d(4)),
  InstanceNorm3d: volume(() => new nn.InstanceNorm3d(4)),
  LSTM: recurrent(() => new nn.LSTM(6, 8, { batchFirst: true }), true),
  "LSTM of both directions": recurrent(() =>
    new nn.LSTM(6, 8, { bidirectional: true, bias: false })
  ),
  LSTMCell: cell(() => new nn.LSTMCell(6, 6), 2),
  LayerNorm: list(() => new nn.LayerNorm(10)),
  LeakyReLU: row(() => new nn.LeakyReLU(0.2)),
  Linear: row(() => new nn.Linear(6, 3)),
  LogSoftmax: row(() => new nn.LogSoftmax()),
  MaxPool1d: list(() => new nn.MaxPool1d(2)),
  MaxPool2d: image(() => new nn.MaxPool2d(3, { stride: 2, padding: 1 })),
  MaxPool3d: volume(() => new nn.MaxPool3d(2)),
  Mish: row(() => new nn.Mish()),
  MultiheadAttention: two(
    () => new nn.MultiheadAttention(8, 2, { batchFirst: true }),
    (layer, a, b) => layer.forward(a, b, b) as Tensor,
  ),
  PReLU: image(() => new nn.PReLU()),
  PixelShuffle: image(() => new nn.PixelShuffle(2)),
  PixelUnshuffle: image(() => new nn.PixelUnshuffle(2)),
  RMSNorm: list(() => new nn.RMSNorm(10)),
  RNN: recurrent(() => new nn.RNN(6, 8, { nonlinearity: "relu" })),
  RNNCell: cell(() => new nn.RNNCell(6, 6), 1),
  ReLU: row(() => new nn.ReLU()),
  ReLU6: row(() => new nn.ReLU6()),
  ReflectionPad1d: list(() => new nn.ReflectionPad1d(2)),
  ReflectionPad2d: image(() => new nn.ReflectionPad2d(2)),
  ReflectionPad3d: volume(() => new nn.ReflectionPad3d(1)),
  ReplicationPad1d: list(() => new nn.ReplicationPad1d(2)),
  ReplicationPad2d: image(() => new nn.ReplicationPad2d(2)),
  ReplicationPad3d: volume(() => new nn.ReplicationPad3d(1)),
  RotaryEmbedding: on(2, 5, 8)(() => new nn.RotaryEmbedding(8)),
  SELU: row(() => new nn.SELU()),
  Sequential: row(() => new nn.Sequential(new nn.Linear(6, 4), new nn.ReLU())),
  SiLU: row(() => new nn.SiLU()),
  Sigmoid: row(() => new nn.Sigmoid()),
  Softmax: row(() => new nn.Softmax()),
  Softplus: row(() => new nn.Softplus()),
  Softshrink: row(() => new nn.Softshrink()),
  Softsign: row(() => new nn.Softsign()),
  SwiGLU: row(() => new nn.SwiGLU(6, 12)),
  Tanh: row(() => new nn.Tanh()),
  Tanhshrink: row(() => new nn.Tanhshrink()),
  Threshold: row(() => new nn.Threshold(0.1, -2)),
  TransformerDecoder: two(
    () =>
      new nn.TransformerDecoder(
        () => new nn.TransformerDecoderLayer(8, 2, { batchFirst: true, dimFeedforward: 16 }),
        2,
      ),
    (layer, a, b) => layer.forward(a, b) as Tensor,
  ),
  "operations beside layers": {
    make: () => new Calling(new nn.Identity(), (x, at) => operationsOf(x!, at!)),
    inputs: (n) => ({
      x: Tensor.randn([n, 4]),
      at: Tensor.arange(0, n, 1, { dtype: "int64" }).remainder(2),
    }),
    batch: 0,
  },
  TransformerDecoderLayer: two(
    () => new nn.TransformerDecoderLayer(8, 2, { batchFirst: true, dimFeedforward: 16 }),
    (layer, a, b) => layer.forward(a, b) as Tensor,
  ),
  TransformerEncoder: on(5, 8)(() =>
    new nn.TransformerEncoder(
      () => new nn.TransformerEncoderLayer(8, 2, { batchFirst: true, dimFeedforward: 16 }),
      2,
      new nn.LayerNorm(8),
    )
  ),
  TransformerEncoderLayer: on(5, 8)(() =>
    new nn.TransformerEncoderLayer(8, 2, { batchFirst: true, dimFeedforward: 16 })
  ),
  Unflatten: row(() => new nn.Unflatten(1, [2, 3])),
  Unfold: image(() => new nn.Unfold(3, { padding: 1, stride: 2 })),
  Upsample: image(() => new nn.Upsample({ scaleFactor: 2, mode: "bilinear" })),
  ZeroPad1d: list(() => new nn.ZeroPad1d(1)),
  ZeroPad2d: image(() => new nn.ZeroPad2d([1, 2, 0, 1])),
  ZeroPad3d: volume(() => new nn.ZeroPad3d(1)),
};

/** Modules that are no layers by themselves: containers, losses. */
export const others: readonly string[] = [
  "BCELoss",
  "BCEWithLogitsLoss",
  "CTCLoss",
  "CosineEmbeddingLoss",
  "CrossEntropyLoss",
  "HuberLoss",
  "KLDivLoss",
  "L1Loss",
  "MSELoss",
  "ModuleDict",
  "ModuleList",
  "NLLLoss",
  "SmoothL1Loss",
  "TripletMarginLoss",
];

/** A layer that was saved, with inputs of another batch and what it makes of them. */
export interface SavedLayer {
  readonly path: string;
  readonly inputs: Record<string, Tensor>;
  readonly wanted: Record<string, Tensor>;
}

/** Saves a layer into a folder, for any batch. */
export async function saveLayer(name: string, folder: string): Promise<SavedLayer> {
  manualSeed(1);
  const { make, inputs, batch } = layers[name]!, layer = make().eval(), small = inputs(2);
  const path = `${folder}/${name.replaceAll(" ", "_")}.onnx`;
  const axes = Object.entries(small).map(([key, { shape }]) =>
    [key, shape.map((_, axis) => axis === batch ? "n" : null)] as const
  );
  await saveOnnx(path, layer, small, { dynamic: Object.fromEntries(axes) });
  const others = inputs(3), result = noGrad(() => layer.forward(...Object.values(others)));
  const wanted = result instanceof Tensor ? { output: result } : result as Record<string, Tensor>;
  return { path, inputs: others, wanted };
}
