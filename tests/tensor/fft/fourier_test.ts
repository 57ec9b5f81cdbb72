/**
 * Fourier transforms against PyTorch's values and gradients, which `tests/fixtures/ops/fft.py` wrote:
 * both backends, both types.
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import {
  type DType,
  fft,
  func,
  grad,
  manualSeed,
  realizeAll,
  ShapeError,
  Tensor,
} from "../../../mod.ts";
import type { Case } from "../../conformance/fixture.ts";
import { testOnBackends, testOpenCL } from "../../opencl.ts";
import { withDeclarations } from "../../backend/opencl/fixture.ts";
import { checkCases } from "../linalg/cases.ts";
import { assertNumbers, leaf, numbersOf } from "../numbers.ts";

// deno-lint-ignore no-explicit-any -- arguments of a fixture
type Untyped = any;

type Transform = (x: Untyped, options: Untyped) => Tensor | fft.ComplexTensor;

const functions: Readonly<Record<string, Transform>> = {
  ...fft as unknown as Record<string, Transform>,
  stft: (x, o) => fft.stft(x, { ...o, window: fft.hann(6, { dtype: x.dtype }) }),
  istft: (x, o) => fft.istft(x, { ...o, window: fft.hamming(8, { dtype: x.dtype }) }),
};

/** Windows, which have their length instead of an input. */
const windows = ["bartlett", "kaiser", "hann", "hamming", "blackman"] as const;

function call(c: Case, inputs: Tensor[], dtype: DType): Tensor | fft.ComplexTensor {
  const window = windows.find((name) => name === c.op), args: Untyped = c.args;
  if (window) return fft[window](args[0], { ...args[1], dtype });
  const [re, im] = inputs;
  if (c.op === "fftConvolve") return fft.fftConvolve(re!, im!, args[0]);
  return functions[c.op]!(im ? new fft.ComplexTensor(re!, im) : re!, args[0]);
}

testOnBackends("Fourier transforms and their gradients are PyTorch's", (backend) => {
  const results = (c: Case, inputs: Tensor[], dtype: DType): Tensor[] => {
    const found = call(c, inputs, dtype);
    return found instanceof Tensor ? [found] : [found.real, found.imag];
  };
  checkCases(backend, "fft", results, { float64: 1e-11, float32: 3e-5, gradients: 10 }, "67");
});

testOnBackends("signals of any length come back from their frequencies", async (backend) => {
  manualSeed(0);
  const tried = backend === "cpu" ? Array.from({ length: 64 }, (_, k) => k + 1) : [3, 8, 60];
  for (const n of [...tried, 1009, 12_000]) {
    const x = Tensor.randn([2, n]), back = fft.irfft(fft.rfft(x), { n });
    assert(await back.sub(x).abs().max().item() < 1e-5, `${n}`);
  }
});

testOnBackends("long signals have the frequencies that a sum gives", async () => {
  const n = 9000, k = 4321, x = Tensor.randn([n], { dtype: "float64" }).realize();
  const angle = Tensor.arange(n, { dtype: "float64" }).mul(-2 * Math.PI * k / n);
  const z = fft.fft(x);
  for (const [part, wave] of [[z.real, angle.cos()], [z.imag, angle.sin()]] as const) {
    const found = await part.slice([k, k + 1]).item(), sum = await x.mul(wave).sum().item();
    assert(Math.abs(found - sum) < 1e-8, `${found}, ${sum}`);
  }
});

