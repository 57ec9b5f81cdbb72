/**
 * An option that does not exist is an error at every function that takes options. It is long because each
 * of them has its row.
 */
import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import {
  amp,
  Buffer,
  CommandQueue,
  compile,
  configureSignals,
  DataLoader,
  decodeImage,
  decodeNpz,
  distributed,
  encodeImage,
  encodeWav,
  func,
  grad,
  gradient,
  loadCheckpoint,
  loadCsv,
  loadIdx,
  loadImage,
  loadNpy,
  loadNpz,
  loadSafetensors,
  loadTorch,
  loadWav,
  manager,
  memory,
  nn,
  optim,
  parseCsv,
  PersistentBufferPool,
  PinnedBufferPool,
  profiler,
  randomSplit,
  rawKernel,
  saveFile,
  saveFileSync,
  saveImage,
  saveSafetensors,
  saveWav,
  SlabPool,
  Tensor,
  transforms,
  withDevice,
} from "../../mod.ts";
import { SharedQueue, snapshotHandles } from "../../backend/mod.ts";
import { SvmPool } from "../../memory/mod.ts";
import { CommandBuffer, Image, Sampler, SvmBuffer } from "@netcl/netcl/ffi";
import {
  DeviceMemory,
  DeviceSource,
  FaultPool,
  GuardPool,
  HostPool,
  LimitPool,
  PoolWrapper,
  Recorder,
  SimulatedSource,
} from "@netcl/netcl/memory";
import { modelCalls } from "../tensor/models/option_calls.ts";
import { numericCalls } from "../tensor/linalg/numeric_options.ts";
import { loadOnnx, saveOnnx } from "@netcl/netcl/models";
import { nearestName } from "../../ffi/host/wording.ts";
import { optionParameters } from "./option_parameters.ts";
import { type Call, rowsOf, type Untyped } from "./option_rows.ts";

// Options are looked at before anything is done, so nothing behind them need be real.
const nothing: Untyped = {};
const context: Untyped = { devices: [{}] };

