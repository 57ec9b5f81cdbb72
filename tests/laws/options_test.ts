/**
 * An option that does not exist is an error at every function that takes options. It is long because each
 * of them has its row.
 */
import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import {
  amp,
  Buffer,
  CommandQueue,
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

// deno-lint-ignore no-explicit-any -- what a caller without types may pass
type Untyped = any;
type Call = (options: Untyped) => unknown;

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
    "Tensor::avgPool2d(1)": (o) => images.avgPool2d(2, o),
    "Tensor::conv1d(1)": (o) => images.conv1d(images, o),
    "Tensor::conv2d(1)": (o) => images.conv2d(images, o),
    "Tensor::conv3d(1)": (o) => images.conv3d(images, o),
    "Tensor::convTranspose1d(1)": (o) => images.convTranspose1d(images, o),
    "Tensor::convTranspose2d(1)": (o) => images.convTranspose2d(images, o),
    "Tensor::convTranspose3d(1)": (o) => images.convTranspose3d(images, o),
    "Tensor::cov(0)": (o) => x.cov(o),
    "Tensor::diff(0)": (o) => x.diff(o),
    "Tensor::median(1)": (o) => x.median(0, o),
    "Tensor::nanmedian(1)": (o) => x.nanmedian(0, o),
    "Tensor::nanToNum(0)": (o) => x.nanToNum(o),
    "Tensor::nanmean(1)": (o) => x.nanmean(0, o),
    "Tensor::nansum(1)": (o) => x.nansum(0, o),
    "Tensor::quantile(2)": (o) => x.quantile(0.5, 0, o),
    "Tensor::nanquantile(2)": (o) => x.nanquantile(0.5, 0, o),
    "Tensor::pdist(0)": (o) => x.pdist(o),
    "Tensor::cdist(1)": (o) => x.cdist(x, o),
    "Tensor::indexAdd(3)": (o) => x.indexAdd(0, labels, x, o),
    "gradient(1)": (o) => gradient(x, o),
    "Tensor::trapezoid(0)": (o) => x.trapezoid(o),
    "Tensor.exponential(1)": (o) => Tensor.exponential([2], o),
    "Tensor.gamma(2)": (o) => Tensor.gamma(1, [2], o),
    "Tensor.beta(3)": (o) => Tensor.beta(1, 1, [2], o),
    "Tensor.dirichlet(2)": (o) => Tensor.dirichlet(leaf, [2, 2], o),
    "Tensor.logNormal(3)": (o) => Tensor.logNormal(0, 1, [2], o),
    "Tensor.laplace(3)": (o) => Tensor.laplace(0, 1, [2], o),
    "Tensor.cauchy(3)": (o) => Tensor.cauchy(0, 1, [2], o),
    "Tensor.gumbel(3)": (o) => Tensor.gumbel(0, 1, [2], o),
    "Tensor::interpolate(0)": (o) => images.interpolate({ size: 2, ...o }),
    "Tensor::maxPool2d(1)": (o) => images.maxPool2d(2, o),
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
    "Tensor::allClose(1)": (o) => x.allClose(x, o),
    "Tensor::isClose(1)": (o) => x.isClose(x, o),
    "Tensor::print(0)": (o) => x.print(o),
    "Tensor::all(1)": (o) => x.all(0, o),
    "Tensor::any(1)": (o) => x.any(0, o),
    "Tensor::argmax(1)": (o) => x.argmax(0, o),
    "Tensor::argmin(1)": (o) => x.argmin(0, o),
    "Tensor::logSumExp(1)": (o) => x.logSumExp(0, o),
    "Tensor::max(1)": (o) => x.max(0, o),
    "Tensor::maxWithIndices(1)": (o) => x.maxWithIndices(0, o),
    "Tensor::mean(1)": (o) => x.mean(0, o),
    "Tensor::min(1)": (o) => x.min(0, o),
    "Tensor::minWithIndices(1)": (o) => x.minWithIndices(0, o),
    "Tensor::norm(1)": (o) => x.norm(0, o),
    "Tensor::prod(1)": (o) => x.prod(0, o),
    "Tensor::argsort(1)": (o) => x.argsort(0, o),
    "Tensor::sort(1)": (o) => x.sort(0, o),
    "Tensor::topk(2)": (o) => x.topk(1, 0, o),
    "Tensor::std(1)": (o) => x.std(0, o),
    "Tensor::sum(1)": (o) => x.sum(0, o),
    "Tensor::variance(1)": (o) => x.variance(0, o),
    "Tensor.normal(3)": (o) => Tensor.normal(0, 1, [2], o),
    "Tensor::bincount(0)": (o) => labels.bincount(o),
    "Tensor::histogram(1)": (o) => x.histogram(2, o),
    "Tensor::indexPut(2)": (o) => x.indexPut([labels], 1, o),
    "Tensor::multinomial(1)": (o) => x.multinomial(1, o),
    "Tensor::repeatInterleave(2)": (o) => x.repeatInterleave(2, 0, o),
    "Tensor::searchsorted(1)": (o) => x.searchsorted(1, o),
    "SvmBuffer::fill(2)": (o) => svm.fill.call(nothing, nothing, nothing, o),
    "SvmBuffer::map(1)": (o) => svm.map.call(nothing, nothing, o),
    "SvmPool::allocate(1)": (o) => SvmPool.prototype.allocate.call(host() as Untyped, 8, o),
    "Tensor.arange(1)": (o) => Tensor.arange(4, { ...o }),
    "Tensor.arange(2)": (o) => Tensor.arange(0, 4, { ...o }),
    "Tensor.arange(3)": (o) => Tensor.arange(0, 4, 1, o),
    "Tensor.eye(1)": (o) => Tensor.eye(2, o),
    "Tensor.fromBuffer(1)": (o) => Tensor.fromBuffer(nothing, { shape: [1], ...o }),
    "Tensor.fromHost(1)": (o) => Tensor.fromHost([1], o),
    "Tensor.full(2)": (o) => Tensor.full([1], 2, o),
    "Tensor.linspace(3)": (o) => Tensor.linspace(0, 1, 3, o),
    "Tensor.meshgrid(1)": (o) => Tensor.meshgrid([x], o),
    "Tensor.ones(1)": (o) => Tensor.ones([1], o),
    "Tensor.rand(1)": (o) => Tensor.rand([1], o),
    "Tensor.randint(3)": (o) => Tensor.randint(0, 2, [1], o),
    "Tensor.randn(1)": (o) => Tensor.randn([1], o),
    "Tensor.randperm(1)": (o) => Tensor.randperm(3, o),
    "Tensor.zeros(1)": (o) => Tensor.zeros([1], o),
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
    "func.grad(1)": (o) => func.grad((x: Tensor) => x.sum(), o),
    "func.hessian(1)": (o) => func.hessian((x: Tensor) => x.sum(), o),
    "func.jacfwd(1)": (o) => func.jacfwd((x: Tensor) => x.sum(), o),
    "func.jacobian(1)": (o) => func.jacobian((x: Tensor) => x.sum(), o),
    "func.jacrev(1)": (o) => func.jacrev((x: Tensor) => x.sum(), o),
    "func.valueAndGrad(1)": (o) => func.valueAndGrad((x: Tensor) => x.sum(), o),
    "func.vmap(1)": (o) => func.vmap((x: Tensor) => x.sum(), o),
    "grad(2)": (o) => grad([leaf.sum()], [leaf], o),
    "nn.init.kaimingNormal(1)": (o) => nn.init.kaimingNormal([2, 2], o),
    "nn.init.kaimingUniform(1)": (o) => nn.init.kaimingUniform([2, 2], o),
    "nn.init.normal(1)": (o) => nn.init.normal([2], o),
    "nn.init.uniform(1)": (o) => nn.init.uniform([2], o),
    "nn.init.xavierNormal(1)": (o) => nn.init.xavierNormal([2, 2], o),
    "nn.init.xavierUniform(1)": (o) => nn.init.xavierUniform([2, 2], o),
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
    "new nn.AvgPool2d(1)": (o) => new nn.AvgPool2d(2, o),
    "new nn.BCELoss(0)": (o) => new nn.BCELoss(o),
    "new nn.CTCLoss(0)": (o) => new nn.CTCLoss(o),
    "new nn.CosineEmbeddingLoss(0)": (o) => new nn.CosineEmbeddingLoss(o),
    "new nn.KLDivLoss(0)": (o) => new nn.KLDivLoss(o),
    "new nn.NLLLoss(0)": (o) => new nn.NLLLoss(o),
    "new nn.SmoothL1Loss(0)": (o) => new nn.SmoothL1Loss(o),
    "new nn.TripletMarginLoss(0)": (o) => new nn.TripletMarginLoss(o),
    "new nn.BCEWithLogitsLoss(0)": (o) => new nn.BCEWithLogitsLoss(o),
    "new nn.BatchNorm1d(1)": (o) => new nn.BatchNorm1d(2, o),
    "new nn.BatchNorm2d(1)": (o) => new nn.BatchNorm2d(2, o),
    "new nn.BatchNorm3d(1)": (o) => new nn.BatchNorm3d(2, o),
    "new nn.Conv1d(3)": (o) => new nn.Conv1d(1, 1, 3, o),
    "new nn.Conv2d(3)": (o) => new nn.Conv2d(1, 1, 3, o),
    "new nn.Conv3d(3)": (o) => new nn.Conv3d(1, 1, 3, o),
    "new nn.ConvTranspose1d(3)": (o) => new nn.ConvTranspose1d(1, 1, 3, o),
    "new nn.ConvTranspose2d(3)": (o) => new nn.ConvTranspose2d(1, 1, 3, o),
    "new nn.ConvTranspose3d(3)": (o) => new nn.ConvTranspose3d(1, 1, 3, o),
    "new nn.CrossEntropyLoss(0)": (o) => new nn.CrossEntropyLoss(o),
    "new nn.Embedding(2)": (o) => new nn.Embedding(2, 2, o),
    "new nn.EmbeddingBag(2)": (o) => new nn.EmbeddingBag(2, 2, o),
    "new nn.GroupNorm(2)": (o) => new nn.GroupNorm(1, 2, o),
    "new nn.HuberLoss(0)": (o) => new nn.HuberLoss(o),
    "new nn.InstanceNorm1d(1)": (o) => new nn.InstanceNorm1d(2, o),
    "new nn.InstanceNorm2d(1)": (o) => new nn.InstanceNorm2d(2, o),
    "new nn.InstanceNorm3d(1)": (o) => new nn.InstanceNorm3d(2, o),
    "new nn.L1Loss(0)": (o) => new nn.L1Loss(o),
    "new nn.LayerNorm(1)": (o) => new nn.LayerNorm(2, o),
    "new nn.Linear(2)": (o) => new nn.Linear(2, 2, o),
    "new nn.MSELoss(0)": (o) => new nn.MSELoss(o),
    "new nn.AvgPool1d(1)": (o) => new nn.AvgPool1d(2, o),
    "new nn.AvgPool3d(1)": (o) => new nn.AvgPool3d(2, o),
    "new nn.MaxPool1d(1)": (o) => new nn.MaxPool1d(2, o),
    "new nn.MaxPool3d(1)": (o) => new nn.MaxPool3d(2, o),
    "new nn.MaxPool2d(1)": (o) => new nn.MaxPool2d(2, o),
    "new nn.GRU(2)": (o) => new nn.GRU(2, 2, o),
    "new nn.GRUCell(2)": (o) => new nn.GRUCell(2, 2, o),
    "new nn.KeyValueCache(0)": (o) => new nn.KeyValueCache(o),
    "new nn.LSTM(2)": (o) => new nn.LSTM(2, 2, o),
    "new nn.LSTMCell(2)": (o) => new nn.LSTMCell(2, 2, o),
    "new nn.RMSNorm(1)": (o) => new nn.RMSNorm(2, o),
    "new nn.RNN(2)": (o) => new nn.RNN(2, 2, o),
    "new nn.RNNCell(2)": (o) => new nn.RNNCell(2, 2, o),
    "new nn.RotaryEmbedding(1)": (o) => new nn.RotaryEmbedding(2, o),
    "new nn.SwiGLU(2)": (o) => new nn.SwiGLU(2, 2, o),
    "new nn.TransformerDecoderLayer(2)": (o) => new nn.TransformerDecoderLayer(2, 1, o),
    "new nn.TransformerEncoderLayer(2)": (o) => new nn.TransformerEncoderLayer(2, 1, o),
    "new nn.MultiheadAttention(2)": (o) => new nn.MultiheadAttention(2, 1, o),
    "new nn.Upsample(0)": (o) => new nn.Upsample({ size: 2, ...o }),
    "new optim.AveragedModel(1)": (o) => new optim.AveragedModel(attention, o),
    "new optim.Adagrad(1)": (o) => new optim.Adagrad([leaf], o),
    "new optim.Adam(1)": (o) => new optim.Adam([leaf], o),
    "new optim.AdamW(1)": (o) => new optim.AdamW([leaf], o),
    "new optim.CosineAnnealingWarmRestarts(1)": (o) =>
      new optim.CosineAnnealingWarmRestarts(sgd, { t0: 3, ...o }),
    "new optim.CosineAnnealingLR(1)": (o) => new optim.CosineAnnealingLR(sgd, { tMax: 3, ...o }),
    "new optim.ExponentialLR(1)": (o) => new optim.ExponentialLR(sgd, { gamma: 0.5, ...o }),
    "new optim.LinearLR(1)": (o) => new optim.LinearLR(sgd, o),
    "new optim.MultiStepLR(1)": (o) => new optim.MultiStepLR(sgd, { milestones: [1], ...o }),
    "new optim.LBFGS(1)": (o) => new optim.LBFGS([leaf], o),
    "new optim.Lion(1)": (o) => new optim.Lion([leaf], o),
    "new optim.NAdam(1)": (o) => new optim.NAdam([leaf], o),
    "new optim.OneCycleLR(1)": (o) => new optim.OneCycleLR(sgd, { maxLr: 1, totalSteps: 9, ...o }),
    "new optim.PolynomialLR(1)": (o) => new optim.PolynomialLR(sgd, o),
    "new optim.RAdam(1)": (o) => new optim.RAdam([leaf], o),
    "new optim.RMSProp(1)": (o) => new optim.RMSProp([leaf], o),
    "new optim.ReduceLROnPlateau(1)": (o) => new optim.ReduceLROnPlateau(sgd, o),
    "new optim.SGD(1)": (o) => new optim.SGD([leaf], o),
    "new optim.StepLR(1)": (o) => new optim.StepLR(sgd, { stepSize: 1, ...o }),
    "nn.EmbeddingBag::forward(1)": (o) => new nn.EmbeddingBag(2, 2).forward(labels, o),
    "nn.Module::loadStateDict(1)": (o) => attention.loadStateDict(attention.stateDict(), o),
    "nn.MultiheadAttention::attend(3)": (o) => attention.attend(x, x, x, o),
    "nn.MultiheadAttention::forward(3)": (o) => attention.forward(x, x, x, o),
    "nn.TransformerDecoderLayer::forward(2)": (o) => decoder.forward(x, x, o),
    "nn.TransformerEncoderLayer::forward(1)": (o) => encoder.forward(x, o),
    "nn.scaledDotProductAttention(3)": (o) => nn.scaledDotProductAttention(x, x, x, o),
    "nn.bce(2)": (o) => nn.bce(x, x, o),
    "nn.bceWithLogits(2)": (o) => nn.bceWithLogits(x, x, o),
    "nn.buffer(1)": (o) => nn.buffer(x, o),
    "nn.cosineEmbedding(3)": (o) => nn.cosineEmbedding(x, x, x.sum(1), o),
    "nn.cosineSimilarity(2)": (o) => nn.cosineSimilarity(x, x, o),
    "nn.crossEntropy(2)": (o) => nn.crossEntropy(x, labels, o),
    "nn.ctc(4)": (o) => nn.ctc(x, labels, [1], [1], o),
    "nn.huber(2)": (o) => nn.huber(x, x, o),
    "nn.infoNCE(2)": (o) => nn.infoNCE(x, x, o),
    "nn.klDiv(2)": (o) => nn.klDiv(x, x, o),
    "nn.l1(2)": (o) => nn.l1(x, x, o),
    "nn.mse(2)": (o) => nn.mse(x, x, o),
    "nn.nll(2)": (o) => nn.nll(x, labels, o),
    "nn.smoothL1(2)": (o) => nn.smoothL1(x, x, o),
    "nn.triplet(3)": (o) => nn.triplet(x, x, x, o),
    "optim.Optimizer::addParamGroup(0)": (o) =>
      sgd.addParamGroup({ parameters: [Tensor.ones([1], { requiresGrad: true })], ...o }),
    "optim.Optimizer::step(0)": (o) => sgd.step(o),
    "optim.clipGradNorm(2)": (o) => optim.clipGradNorm([leaf], 1, o),
    "parseCsv(1)": (o) => parseCsv("1,2\n", o),
    "randomSplit(2)": (o) => randomSplit(samples, [2, 2], o),
    "rawKernel(1)": (o) =>
      rawKernel("k", {
        source: "",
        output: () => ({ shape: [1], dtype: "float32" as const }),
        ...o,
      }),
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
    "PoolObserver::allocated(0)",
    "PoolObserver::released(0)",
    "new InterruptedError(1)",
    "new OutOfMemoryError(0)",
    "new optim.Optimizer(1)",
    "new optim.ParameterGroup(1)",
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
      assertThrows(
        () => withDevice("cpu", () => call(wrong)),
        TypeError,
        `(did you mean "${right}"?)`,
      );
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
