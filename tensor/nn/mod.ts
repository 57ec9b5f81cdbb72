/**
 * Layers, models and losses. Names of parameters, layouts and initial values are PyTorch's, so that a
 * safetensors file written there loads here.
 *
 * This folder imports operations of tensors (`ops/`, `core/`, `autograd/`) and knows no backend's
 * kernels.
 *
 * @example A model, its state, and its use
 * ```ts
 * import { nn, noGrad, saveSafetensors, Tensor } from "@netcl/netcl";
 *
 * const model = new nn.Sequential(
 *   new nn.Conv2d(1, 8, 3, { padding: 1 }),
 *   new nn.BatchNorm2d(8),
 *   new nn.ReLU(),
 *   new nn.MaxPool2d(2),
 *   new nn.Flatten(),
 *   new nn.Linear(8 * 14 * 14, 10),
 * );
 * const path = await Deno.makeTempFile({ suffix: ".safetensors" });
 * await saveSafetensors(path, model.stateDict());
 * await Deno.remove(path);
 *
 * model.eval();
 * const digits = noGrad(() => model.forward(Tensor.rand([5, 1, 28, 28])).argmax(1));
 * console.assert((await digits.toHost()).length === 5);
 * ```
 *
 * @module
 */
export { type AnyModule, Module } from "./module/module.ts";
export { type LoadReport } from "./module/state.ts";
export { buffer, parameter } from "./module/parameter.ts";
/** Initial values of weights. */
export * as init from "./module/init.ts";
export { ModuleDict, ModuleList } from "./module/containers.ts";
export { Sequential } from "./module/sequential.ts";
export { Linear } from "./layers/linear.ts";
export {
  Conv1d,
  Conv2d,
  type Conv2dLayerOptions,
  Conv3d,
  type ConvLayerOptions,
  ConvTranspose1d,
  ConvTranspose2d,
  ConvTranspose3d,
  type ConvTransposeLayerOptions,
} from "./layers/convolution.ts";
export { AdaptiveAvgPool2d, AvgPool2d, MaxPool2d } from "./pooling/pooling.ts";
export { AvgPool1d, AvgPool3d, MaxPool1d, MaxPool3d } from "./pooling/sequence_pooling.ts";
export {
  BatchNorm1d,
  BatchNorm2d,
  BatchNorm3d,
  type BatchNormOptions,
} from "./normalization/batch_norm.ts";
export { LayerNorm, type LayerNormOptions } from "./normalization/layer_norm.ts";
export { RMSNorm, type RMSNormOptions } from "./normalization/rms_norm.ts";
export {
  GRU,
  LSTM,
  type RecurrentOptions,
  type RecurrentResult,
  RNN,
  type RNNOptions,
} from "./recurrent/recurrent.ts";
export { GRUCell, LSTMCell, RNNCell, type RNNCellOptions } from "./recurrent/recurrent_cells.ts";
export {
  GroupNorm,
  type GroupNormOptions,
  InstanceNorm1d,
  InstanceNorm2d,
  InstanceNorm3d,
} from "./normalization/group_norm.ts";
export { PixelShuffle, PixelUnshuffle, Upsample } from "./layers/resampling.ts";
export {
  ConstantPad1d,
  ConstantPad2d,
  ConstantPad3d,
  ReflectionPad1d,
  ReflectionPad2d,
  ReflectionPad3d,
  ReplicationPad1d,
  ReplicationPad2d,
  ReplicationPad3d,
  ZeroPad1d,
  ZeroPad2d,
  ZeroPad3d,
} from "./layers/padding.ts";
export { type BagOptions, EmbeddingBag, type EmbeddingBagOptions } from "./layers/embedding_bag.ts";
export { Embedding } from "./layers/embedding.ts";
export { Dropout, Dropout1d, Dropout2d, Dropout3d } from "./layers/dropout.ts";
export {
  type AttentionOptions,
  type AttentionResult,
  MultiheadAttention,
  type MultiheadAttentionOptions,
} from "./attention/multihead_attention.ts";
export {
  scaledDotProductAttention,
  type ScaledDotProductAttentionOptions,
} from "./attention/scaled_dot_product_attention.ts";
export {
  type DecoderOptions,
  TransformerDecoderLayer,
  TransformerEncoderLayer,
  type TransformerLayerOptions,
} from "./attention/transformer_layers.ts";
export { TransformerDecoder, TransformerEncoder } from "./attention/transformer_stacks.ts";
export { RotaryEmbedding, type RotaryEmbeddingOptions } from "./attention/rotary_embedding.ts";
export { SwiGLU } from "./attention/swiglu.ts";
export {
  type CachedKeys,
  KeyValueCache,
  type KeyValueCacheOptions,
} from "./attention/key_value_cache.ts";
export {
  CELU,
  celu,
  GLU,
  glu,
  Hardshrink,
  hardshrink,
  Hardtanh,
  hardtanh,
  ReLU6,
  relu6,
  SELU,
  selu,
  Softshrink,
  softshrink,
  Softsign,
  softsign,
  Tanhshrink,
  tanhshrink,
  Threshold,
  threshold,
} from "./layers/further_activations.ts";
export { Flatten, Unflatten } from "./layers/flatten.ts";
export { Fold, fold, type FoldOptions, Unfold, unfold } from "./pooling/folding.ts";
export { affineGrid, gridSample, type GridSampleOptions } from "./layers/grid_sample.ts";
export {
  ELU,
  GELU,
  Hardsigmoid,
  Hardswish,
  Identity,
  LeakyReLU,
  LogSoftmax,
  Mish,
  PReLU,
  ReLU,
  Sigmoid,
  SiLU,
  Softmax,
  Softplus,
  Tanh,
} from "./layers/activations.ts";
export {
  cosineEmbedding,
  type CosineEmbeddingOptions,
  cosineSimilarity,
  type CosineSimilarityOptions,
  infoNCE,
  type InfoNCEOptions,
  triplet,
  type TripletOptions,
} from "./losses/metric_losses.ts";
export {
  bce,
  type BCEProbabilityOptions,
  klDiv,
  type KLDivOptions,
  nll,
  type NLLOptions,
  smoothL1,
  type SmoothL1Options,
} from "./losses/probability_losses.ts";
export { ctc, type CTCOptions, type Lengths } from "./losses/ctc.ts";
export {
  type BCEOptions,
  bceWithLogits,
  crossEntropy,
  huber,
  type HuberOptions,
  l1,
  type LossOptions,
  mse,
} from "./losses/losses.ts";
export {
  BCELoss,
  BCEWithLogitsLoss,
  CosineEmbeddingLoss,
  CrossEntropyLoss,
  CTCLoss,
  HuberLoss,
  KLDivLoss,
  L1Loss,
  MSELoss,
  NLLLoss,
  SmoothL1Loss,
  TripletMarginLoss,
} from "./losses/loss_modules.ts";
