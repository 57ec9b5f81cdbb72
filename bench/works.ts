/** The works that are measured: one table, how their times are shown, and what is to be reached. */

/** The names of the peers; each is a program in peers/ but "machine", the limits of this machine. */
export type PeerName =
  | "numpy"
  | "torch"
  | "torch-compile"
  | "torch-graphs"
  | "onednn"
  | "tfjs"
  | "jax-js"
  | "onnxruntime"
  | "machine";

/** The target of netcl: a share of the best of some peers' speeds, or a figure at most or at least. */
export type Target =
  | { readonly of: readonly PeerName[]; readonly ratio: number }
  | { readonly atMost: number }
  | { readonly atLeast: number };

/** The classes of devices that have targets of their own. */
export type DeviceClass = "cl" | "cpu" | "gpu";

/** One row of the table. */
export interface Work {
  /** Its name among peers. */
  readonly kind: string;
  /** The number that the kind takes: a side, a count of elements, a batch. */
  readonly size: number;
  /** Told to netcl only: "compiled" for a step that is replayed. */
  readonly variant?: string;
  /** The result of {@linkcode figure}. */
  readonly unit: string;
  /** The figure of a call of so many seconds; of a count, the count. */
  readonly figure: (value: number) => number;
  readonly targets: Partial<Record<DeviceClass, readonly Target[]>>;
  /** Devices on which alone it is measured; by default all. */
  readonly devices?: readonly DeviceClass[];
}

/** A work's name, as `--only` and the table have it. */
export function nameOf({ kind, size, variant }: Pick<Work, "kind" | "size" | "variant">): string {
  const length = size >= 1e4 ? size.toExponential().replace("+", "") : String(size);
  return [kind, length, ...variant === undefined ? [] : [variant]].join(" ");
}

/** The words of a kind for people who have not read the table; `#` stands for the size. */
const words: Readonly<Record<string, string>> = {
  matmul: "float32 product, # x #",
  "matmul-float16": "float16 product, # x #",
  "packed-product": "a row times packed weights, # x #",
  chain: "relu(a * b + c) * d - e over # numbers",
  gelu: "GELU of # numbers",
  sum: "sum of # numbers",
  softmax: "softmax of # x #",
  layernorm: "layer norm of # x #",
  sort: "sort of # numbers",
  "scatter-add": "scatter-add of # numbers",
  conv2d: "3x3 convolution, batch #",
  "conv2d-backward": "3x3 convolution's gradients, batch #",
  mlp: "small MLP with Adam, batch #",
  cnn: "small CNN with Adam, batch #",
  gpt: "GPT training, float32, batch #",
  "gpt-bfloat16": "GPT training, bfloat16, batch #",
  resnet: "ResNet training, float32, batch #",
  "resnet-float16": "ResNet training, float16, batch #",
  embedding: "embedding training, # ids",
  lstm: "LSTM training, batch #",
  attention: "attention with gradients, float32, # positions",
  "attention-float16": "attention with gradients, float16, # positions",
  "attention-written": "attention written by hand, float32, # positions",
  "attention-written-bfloat16": "attention written by hand, bfloat16, # positions",
  "resnet18-inference": "ResNet-18 inference, # image",
  llama: "Llama training, float32, batch #",
  "llama-bfloat16": "Llama training, bfloat16, batch #",
  vit: "vision transformer, float32, batch #",
  "vit-bfloat16": "vision transformer, bfloat16, batch #",
  unet: "U-Net, float32, batch #",
  "unet-bfloat16": "U-Net, bfloat16, batch #",
  diffusion: "diffusion U-Net, float32, batch #",
  "diffusion-bfloat16": "diffusion U-Net, bfloat16, batch #",
  gat: "graph attention, # edges",
  "lstm-cells": "LSTM as a loop over its cell, batch #",
  "onnx-mobilenet": "ONNX graph: MobileNetV2, batch #",
  "onnx-resnet": "ONNX graph: ResNet-18, batch #",
  "onnx-encoder": "ONNX graph: BERT of 6 layers, 128 words, batch #",
  "onnx-text-detector": "ONNX graph: PP-OCRv4's text detector, 320 x 320, batch #",
  "onnx-load": "loading an ONNX graph of # MB",
  upload: "copy to the device, # MiB",
  adds: "# additions of 64 numbers",
  fft: "Fourier transform of # numbers",
  fft2: "Fourier transform of # x #",
  cholesky: "Cholesky factor, # x #",
  solve: "linear equations, # x #",
  qr: "QR factors, # x #",
  svd: "singular values and vectors, # x #",
  eigh: "symmetric eigenvalues and vectors, # x #",
  "solve-16": "# systems of 16 equations",
};

