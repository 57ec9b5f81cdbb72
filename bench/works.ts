/** What is measured: one table of works, how their times are shown, and what is to be reached. */

/** The names of the peers; each is a program in peers/ but "machine", the limits of this machine. */
export type PeerName =
  | "numpy"
  | "torch"
  | "torch-compile"
  | "onednn"
  | "tfjs"
  | "jax-js"
  | "machine";

/** What netcl is to reach: a share of the best of some peers' speeds, or a figure at most or at least. */
export type Target =
  | { readonly of: readonly PeerName[]; readonly ratio: number }
  | { readonly atMost: number }
  | { readonly atLeast: number };

/** The classes of devices that have targets of their own. */
export type DeviceClass = "cl" | "cpu" | "gpu";

/** One row of the table. */
export interface Work {
  /** What peers know it by. */
  readonly kind: string;
  /** The number that the kind takes: a side, a count of elements, a batch. */
  readonly size: number;
  /** Told to netcl only: "compiled" for a step that is replayed. */
  readonly variant?: string;
  /** What {@linkcode figure} gives. */
  readonly unit: string;
  /** The figure of a call of so many seconds; of a count, the count. */
  readonly figure: (value: number) => number;
  readonly targets: Partial<Record<DeviceClass, readonly Target[]>>;
  /** Devices on which alone it is measured; by default all. */
  readonly devices?: readonly DeviceClass[];
}

/** A work's name, as `--only` and the table have it. */
export function nameOf({ kind, size, variant }: Work): string {
  const length = size >= 1e4 ? size.toExponential().replace("+", "") : String(size);
  return [kind, length, ...variant === undefined ? [] : [variant]].join(" ");
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

/** The first training step of a program with empty caches of kernels, from making the model to its end. */
function firstStep(kind: string, size: number, atMost: number): Work {
  const figure = (seconds: number): number => seconds;
  const targets = { cl: [{ atMost }], cpu: [{ atMost: 1 }] };
  return { kind: `first-${kind}`, size, unit: "s", figure, targets, devices: ["cl", "cpu"] };
}

function count(kind: string, variant: string, atMost: number): Work {
  const targets = { cl: [{ atMost }], gpu: [{ atMost }] };
  return { kind, size: 64, variant, unit: "per step", figure: (value) => value, targets };
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
  ...model("gpt", { cl: 12, gpu: 64 }, 1, 1.2),
  ...model("gpt-bfloat16", { gpu: 64 }, 1),
  ...model("resnet", { cl: 16, gpu: 128 }, 1, 1.2),
  ...model("resnet-float16", { gpu: 128 }, 1),
  ...model("embedding", { cl: 1024, gpu: 8192 }, 1, 1.2),
  ...model("lstm", { cl: 16, gpu: 64 }, 1, 1.2),
  ...model("attention", { cl: 256, gpu: 1024 }, 1, 1.2),
  ...model("attention-float16", { gpu: 1024 }, 0.8),
  ...model("resnet18-inference", { cl: 1, gpu: 1 }, 1, 1.2),
  firstStep("gpt", 12, 4),
  firstStep("resnet", 16, 6),
  firstStep("lstm", 16, 3),
  ...[4096, 8192].map((size): Work => ({
    kind: "matmul-float16",
    size,
    unit: "TFLOP/s",
    figure: (seconds) => 2 * size ** 3 / seconds / 1e12,
    targets: { gpu: [of(0.9, "torch")] },
    devices: ["gpu"],
  })),
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
];
