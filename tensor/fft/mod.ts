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
  ifft,
  ifft2,
  ifftn,
  ifftshift,
  ihfft,
  irfft,
  irfftn,
  rfft,
  rfftfreq,
  rfftn,
} from "./fourier.ts";
export { dct, fftConvolve, idct } from "./cosine.ts";
export { istft, type IstftOptions, stft, type StftOptions } from "./spectrogram.ts";
export {
  blackman,
  hamming,
  hann,
  melFilters,
  type MelOptions,
  type WindowOptions,
} from "./windows.ts";