/** A work's name for readers of a page; a kind without words keeps its own name. */
export function labelOf(work: Pick<Work, "kind" | "size" | "variant">): string {
  const label = words[work.kind]?.replaceAll("#", work.size.toLocaleString("en"));
  if (label === undefined) return nameOf(work);
  const isTwice = work.variant === undefined &&
    works.some(({ kind, variant }) => kind === work.kind && variant === "compiled");
  return isTwice ? `${label}, not compiled` : label;
}

/** Bytes of an element of the formats that are measured. */
export const packedBytes: Readonly<Partial<Record<string, number>>> = {
  Q4_0: 18 / 32,
  Q8_0: 34 / 32,
  Q4_K: 144 / 256,
  Q6_K: 210 / 256,
};

/** A product of one row with packed weights, bound by their bytes; an H200's memory gives 4,800 GB/s. */
function packedProduct(format: string, size: number): Work {
  const bytes = size ** 2 * packedBytes[format]!;
  return {
    kind: "packed-product",
    size,
    variant: format,
    unit: "GB/s",
    figure: (seconds) => bytes / seconds / 1e9,
    targets: { gpu: size > 4096 ? [{ atLeast: 0.7 * 4800 }] : [] },
    ...size > 4096 && { devices: ["gpu"] },
  };
}

const of = (ratio: number, ...peers: PeerName[]): Target => ({ of: peers, ratio });
const twiceTfjs = [of(2, "tfjs")];
const native = [of(1, "numpy"), of(0.95, "onednn")];

function matmul(size: number, ...cl: Target[]): Work {
  const cpu = size >= 256 ? [...twiceTfjs, of(0.9, "numpy")] : twiceTfjs;
  const gpu = size === 4096 ? [{ atLeast: 30_000 }] : [];
  const rate = { unit: "GFLOP/s", figure: (seconds: number) => 2 * size ** 3 / seconds / 1e9 };
  return { kind: "matmul", size, ...rate, targets: { cl, cpu, gpu } };
}

/** A work bound by memory; `bytes` are those that it cannot do without. */
function streamed(kind: string, size: number, bytes: number, ...cl: Target[]): Work {
  const rate = { unit: "GB/s", figure: (seconds: number) => bytes / seconds / 1e9 };
  return { kind, size, ...rate, targets: { cl, cpu: twiceTfjs } };
}

/** A work of `size` in a compiled function, on a GPU beside PyTorch; `bytes` are those that it cannot do without. */
function compiledOnGPU(kind: string, size: number, bytes: number): Work {
  const targets = { gpu: [of(1, "torch")] };
  return { ...streamed(kind, size, bytes), variant: "compiled", targets, devices: ["gpu"] };
}

/** A million elements that are put in order, or added where indices say, on a GPU beside PyTorch. */
function placed(kind: string): Work {
  const rate = { unit: "us", figure: (seconds: number) => seconds * 1e6 };
  return { kind, size: 2 ** 20, ...rate, targets: { gpu: [of(1, "torch")] }, devices: ["gpu"] };
}

function convolution(kind: string, products: number, cl: Target, cpu: Target[]): Work {
  const flops = products * 2 * 32 * 28 * 28 * 32 * 16 * 9;
  const rate = { unit: "GFLOP/s", figure: (seconds: number) => flops / seconds / 1e9 };
  return { kind, size: 32, ...rate, targets: { cl: [cl], cpu } };
}

function steps(kind: string, size: number, cl: Target[], gpu: Target[] = []): Work[] {
  const rate = { unit: "us/step", figure: (seconds: number) => seconds * 1e6 };
  const eager = { kind, size, ...rate, targets: {} };
  return [eager, { ...eager, variant: "compiled", targets: { cl, cpu: twiceTfjs, gpu } }];
}

