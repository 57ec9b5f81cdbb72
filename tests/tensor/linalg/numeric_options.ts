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
import { type Call, rowsOf, type Untyped } from "../../laws/option_rows.ts";

const a = Tensor.eye(2), learned = { requiresGrad: true };

/** Each function with its options last. */
export const numericCalls: Readonly<Record<string, Call>> = {
  ...rowsOf("fft.", fft, [a], "dst fft fft2 fftn hfft hfft2 hfftn idst ifft ifft2 ifftn ihfft"),
  ...rowsOf("fft.", fft, [a], "ihfft2 ihfftn irfft irfft2 irfftn rfft rfft2 rfftn stft"),
  ...rowsOf("fft.", fft, [4, 1], "fftfreq rfftfreq"),
  ...rowsOf("fft.", fft, [4], "bartlett kaiser"),
  "fft.dct(1)": (o) => fft.dct(a, { ...o }),
  "fft.idct(1)": (o) => fft.idct(a, { ...o }),
  "fft.istft(1)": (o) => fft.istft(new fft.ComplexTensor(a, a), o),
  "fft.melFilters(0)": (o) => fft.melFilters(o),
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
  ...rowsOf("linalg.", linalg, [a], "cholesky choleskyInverse eigh eigvalsh matrixRank pinv qr"),
  ...rowsOf("linalg.", linalg, [a], "svd vectorNorm"),
  ...rowsOf("linalg.", linalg, [a, a], "choleskySolve lstsq solve solveTriangular"),
  "linalg.matrixNorm(2)": (o) => linalg.matrixNorm(a, "fro", o),
};
