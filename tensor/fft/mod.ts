/**
 * Fourier transforms, complex numbers, and what sound needs of them.
 *
 * This folder (`fft/`) has transforms of any length with gradients. It imports kernels of `linalg/` and
 * operations of `ops/` and `core/`.
 *
 * @module
 */
export { type ComplexLike, ComplexTensor } from "../ops/complex_tensor.ts";
export {
  fft,
  fft2,
  fftfreq,
  fftn,
  fftshift,
  type FourierAxesOptions,
  type FourierNorm,
  type FourierOptions,
  hfft,
  hfft2,
  hfftn,
  ifft,
  ifft2,
  ifftn,
  ifftshift,
  ihfft,
  ihfft2,
  ihfftn,
  irfft,
  irfft2,
  irfftn,
  rfft,
  rfft2,
  rfftfreq,
  rfftn,
} from "./fourier.ts";
export { dct, type DctOptions, dst, fftConvolve, idct, idst } from "./cosine.ts";
export { istft, type IstftOptions, stft, type StftOptions } from "./spectrogram.ts";
export {
  bartlett,
  blackman,
  hamming,
  hann,
  kaiser,
  type KaiserOptions,
  melFilters,
  type MelOptions,
  type WindowOptions,
} from "./windows.ts";