testOpenCL("many numbers are transformed in vectors as the built-in backend does it", async () => {
  manualSeed(0);
  // Whole groups and not, rows and columns, both factors of a long row, and primes.
  const tried: [dtype: DType, shape: number[], axis: number][] = [
    ["float32", [45, 1000], -1],
    ["float32", [37, 63, 17], 1],
    ["float64", [169, 221], 0],
    ["float64", [65_536], 0],
    ["float32", [2, 1287 * 26], 1],
  ];
  for (const [dtype, shape, axis] of tried) {
    for (const name of ["fft", "ifft"] as const) {
      const parts = [Tensor.randn(shape, { dtype }), Tensor.randn(shape, { dtype })] as const;
      const found = fft[name](new fft.ComplexTensor(...parts), { axis });
      withDeclarations(() => realizeAll([found.real, found.imag]));
      const builtIn = new fft.ComplexTensor(parts[0].to("cpu"), parts[1].to("cpu"));
      const expected = fft[name](builtIn, { axis }), largest = expected.abs().max();
      const error = found.map((part) => part.to("cpu")).sub(expected).abs().max().div(largest);
      const what = `${name} of ${dtype} ${shape} along ${axis}`;
      assert(await error.item() < (dtype === "float64" ? 1e-14 : 5e-7), what);
    }
  }
});

testOnBackends("complex numbers: arithmetic, magnitudes, gradients of two orders", async () => {
  const z = fft.ComplexTensor.fromPairs(Tensor.fromHost([[3, 4], [0, -2]]));
  const w = fft.ComplexTensor.fromPairs(Tensor.fromHost([[1, 2], [2, 0]]));
  assertEquals(await z.mul(w).toArray(), [[-5, 10], [0, -4]]);
  assertEquals(await z.mul(w).div(w).toArray(), [[3, 4], [0, -2]]);
  assertEquals(await z.add(1).sub(w).toArray(), [[3, 2], [-1, -2]]);
  assertEquals(await z.conj().neg().toArray(), [[-3, 4], [-0, -2]]);
  assertEquals(await z.abs().toArray(), [5, 2]);
  assertEquals(await w.angle().toArray(), [Math.fround(Math.atan2(2, 1)), 0]);
  assertEquals([...z.shape], [2]);
  const matrix = z.reshape([1, 2]).matmul(w.reshape([2, 1]));
  assertEquals(await matrix.toArray(), [[[-5, 6]]]);
  const x = Tensor.fromHost([1, -2, 0.5], { requiresGrad: true });
  const [first] = grad([fft.fft(x).abs().pow(4).sum()], [x], { createGraph: true });
  const [second] = grad([first!.sum()], [x]);
  const slope = (values: number[]) => {
    const y = Tensor.fromHost(values, { dtype: "float64", requiresGrad: true });
    return grad([fft.fft(y).abs().pow(4).sum()], [y])[0]!;
  };
  const step = 1e-4, up = slope([1 + step, -2 + step, 0.5 + step]);
  const wanted = up.sub(slope([1 - step, -2 - step, 0.5 - step])).div(2 * step);
  assertNumbers(numbersOf(second!), numbersOf(wanted), 1e-4, "second derivative");
  const zero = leaf(Tensor.zeros([2]));
  new fft.ComplexTensor(zero, zero).abs().sum().backward();
  assertEquals(await zero.grad!.toArray(), [0, 0]);
});

Deno.test("fftshift and fftfreq are PyTorch's; shapes that have no transform are errors", async () => {
  assertEquals(await fft.fftshift(Tensor.arange(5)).toArray(), [3, 4, 0, 1, 2]);
  assertEquals(await fft.ifftshift(fft.fftshift(Tensor.arange(5))).toArray(), [0, 1, 2, 3, 4]);
  assertEquals(await fft.fftfreq(5, 0.5).mul(2.5).toArray(), [0, 1, 2, -2, -1]);
  assertEquals(await fft.rfftfreq(4).toArray(), [0, 0.25, 0.5]);
  assertThrows(() => fft.fft(Tensor.zeros([2, 0])), ShapeError, "the axis -1 is empty");
  const twice = { axes: [0, 0] };
  assertThrows(() => fft.fft2(Tensor.zeros([2, 2]), twice), ShapeError, "name each axis once");
});

