/** Fourier transforms, and what sound needs of them. */
import { Tensor } from "../../../class/tensor.ts";
import { fft, ifft, irfft, rfft } from "../../../fft/fourier.ts";
import { ComplexTensor } from "../../../ops/complex_tensor.ts";
import { type Call, type Operators, typed } from "../core/call.ts";
import { fromFront } from "../core/places.ts";
import type { Value } from "../core/value.ts";
import { typeByNumber } from "../format/types.ts";

/** A signal whose last axis has real parts, or real and imaginary ones; half types as floats. */
function signalOf(x: Tensor): Tensor | ComplexTensor {
  const own = x.dtype === "float64" ? x : x.cast("float32"),
    front = x.shape.slice(1).map(() => null);
  const part = (k: number) => own.slice(...front, k);
  return x.shape.at(-1) === 1 ? part(0) : new ComplexTensor(part(0), part(1));
}

/** All frequencies of a signal, or the first half of them, as pairs along a last axis. */
function spectrum(x: Tensor | ComplexTensor, n: number, axis: number, isHalf: boolean): Tensor {
  if (isHalf && x instanceof Tensor) return rfft(x, { n, axis }).pairs();
  const whole = fft(x, { n, axis });
  const kept = [...whole.shape.slice(0, axis).map(() => null), [0, (n >> 1) + 1] as const];
  return (isHalf ? whole.map((part) => part.slice(...kept)) : whole).pairs();
}

function dft(call: Call): Tensor {
  const x = call.tensor(0), isOld = call.opset < 20;
  const axis = fromFront(isOld ? call.int("axis", 1) : call.number(2, -2), x.ndim);
  const signal = signalOf(x), length = signal.shape[axis]!;
  const isHalf = call.int("onesided", 0) === 1, isInverse = call.int("inverse", 0) === 1;
  const n = call.number(1, isHalf && isInverse ? 2 * (length - 1) : length);
  if (!isInverse) return spectrum(signal, n, axis, isHalf).cast(x.dtype);
  return (isHalf ? irfft(signal, { n, axis }).unsqueeze(-1) : ifft(signal, { n, axis }).pairs())
    .cast(x.dtype);
}

/** Spectra of the pieces of a signal, each piece under a window. */
function stft(call: Call): Tensor {
  // Some programs leave the last axis out.
  const x = call.tensor(0),
    signal = signalOf(x.ndim === 2 ? x.unsqueeze(2) : x),
    hop = call.number(1, 1);
  const window = call.optional(2), samples = signal.shape[1]!;
  const n = call.number(3, window?.shape[0] ?? samples);
  const pieces = 1 + Math.floor((samples - n) / hop);
  const at = Int32Array.from({ length: pieces * n }, (_, k) => Math.floor(k / n) * hop + k % n);
  const places = Tensor.fromHost(at, { shape: [pieces, n] });
  const cut = (part: Tensor) => {
    const own = part.indexSelect(1, places);
    return window ? own.mul(window.cast(own.dtype)) : own;
  };
  const framed = signal instanceof Tensor ? cut(signal) : signal.map(cut);
  return spectrum(framed, n, 2, call.int("onesided", 1) === 1).cast(x.dtype);
}

/** A sum of cosines of the place in a window. */
function windowOf(...factors: number[]) {
  return (call: Call): Value => {
    const size = call.number(0, 0), isPeriodic = call.int("periodic", 1) === 1;
    const step = 2 * Math.PI / (isPeriodic ? size : size - 1);
    const weights = Float64Array.from(
      { length: size },
      (_, k) => factors.reduce((sum, factor, j) => sum + factor * Math.cos(j * k * step), 0),
    );
    const type = typeByNumber(call.int("output_datatype", 1));
    return typed(Tensor.fromHost(weights).cast(type.dtype), type);
  };
}

/** Triangles over frequencies, evenly spaced in mel. */
function melWeights(call: Call): Value {
  const [bins, n, rate, from, to] = [0, 1, 2, 3, 4].map((k) => call.number(k, 0)) as [
    number,
    number,
    number,
    number,
    number,
  ];
  const mel = (hertz: number) => 2595 * Math.log10(1 + hertz / 700), rows = (n >> 1) + 1;
  const step = (mel(to) - mel(from)) / (bins + 2);
  const edge = (k: number) => {
    const hertz = 700 * (10 ** ((mel(from) + k * step) / 2595) - 1);
    return Math.floor((n + 1) * hertz / rate);
  };
  const weights = Float64Array.from({ length: rows * bins }, (_, at) => {
    const row = Math.floor(at / bins), k = at % bins;
    const [low, middle, high] = [edge(k), edge(k + 1), edge(k + 2)];
    if (row === middle) return 1;
    if (row < middle) return row >= low ? (row - low) / (middle - low) : 0;
    return row < high ? (high - row) / (high - middle) : 0;
  });
  const type = typeByNumber(call.int("output_datatype", 1));
  return typed(Tensor.fromHost(weights, { shape: [rows, bins] }).cast(type.dtype), type);
}

/** Sound, by its kinds. */
export const sound: Operators = {
  DFT: dft,
  STFT: stft,
  HannWindow: windowOf(0.5, -0.5),
  // The factors of C. Lanczos' limit of 25/46, as ONNX has them.
  HammingWindow: windowOf(25 / 46, -21 / 46),
  BlackmanWindow: windowOf(0.42, -0.5, 0.08),
  MelWeightMatrix: melWeights,
};