/** A training step of a model as people have them, with the batch or length that suits a device. */
function model(
  kind: string,
  sizes: { readonly cl?: number; readonly gpu: number },
  onGPU: number,
  onCPU = 1,
): Work[] {
  const rate = { kind, unit: "ms/step", figure: (seconds: number) => seconds * 1e3 };
  const gpu: Work = {
    ...rate,
    size: sizes.gpu,
    variant: "compiled",
    targets: { gpu: [of(onGPU, "torch")] },
    devices: ["gpu"],
  };
  if (sizes.cl === undefined) return [gpu];
  const targets = { cl: [of(onCPU, "torch", "torch-compile")], cpu: [of(0.7, "torch")] };
  return [gpu, { ...rate, size: sizes.cl, variant: "compiled", targets, devices: ["cl", "cpu"] }];
}

/** Linear algebra and Fourier transforms: a share of the better peer's speed, on a GPU of PyTorch's. */
function numeric(kind: string, size: number, ratio: number, onGPU = ratio): Work {
  const rate = { unit: "ms", figure: (seconds: number) => seconds * 1e3 };
  const targets = { cl: [of(ratio, "numpy", "torch")], gpu: [of(onGPU, "torch")] };
  return { kind, size, ...rate, targets, devices: ["cl", "gpu"] };
}

/** A graph of ONNX, for one input and for eight. */
function graph(kind: string): Work[] {
  const rate = { kind, unit: "ms", figure: (seconds: number) => seconds * 1e3 };
  const targets = { cl: [of(1, "onnxruntime")], cpu: [of(0.7, "onnxruntime")] };
  return [1, 8].map((size) => ({ ...rate, size, targets, devices: ["cl", "cpu"] }));
}

/** The first training step of a program with empty caches of kernels, from making the model to its end. */
function firstStep(kind: string, size: number): Work {
  const figure = (seconds: number): number => seconds;
  const targets = { cl: [{ atMost: 1 }], cpu: [{ atMost: 0.3 }] };
  return { kind: `first-${kind}`, size, unit: "s", figure, targets, devices: ["cl", "cpu"] };
}

/** Models as people have them, each with the sizes that suit devices. */
const models: readonly Work[] = [
  ...model("gpt", { cl: 12, gpu: 64 }, 1, 1.2),
  ...model("gpt-bfloat16", { gpu: 64 }, 1),
  ...model("resnet", { cl: 16, gpu: 128 }, 1, 1.2),
  ...model("resnet-float16", { gpu: 128 }, 1),
  ...model("embedding", { cl: 1024, gpu: 8192 }, 1, 1.2),
  ...model("lstm", { cl: 16, gpu: 64 }, 1, 1.2),
  ...model("attention", { cl: 256, gpu: 1024 }, 1, 1.2),
  ...model("attention-float16", { gpu: 1024 }, 0.8),
  ...model("resnet18-inference", { cl: 1, gpu: 1 }, 1, 1.2),
  ...model("attention-written", { cl: 256, gpu: 1024 }, 1, 1.2),
  ...model("attention-written-bfloat16", { gpu: 1024 }, 1),
  ...model("llama", { cl: 4, gpu: 4 }, 1, 1.2),
  ...model("llama-bfloat16", { gpu: 4 }, 1),
  ...model("vit", { cl: 8, gpu: 32 }, 1, 1.2),
  ...model("vit-bfloat16", { gpu: 32 }, 1),
  ...model("unet", { cl: 2, gpu: 8 }, 1, 1.2),
  ...model("unet-bfloat16", { gpu: 8 }, 1),
  ...model("diffusion", { cl: 4, gpu: 32 }, 1, 1.2),
  ...model("diffusion-bfloat16", { gpu: 32 }, 1),
  ...model("gat", { cl: 10_000, gpu: 200_000 }, 1, 1.2),
  ...model("lstm-cells", { cl: 16, gpu: 64 }, 1, 1.2),
];

function count(kind: string, variant: string, atMost: number): Work {
  const targets = { cl: [{ atMost }], gpu: [{ atMost }] };
  return { kind, size: 64, variant, unit: "per step", figure: (value) => value, targets };
}

/** The models that a device has, whose peaks of memory are asked for as well as their times. */
export function modelsOn(device: DeviceClass): readonly Work[] {
  return models.filter(({ devices }) => devices!.includes(device));
}