testOnBackends("idct and istft give back what dct and stft were given", async () => {
  manualSeed(4);
  for (const n of [1, 4, 7]) {
    const x = Tensor.randn([2, n]);
    for (const norm of ["backward", "ortho"] as const) {
      const far = await fft.idct(fft.dct(x, { norm }), { norm }).sub(x).abs().max().item();
      assert(far < 1e-5, `${n} ${norm}`);
    }
  }
  const x = Tensor.randn([2, 100]), options = { n: 16, window: fft.hann(16) };
  const back = fft.istft(fft.stft(x, options), { ...options, length: 100 });
  assert(await back.sub(x).abs().max().item() < 1e-5);
});

Deno.test("melFilters have their peaks evenly on the mel scale, or one area", async () => {
  const options = { filters: 6, frequencies: 4001, sampleRate: 16_000 };
  for (const scale of ["htk", "slaney"] as const) {
    const peaks = await fft.melFilters({ ...options, scale }).argmax(0).toArray() as number[];
    const mel = (f: number) =>
      scale === "htk"
        ? 2595 * Math.log10(1 + f / 700)
        : f < 1000
        ? f * 3 / 200
        : 15 + Math.log(f / 1000) * 27 / Math.log(6.4);
    peaks.forEach((f, k) =>
      assert(Math.abs(mel(2 * f) / mel(8000) - (k + 1) / 7) < 2e-3, `${scale} ${k}`)
    );
  }
  const areas = await fft.melFilters({ ...options, norm: "slaney" }).sum(0).mul(2)
    .toArray() as number[];
  areas.forEach((area) => assert(Math.abs(area - 1) < 1e-2, `${area}`));
});

Deno.test("a signal without a whole piece has no stft", () => {
  assertThrows(() => fft.stft(Tensor.zeros([4]), { n: 16 }), ShapeError, "pieces of 16");
  const z = new fft.ComplexTensor(Tensor.zeros([4, 2]), Tensor.zeros([4, 2]));
  assertThrows(() => fft.istft(z, { n: 16 }), ShapeError, "[..., 9, pieces]");
});

testOnBackends("ComplexTensor has PyTorch's roots, logarithms, powers and gradients", () => {
  const pairs = Tensor.fromHost([[3, 4], [-3, -4], [0, 2], [-4, 0], [0, 0]]);
  const z = fft.ComplexTensor.fromPairs(pairs);
  const near = (found: fft.ComplexTensor, expected: number[]): void =>
    assertNumbers(numbersOf(found.pairs()), expected, 5e-5);
  near(z.sqrt(), [2, 1, 1, -2, 1, 1, 0, 2, 0, 0]);
  near(z.pow(2), [-7, 24, -7, 24, -4, 0, 16, 0, 0, 0]);
  const some = z.map((part) => part.slice([0, 3]));
  near(some.log().exp(), [3, 4, -3, -4, 0, 2]);
  near(some.pow(0.5), [2, 1, 1, -2, 1, 1]);
  near(some.mul(some.reciprocal()), [1, 0, 1, 0, 1, 0]);
  const size = Math.log(5), [up, down] = [Math.atan2(4, 3), Math.atan2(-4, -3)];
  near(some.pow(some).log(), [
    ...[3 * size - 4 * up, 4 * size + 3 * up - 2 * Math.PI],
    ...[-3 * size + 4 * down, wrapped(-3 * down - 4 * size)],
    ...[-Math.PI, 2 * Math.log(2)],
  ]);
  // d|sqrt z|^2 / dz = z / |z| in PyTorch's convention.
  const slope = func.grad((z: fft.ComplexTensor) => z.sqrt().absSquare().sum())(some);
  near(slope, [0.6, 0.8, -0.6, -0.8, 0, 1]);
  const matrix = z.map((part) => part.slice([0, 4]).reshape([2, 2]));
  near(matrix.adjoint().reshape([4]), [3, -4, 0, -2, -3, 4, -4, 0]);
  near(some.mean().reshape([1]), [0, 2 / 3]);
  near(some.add(Tensor.ones([2, 1])).map((part) => part.slice(1)), [4, 4, -2, -4, 1, 2]);
});

/** An angle from -π to π. */
function wrapped(angle: number): number {
  return Math.atan2(Math.sin(angle), Math.cos(angle));
}
