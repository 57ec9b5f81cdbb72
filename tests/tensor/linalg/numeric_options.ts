/** Calls with options of linear algebra, Fourier transforms and statistics, for options_test.ts. */
import {
  distributions,
  fft,
  histogramdd,
  linalg,
  nn,
  optim,
  percentile,
  Tensor,
} from "../../../mod.ts";

// deno-lint-ignore no-explicit-any -- a caller without types may pass anything
type Untyped = any;

const a = Tensor.eye(2), learned = { requiresGrad: true };

/** Each function with its options last. */
export const numericCalls: Readonly<Record<string, (options: Untyped) => unknown>> = {
  "fft.fft(1)": (o) => fft.fft(a, o),
  "fft.fft2(1)": (o) => fft.fft2(a, o),
  "fft.fftfreq(2)": (o) => fft.fftfreq(4, 1, o),
  "fft.fftn(1)": (o) => fft.fftn(a, o),
  "fft.bartlett(1)": (o) => fft.bartlett(4, o),
  "fft.dct(1)": (o) => fft.dct(a, { ...o }),
  "fft.dst(1)": (o) => fft.dst(a, o),
  "fft.hfft2(1)": (o) => fft.hfft2(a, o),
  "fft.hfftn(1)": (o) => fft.hfftn(a, o),
  "fft.idct(1)": (o) => fft.idct(a, { ...o }),
  "fft.idst(1)": (o) => fft.idst(a, o),
  "fft.ihfft2(1)": (o) => fft.ihfft2(a, o),
  "fft.ihfftn(1)": (o) => fft.ihfftn(a, o),
  "fft.irfft2(1)": (o) => fft.irfft2(a, o),
  "fft.kaiser(1)": (o) => fft.kaiser(4, o),
  "fft.rfft2(1)": (o) => fft.rfft2(a, o),
  "fft.hfft(1)": (o) => fft.hfft(a, o),
  "fft.ifft(1)": (o) => fft.ifft(a, o),
  "fft.ifft2(1)": (o) => fft.ifft2(a, o),
  "fft.ifftn(1)": (o) => fft.ifftn(a, o),
  "fft.ihfft(1)": (o) => fft.ihfft(a, o),
  "fft.irfft(1)": (o) => fft.irfft(a, o),
  "fft.irfftn(1)": (o) => fft.irfftn(a, o),
  "fft.rfft(1)": (o) => fft.rfft(a, o),
  "fft.rfftfreq(2)": (o) => fft.rfftfreq(4, 1, o),
  "fft.rfftn(1)": (o) => fft.rfftn(a, o),
  "fft.istft(1)": (o) => fft.istft(new fft.ComplexTensor(a, a), o),
  "fft.melFilters(0)": (o) => fft.melFilters(o),
  "fft.stft(1)": (o) => fft.stft(a, o),
  ...Object.fromEntries(
    (["Bernoulli", "Categorical", "Geometric", "OneHotCategorical"] as const).map((name) => [
      `new distributions.${name}(0)`,
      (o: Untyped) => new distributions[name]({ probs: a, ...o }),
    ]),
  ),
  "new distributions.Binomial(1)": (o) => new distributions.Binomial(2, { probs: a, ...o }),
  "new distributions.MultivariateNormal(1)": (o) =>
    new distributions.MultivariateNormal(a, { scaleTril: a, ...o }),
  "new distributions.NegativeBinomial(1)": (o) =>
    new distributions.NegativeBinomial(2, { probs: a.mul(0.5), ...o }),
  "Tensor.binomial(3)": (o) => Tensor.binomial(2, 0.5, [2], o),
  "Tensor.poisson(2)": (o) => Tensor.poisson(2, [2], o),
  "Tensor.studentT(2)": (o) => Tensor.studentT(2, [2], o),
  "Tensor.truncatedNormal(3)": (o) => Tensor.truncatedNormal(0, 1, [2], o),
  "new optim.Adafactor(1)": (o) => new optim.Adafactor([Tensor.ones([2], learned)], o),
  "new optim.Muon(1)": (o) => new optim.Muon([Tensor.ones([2, 2], learned)], o),
  "new nn.Fold(2)": (o) => new nn.Fold(3, 2, o),
  "new nn.Unfold(1)": (o) => new nn.Unfold(2, o),
  "nn.TransformerDecoder::forward(2)": (o) => {
    const make = () => new nn.TransformerDecoderLayer(2, 1, { dimFeedforward: 2 });
    return new nn.TransformerDecoder(make, 1).forward(a, a, o);
  },
  "nn.TransformerEncoder::forward(1)": (o) => {
    const make = () => new nn.TransformerEncoderLayer(2, 1, { dimFeedforward: 2 });
    return new nn.TransformerEncoder(make, 1).forward(a, o);
  },
  "nn.fold(3)": (o) => nn.fold(Tensor.ones([1, 4, 4]), 3, 2, o),
  "nn.gridSample(2)": (o) => nn.gridSample(Tensor.ones([1, 1, 2, 2]), Tensor.ones([1, 2, 2, 2]), o),
  "nn.unfold(2)": (o) => nn.unfold(Tensor.ones([1, 1, 3, 3]), 2, o),
  "histogramdd(2)": (o) => histogramdd(a, [2, 2], o),
  "percentile(2)": (o) => percentile(a, 50, o),
  "Tensor::mode(1)": (o) => a.mode(0, o),
  "Tensor::scatterReduce(3)": (o) => a.scatterReduce(0, a.cast("int32"), a, o as { reduce: "sum" }),
  "linalg.cholesky(1)": (o) => linalg.cholesky(a, o),
  "linalg.choleskyInverse(1)": (o) => linalg.choleskyInverse(a, o),
  "linalg.choleskySolve(2)": (o) => linalg.choleskySolve(a, a, o),
  "linalg.eigh(1)": (o) => linalg.eigh(a, o),
  "linalg.eigvalsh(1)": (o) => linalg.eigvalsh(a, o),
  "linalg.matrixNorm(2)": (o) => linalg.matrixNorm(a, "fro", o),
  "linalg.solve(2)": (o) => linalg.solve(a, a, o),
  "linalg.lstsq(2)": (o) => linalg.lstsq(a, a, o),
  "linalg.matrixRank(1)": (o) => linalg.matrixRank(a, o),
  "linalg.pinv(1)": (o) => linalg.pinv(a, o),
  "linalg.qr(1)": (o) => linalg.qr(a, o),
  "linalg.solveTriangular(2)": (o) => linalg.solveTriangular(a, a, o),
  "linalg.svd(1)": (o) => linalg.svd(a, o),
  "linalg.vectorNorm(1)": (o) => linalg.vectorNorm(a, o),
};