/** The works, by kind. Convolutions: a batch of 32, 16 channels of 28x28, 32 filters of 3x3. */
export const works: readonly Work[] = [
  matmul(64),
  matmul(128),
  matmul(256, ...native),
  matmul(512, ...native),
  matmul(1024, ...native, of(0.88, "machine")),
  matmul(2048, ...native),
  { ...matmul(4096), devices: ["gpu"] },
  streamed("chain", 1e4, 24e4),
  streamed("chain", 1e6, 24e6, of(1.5, "torch"), of(1.5, "jax-js")),
  streamed("chain", 1.6e7, 24 * 1.6e7, of(1, "machine")),
  {
    kind: "chain",
    size: 2 ** 24,
    unit: "us",
    figure: (seconds) => seconds * 1e6,
    targets: { gpu: [{ atMost: 130 }] },
    devices: ["gpu"],
  },
  streamed("gelu", 1e6, 8e6, of(1.2, "onednn")),
  streamed("gelu", 1.6e7, 8 * 1.6e7),
  streamed("sum", 1e4, 4e4),
  streamed("sum", 1e6, 4e6, of(0.9, "torch")),
  streamed("sum", 1.6e7, 4 * 1.6e7, of(0.9, "torch")),
  streamed("softmax", 1024, 8 * 1024 ** 2, of(1.2, "onednn")),
  streamed("layernorm", 1024, 8 * 1024 ** 2, of(0.9, "onednn")),
  compiledOnGPU("gelu", 1.6e7, 8 * 1.6e7),
  compiledOnGPU("softmax", 1024, 8 * 1024 ** 2),
  compiledOnGPU("layernorm", 1024, 8 * 1024 ** 2),
  placed("sort"),
  placed("scatter-add"),
  convolution("conv2d", 1, of(0.85, "onednn"), twiceTfjs),
  convolution("conv2d-backward", 2, of(1, "torch"), []),
  ...steps(
    "mlp",
    64,
    [of(1.9, "torch", "numpy"), of(25, "tfjs"), of(25, "jax-js")],
    [{ atMost: 300 }],
  ),
  ...steps("mlp", 512, [of(1.4, "torch", "numpy"), of(25, "tfjs"), of(25, "jax-js")]),
  ...steps("cnn", 64, [of(1.3, "torch")]),
  ...models,
  ...["mobilenet", "resnet", "encoder", "text-detector"].flatMap((name) => graph(`onnx-${name}`)),
  {
    kind: "onnx-load",
    size: 100,
    unit: "s",
    figure: (seconds) => seconds,
    targets: { cl: [{ atMost: 1 }], cpu: [{ atMost: 1 }] },
    devices: ["cl", "cpu"],
  },
  firstStep("gpt", 12),
  firstStep("resnet", 16),
  firstStep("lstm", 16),
  ...[4096, 8192].map((size): Work => ({
    kind: "matmul-float16",
    size,
    unit: "TFLOP/s",
    figure: (seconds) => 2 * size ** 3 / seconds / 1e12,
    targets: { gpu: [of(0.9, "torch")] },
    devices: ["gpu"],
  })),
  ...[4096, 16384].flatMap((size) => [
    packedProduct("Q4_0", size),
    packedProduct("Q8_0", size),
    packedProduct("Q4_K", size),
    packedProduct("Q6_K", size),
  ]),
  {
    kind: "adds",
    size: 1000,
    unit: "us each",
    figure: (seconds) => seconds * 1e3,
    targets: { cl: [{ atMost: 4 }], cpu: twiceTfjs },
  },
  count("mlp-kernels", "eager", 12),
  count("mlp-kernels", "compiled", 12),
  count("mlp-allocations", "eager", 0),
  count("mlp-allocations", "compiled", 0),
  {
    kind: "upload",
    size: 64,
    unit: "GB/s",
    figure: (seconds) => 64 * 2 ** 20 / seconds / 1e9,
    targets: { gpu: [{ atLeast: 45 }] },
    devices: ["cl", "gpu"],
  },
  numeric("fft", 2 ** 20, 0.7),
  numeric("fft2", 1000, 0.7),
  ...["cholesky", "solve", "qr"].map((kind) => numeric(kind, 2048, 0.6)),
  numeric("solve-16", 10_000, 0.6, 1),
  ...["svd", "eigh"].map((kind) => numeric(kind, 512, 0.3)),
];