function isRecord(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
const queue = CommandQueue.prototype, image = Image.prototype, svm = SvmBuffer.prototype;
const commands = CommandBuffer.prototype;
const host = (): HostPool => new HostPool();
const wrapped = new (class extends PoolWrapper<Untyped> {})(host());

withDevice("cpu", () => {
  const leaf = Tensor.ones([2, 2], { requiresGrad: true });
  const x = Tensor.ones([2, 2]), images = Tensor.ones([1, 1, 4, 4]);
  const imageLabels = Tensor.zeros([1], { dtype: "int32" });
  const labels = Tensor.zeros([2], { dtype: "int32" });
  const sgd = new optim.SGD([leaf], { lr: 0.1 });
  const attention = new nn.MultiheadAttention(2, 1);
  const encoder = new nn.TransformerEncoderLayer(2, 1, { dimFeedforward: 2 });
  const decoder = new nn.TransformerDecoderLayer(2, 1, { dimFeedforward: 2 });
  const samples = { length: 4, get: () => [] };

  /** Every function that takes options, by where it takes them. */
  const calls: Readonly<Record<string, Call>> = {
    ...rowsOf("Tensor::", images, [2], "avgPool2d maxPool2d"),
    ...rowsOf("Tensor::", images, [images], "conv1d conv2d conv3d convTranspose1d convTranspose2d"),
    ...rowsOf("Tensor::", images, [images], "convTranspose3d"),
    ...rowsOf("Tensor::", x, [], "cov diff nanToNum pdist print trapezoid"),
    ...rowsOf("Tensor::", x, [0], "all any argmax argmin argsort logSumExp max maxWithIndices"),
    ...rowsOf("Tensor::", x, [0], "mean median min minWithIndices nanmean nanmedian nansum norm"),
    ...rowsOf("Tensor::", x, [0], "prod sort std sum variance"),
    ...rowsOf("Tensor::", x, [0.5, 0], "nanquantile quantile"),
    ...rowsOf("Tensor::", x, [x], "allClose cdist isClose"),
    ...rowsOf("Tensor.", Tensor, [0, 1, [2]], "cauchy gumbel laplace logNormal normal"),
    ...rowsOf("Tensor::", x, [1], "multinomial searchsorted"),
    ...rowsOf("Tensor.", Tensor, [[1]], "fromHost ones rand randn zeros"),
    ...rowsOf("func.", func, [(x: Tensor) => x.sum()], "grad hessian jacfwd jacobian jacrev"),
    ...rowsOf("func.", func, [(x: Tensor) => x.sum()], "valueAndGrad vmap"),
    ...rowsOf("nn.init.", nn.init, [[2, 2]], "kaimingNormal kaimingUniform xavierNormal"),
    ...rowsOf("nn.init.", nn.init, [[2, 2]], "xavierUniform"),
    ...rowsOf("nn.init.", nn.init, [[2]], "normal uniform"),
    ...rowsOf("new nn.", nn, [2], "AvgPool1d AvgPool2d AvgPool3d BatchNorm1d BatchNorm2d"),
    ...rowsOf("new nn.", nn, [2], "BatchNorm3d InstanceNorm1d InstanceNorm2d InstanceNorm3d"),
    ...rowsOf("new nn.", nn, [2], "LayerNorm MaxPool1d MaxPool2d MaxPool3d RMSNorm"),
    ...rowsOf("new nn.", nn, [2], "RotaryEmbedding"),
    ...rowsOf("new nn.", nn, [], "BCELoss BCEWithLogitsLoss CTCLoss CosineEmbeddingLoss"),
    ...rowsOf("new nn.", nn, [], "CrossEntropyLoss HuberLoss KLDivLoss KeyValueCache L1Loss"),
    ...rowsOf("new nn.", nn, [], "MSELoss NLLLoss SmoothL1Loss TripletMarginLoss"),
    ...rowsOf("new nn.", nn, [1, 1, 3], "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d"),
    ...rowsOf("new nn.", nn, [1, 1, 3], "ConvTranspose3d"),
    ...rowsOf("new nn.", nn, [2, 2], "Embedding EmbeddingBag GRU GRUCell LSTM LSTMCell Linear RNN"),
    ...rowsOf("new nn.", nn, [2, 2], "RNNCell SwiGLU"),
    ...rowsOf("new nn.", nn, [2, 1], "MultiheadAttention TransformerDecoderLayer"),
    ...rowsOf("new nn.", nn, [2, 1], "TransformerEncoderLayer"),
    ...rowsOf("new optim.", optim, [[leaf]], "Adagrad Adam AdamW LBFGS Lion NAdam RAdam RMSprop"),
    ...rowsOf("new optim.", optim, [[leaf]], "SGD"),
    ...rowsOf("new optim.", optim, [sgd], "LinearLR PolynomialLR ReduceLROnPlateau"),
    ...rowsOf("nn.", nn, [x, x, x], "scaledDotProductAttention triplet"),
    ...rowsOf("nn.", nn, [x, x], "bce bceWithLogits cosineSimilarity huber infoNCE klDiv l1 mse"),
    ...rowsOf("nn.", nn, [x, x], "smoothL1"),
    ...rowsOf("nn.", nn, [x, labels], "crossEntropy nll"),
    "CommandBuffer::copy(2)": (o) => commands.copy.call(nothing, nothing, nothing, o),
    "CommandBuffer::fill(2)": (o) => commands.fill.call(nothing, nothing, nothing, o),
    "CommandBuffer::run(1)": (o) => commands.run.call(nothing, nothing, o),
    "CommandQueue::copy(2)": (o) => queue.copy.call(nothing, nothing, nothing, o),
    "CommandQueue::copyRect(2)": (o) => queue.copyRect.call(nothing, nothing, nothing, o),
    "CommandQueue::fill(2)": (o) => queue.fill.call(nothing, nothing, nothing, o),
    "CommandQueue::map(1)": (o) => queue.map.call(nothing, nothing, o),
    "CommandQueue::migrate(1)": (o) => queue.migrate.call(nothing, [], o),
    "CommandQueue::read(2)": (o) => queue.read.call(nothing, nothing, nothing, o),
    "CommandQueue::readRect(2)": (o) => queue.readRect.call(nothing, nothing, nothing, o),
    "CommandQueue::run(1)": (o) => queue.run.call(nothing, nothing, o),
    "CommandQueue::write(2)": (o) => queue.write.call(nothing, nothing, nothing, o),
    "CommandQueue::writeRect(2)": (o) => queue.writeRect.call(nothing, nothing, nothing, o),
    "DeviceMemory::allocate(1)": (o) => new DeviceMemory(host(), { name: "x" }).allocate(8, o),
    "DeviceMemory::allocateAsync(1)": (o) =>
      new DeviceMemory(host(), { name: "x" }).allocateAsync(8, o),
    "FaultPool::tryAllocate(1)": (o) => new FaultPool(host()).tryAllocate(8, o),
    "GuardPool.forHost(1)": (o) => GuardPool.forHost(host(), o),
    "GuardPool.forQueue(2)": (o) => GuardPool.forQueue(nothing, nothing, o),
    "GuardPool::tryAllocate(1)": (o) => GuardPool.forHost(host()).tryAllocate(8, o),
    "Image::copyFromBuffer(2)": (o) => image.copyFromBuffer.call(nothing, nothing, nothing, o),
    "Image::copyTo(2)": (o) => image.copyTo.call(nothing, nothing, nothing, o),
    "Image::copyToBuffer(2)": (o) => image.copyToBuffer.call(nothing, nothing, nothing, o),
    "Image::fill(2)": (o) => image.fill.call(nothing, nothing, new Float32Array(4), o),
    "Image::read(2)": (o) => image.read.call(nothing, nothing, nothing, o),
    "Image::write(2)": (o) => image.write.call(nothing, nothing, nothing, o),
    "Tensor::indexAdd(3)": (o) => x.indexAdd(0, labels, x, o),
    "compile(1)": (o) => compile((x: Tensor) => x, o),
    "gradient(1)": (o) => gradient(x, o),
    "Tensor.exponential(1)": (o) => Tensor.exponential([2], o),
    "Tensor.gamma(2)": (o) => Tensor.gamma(1, [2], o),
    "Tensor.beta(3)": (o) => Tensor.beta(1, 1, [2], o),
    "Tensor.dirichlet(2)": (o) => Tensor.dirichlet(leaf, [2, 2], o),
    "Tensor::interpolate(0)": (o) => images.interpolate({ size: 2, ...o }),
    "SharedQueue::run(1)": (o) => SharedQueue.prototype.run.call(nothing, nothing, o),
    "LimitPool::tryAllocate(1)": (o) => new LimitPool(host(), 100).tryAllocate(8, o),
    "MemoryFacade::record(0)": (o) => memory.record(o),
    "PinnedBufferPool::allocate(1)": (o) =>
      PinnedBufferPool.prototype.allocate.call(host() as Untyped, 8, o),
    "Pool::allocate(1)": (o) => host().allocate(8, o),
    "Pool::tryAllocate(1)": (o) => host().tryAllocate(8, o),
    "PoolBase::allocate(1)": (o) => host().allocate(8, o),
    "PoolBase::tryAllocate(1)": (o) => host().tryAllocate(8, o),
    "PoolWrapper::allocate(1)": (o) => wrapped.allocate(8, o),
    "PoolWrapper::tryAllocate(1)": (o) => wrapped.tryAllocate(8, o),
    "Tensor::crossEntropy(1)": (o) => x.crossEntropy(labels, o),
    "Tensor::topk(2)": (o) => x.topk(1, 0, o),
    "Tensor::bincount(0)": (o) => labels.bincount(o),
    "Tensor::histogram(1)": (o) => x.histogram(2, o),
    "Tensor::indexPut(2)": (o) => x.indexPut([labels], 1, o),
    "Tensor::repeatInterleave(2)": (o) => x.repeatInterleave(2, 0, o),
    "SvmBuffer::fill(2)": (o) => svm.fill.call(nothing, nothing, nothing, o),
    "SvmBuffer::map(1)": (o) => svm.map.call(nothing, nothing, o),
    "SvmPool::allocate(1)": (o) => SvmPool.prototype.allocate.call(host() as Untyped, 8, o),
    "Tensor.arange(1)": (o) => Tensor.arange(4, { ...o }),
    "Tensor.arange(2)": (o) => Tensor.arange(0, 4, { ...o }),
    "Tensor.arange(3)": (o) => Tensor.arange(0, 4, 1, o),
    "Tensor.eye(1)": (o) => Tensor.eye(2, o),
    "Tensor.fromBuffer(1)": (o) => Tensor.fromBuffer(nothing, { shape: [1], ...o }),
    "Tensor.full(2)": (o) => Tensor.full([1], 2, o),
    "Tensor.linspace(3)": (o) => Tensor.linspace(0, 1, 3, o),
    "Tensor.meshgrid(1)": (o) => Tensor.meshgrid([x], o),
    "Tensor.randint(3)": (o) => Tensor.randint(0, 2, [1], o),
    "Tensor.randperm(1)": (o) => Tensor.randperm(3, o),
    "Tensor::backward(0)": (o) =>
      // Nothing but an object is taken for options that stand alone.
      isRecord(o) ? leaf.sum().backward(o) : leaf.sum().backward(undefined, o),
    "Tensor::backward(1)": (o) => leaf.sum().backward(undefined, o),
    "configureSignals(0)": (o) => configureSignals(o),
    "profiler::table(0)": (o) => profiler.table(o),
    "distributed.ShardedOptimizer::step(0)": (o) =>
      new distributed.ShardedOptimizer([leaf], distributed.init(), (own) => new optim.SGD(own))
        .step(o),
    "distributed.init(0)": (o) => distributed.init(o),
    "grad(2)": (o) => grad([leaf.sum()], [leaf], o),
    "loadCheckpoint(2)": (o) => loadCheckpoint("missing.safetensors", {}, o),
    "loadCsv(1)": (o) => loadCsv("missing.csv", o),
    "loadIdx(1)": (o) => loadIdx("missing", o),
    "decodeNpz(1)": (o) => decodeNpz(new Uint8Array(), o),
    "loadNpy(1)": (o) => loadNpy("missing.npy", o),
    ...modelCalls,
    "loadNpz(1)": (o) => loadNpz("missing.npz", o),
    "decodeImage(1)": (o) => decodeImage(new Uint8Array(), o),
    "encodeImage(2)": (o) => encodeImage(nothing, "png", o),
    "encodeWav(1)": (o) => encodeWav(nothing, o),
    "loadImage(1)": (o) => loadImage("missing.png", o),
    "loadWav(1)": (o) => loadWav("missing.wav", o),
    "saveImage(2)": (o) => saveImage("never.png", x, o),
    "saveWav(2)": (o) => saveWav("never.wav", x, o as { sampleRate: number }),
    "loadOnnx(1)": (o) => loadOnnx("missing.onnx", o),
    "saveOnnx(3)": (o) => saveOnnx("never.onnx", new nn.Linear(2, 2), { x }, o),
    "loadTorch(1)": (o) => loadTorch("missing.pt", o),
    "loadSafetensors(1)": (o) => loadSafetensors("missing", o),
    "new Buffer(2)": (o) => new Buffer(context, 8, o),
    "new CommandQueue(2)": (o) => new CommandQueue(context, undefined, o),
    "new DataLoader(1)": (o) => new DataLoader(samples, o),
    "new DeviceMemory(1)": (o) => new DeviceMemory(host(), { name: "x", ...o }),
    "new DeviceSource(1)": (o) => new DeviceSource(context, o),
    "new GuardPool(2)": (o) => new GuardPool(host(), nothing, o),
    "new HostPool(0)": (o) => new HostPool(o),
    "new Image(1)": (o) => new Image(context, o),
    "new PersistentBufferPool(1)": (o) => new PersistentBufferPool(new SimulatedSource(), o),
    "new PinnedBufferPool(1)": (o) => new PinnedBufferPool(nothing, o),
    "new Recorder(0)": (o) => new Recorder(o),
    "new Sampler(1)": (o) => new Sampler(nothing, o),
    "new SimulatedSource(0)": (o) => new SimulatedSource(o),
    "new SlabPool(1)": (o) => new SlabPool(new SimulatedSource(), o),
    "SvmBuffer.isAvailable(1)": (o) => SvmBuffer.isAvailable(nothing, o),
    "new SvmBuffer(2)": (o) => new SvmBuffer(context, 8, o),
    "new SvmPool(1)": (o) => new SvmPool(nothing, o),
    "new amp.GradScaler(0)": (o) => new amp.GradScaler(o),
    "new distributed.DataParallel(2)": (o) =>
      new distributed.DataParallel(new nn.Linear(1, 1), distributed.init(), o),
    "new distributed.SyncBatchNorm(2)": (o) =>
      new distributed.SyncBatchNorm(2, distributed.init(), o),
    "new nn.GroupNorm(2)": (o) => new nn.GroupNorm(1, 2, o),
    "new nn.Upsample(0)": (o) => new nn.Upsample({ size: 2, ...o }),
    "new optim.AveragedModel(1)": (o) => new optim.AveragedModel(attention, o),
    "new optim.CosineAnnealingWarmRestarts(1)": (o) =>
      new optim.CosineAnnealingWarmRestarts(sgd, { t0: 3, ...o }),
    "new optim.CosineAnnealingLR(1)": (o) => new optim.CosineAnnealingLR(sgd, { tMax: 3, ...o }),
    "new optim.ExponentialLR(1)": (o) => new optim.ExponentialLR(sgd, { gamma: 0.5, ...o }),
    "new optim.MultiStepLR(1)": (o) => new optim.MultiStepLR(sgd, { milestones: [1], ...o }),
    "new optim.OneCycleLR(1)": (o) => new optim.OneCycleLR(sgd, { maxLr: 1, totalSteps: 9, ...o }),
    "new optim.StepLR(1)": (o) => new optim.StepLR(sgd, { stepSize: 1, ...o }),
    "nn.EmbeddingBag::forward(1)": (o) => new nn.EmbeddingBag(2, 2).forward(labels, o),
    "nn.Module::loadStateDict(1)": (o) => attention.loadStateDict(attention.stateDict(), o),
    "nn.MultiheadAttention::attend(3)": (o) => attention.attend(x, x, x, o),
    "nn.MultiheadAttention::forward(3)": (o) => attention.forward(x, x, x, o),
    "nn.TransformerDecoderLayer::forward(2)": (o) => decoder.forward(x, x, o),
    "nn.TransformerEncoderLayer::forward(1)": (o) => encoder.forward(x, o),
    "nn.buffer(1)": (o) => nn.buffer(x, o),
    "nn.cosineEmbedding(3)": (o) => nn.cosineEmbedding(x, x, x.sum(1), o),
    "nn.ctc(4)": (o) => nn.ctc(x, labels, [1], [1], o),
    "optim.Optimizer::addParamGroup(0)": (o) =>
      sgd.addParamGroup({ parameters: [Tensor.ones([1], { requiresGrad: true })], ...o }),
    "optim.Optimizer::step(0)": (o) => sgd.step(o),
    "optim.clipGradNorm(2)": (o) => optim.clipGradNorm([leaf], 1, o),
    "parseCsv(1)": (o) => parseCsv("1,2\n", o),
    "randomSplit(2)": (o) => randomSplit(samples, [2, 2], o),
    "rawKernel(1)": (o) =>
      rawKernel("k", { source: "", output: () => ({ shape: [1], dtype: "float32" }), ...o }),
    "saveFile(2)": (o) => saveFile("/nowhere/never", [], o),
    "saveFileSync(2)": (o) => saveFileSync("/nowhere/never", "", o),
    "saveSafetensors(2)": (o) => saveSafetensors("never.safetensors", {}, o),
    "transforms.randomCrop(2)": (o) => transforms.randomCrop(images, 2, o),
    "transforms.mixup(3)": (o) => transforms.mixup(images, imageLabels, 2, o),
    "transforms.cutmix(3)": (o) => transforms.cutmix(images, imageLabels, 2, o),
    ...numericCalls,
    "snapshotHandles(1)": (o) => snapshotHandles(manager.default("cpu"), o),
  };

  /** No options of a call: those of an error, and records that netcl itself makes. */
  const others = [
    ...["PoolObserver::allocated(0)", "PoolObserver::released(0)", "new InterruptedError(1)"],
    ...["new OutOfMemoryError(0)", "new optim.Optimizer(1)", "new optim.ParameterGroup(1)"],
  ];

  /** Options within options. */
  const inner: Readonly<Record<string, Call>> = {
    "a group of parameters": (o) => new optim.SGD([{ parameters: [leaf], ...o }]),
    "the workers of a DataLoader": (o) =>
      new DataLoader(samples, { workers: { module: new URL("file:///data.ts"), count: 1, ...o } }),
    "the layout of a box": (o) =>
      queue.writeRect.call(nothing, nothing, new Uint8Array(8), { region: [1, 1, 1], host: o }),
    "the format of an image": (o) =>
      new Image(context, { format: { order: "R", type: "FLOAT", ...o }, width: 1 }),
  };

  /** Runs a call on the built-in backend and waits for it, so that it rejects whatever it throws. */
  const settled = (call: Call, options: Untyped): Promise<unknown> =>
    Promise.try(() => withDevice("cpu", () => call(options)));

  Deno.test("every function with options is among those that are tried", async () => {
    const found = await optionParameters();
    assertEquals(found.filter((name) => !others.includes(name)), Object.keys(calls).sort());
  });

  for (const [name, call] of Object.entries({ ...calls, ...inner })) {
    Deno.test(`an unknown option is an error that lists the right ones: ${name}`, async () => {
      const error = await assertRejects(
        () => settled(call, { definitelyNotAnOption: 1 }),
        TypeError,
        'with the option "definitelyNotAnOption": the options are ',
      );
      assertEquals(/options are \w+/.test(error.message), true, error.message);
    });
  }

  for (const [name, call] of Object.entries(calls)) {
    // These calls add what is needed to what they are given, so that nothing is left of the value.
    if (String(call).includes("...o")) continue;
    Deno.test(`options are an object and nothing else: ${name}`, async () => {
      for (const wrong of [true, 1, "mean", [1], null, Tensor]) {
        await assertRejects(() => settled(call, wrong), TypeError, "pass an object of named");
      }
    });
  }

  Deno.test("a wrong name is told the right one", () => {
    const rows: [wrong: Untyped, call: Call, right: string][] = [
      [{ pading: 1 }, calls["new nn.Conv2d(3)"]!, "padding"],
      [{ epsilon: 1 }, calls["new nn.LayerNorm(1)"]!, "eps"],
      [{ batch_size: 1 }, calls["new DataLoader(1)"]!, "batchSize"],
      [{ num_workers: 1 }, calls["new DataLoader(1)"]!, "workers"],
      [{ keepdim: true }, calls["Tensor::sum(1)"]!, "keepDims"],
      [{ requires_grad: true }, calls["Tensor.zeros(1)"]!, "requiresGrad"],
      [{ label_smoothing: 0.1 }, calls["nn.crossEntropy(2)"]!, "labelSmoothing"],
      [{ weight_decay: 0.1 }, calls["new optim.Adam(1)"]!, "weightDecay"],
      [{ retain_graph: true }, calls["Tensor::backward(1)"]!, "retainGraph"],
      [{ init_scale: 2 }, calls["new amp.GradScaler(0)"]!, "initScale"],
    ];
    for (const [wrong, call, right] of rows) {
      const run = () => withDevice("cpu", () => call(wrong));
      assertThrows(run, TypeError, `(did you mean "${right}"?)`);
    }
  });
});

Deno.test("nearestName finds what was meant, and nothing where nothing was", () => {
  const names = ["lr", "momentum", "weightDecay", "eps", "positiveWeight"];
  assertEquals(nearestName("weightdecay", names), "weightDecay");
  assertEquals(nearestName("momentun", names), "momentum");
  assertEquals(nearestName("weight", names), "weightDecay");
  assertEquals(nearestName("definitelyNotAnOption", names), undefined);
  assertEquals(nearestName("", names), undefined);
});
