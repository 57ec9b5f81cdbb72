/**
 * Factorizations and transforms by many work-groups, as a GPU has them, against those of a processor: values
 * and gradients, by blocks that are whole, cut off, and more than one. PoCL runs the texts.
 */
import { assert, assertRejects } from "@std/assert";
import { type DType, fft, func, linalg, Tensor, withDevice } from "../../../mod.ts";
import { withDeclarations, withDeviceType } from "../../backend/opencl/fixture.ts";
import { testOpenCL } from "../../opencl.ts";
import { numbersOf } from "../numbers.ts";

type Sides = readonly number[];

/** Numbers from -1/2 to 1/2, the same on every device. */
function filled(shape: Sides, dtype: DType, seed: number): Tensor {
  let state = seed * 7919 + 1;
  const next = () => (state = (state * 1103515245 + 12345) % 2 ** 31) / 2 ** 31 - 0.5;
  const size = shape.reduce((all, side) => all * side, 1);
  return Tensor.fromHost(Array.from({ length: size }, next), { shape: [...shape], dtype });
}

const transposed = (a: Tensor): Tensor => a.transpose(-1, -2);
/** Symmetric with positive eigenvalues. */
const definite = (a: Tensor): Tensor =>
  a.matmul(transposed(a)).add(Tensor.eye(a.shape.at(-1)!, { dtype: a.dtype }));

/** Results of tensors of these shapes, near those of the built-in backend in float64. */
async function assertSame(
  shapes: readonly Sides[],
  dtype: DType,
  fn: (inputs: Tensor[]) => Tensor[],
): Promise<void> {
  const run = (type: DType): number[][] =>
    fn(shapes.map((shape, k) => filled(shape, type, k + 1))).map((x) => numbersOf(x.contiguous()));
  let found: number[][] = [];
  const compute = () => void (found = withDeclarations(() => run(dtype)));
  await withDeviceType("gpu", () => Promise.resolve(compute()));
  const expected = withDevice("cpu", () => run("float64"));
  const tolerance = dtype === "float64" ? 1e-11 : 2e-4;
  expected.forEach((values, k) => {
    const size = Math.max(1, ...values.map(Math.abs));
    values.forEach((value, at) => {
      const isNear = Math.abs(found[k]![at]! - value) <= tolerance * size;
      assert(isNear, `${dtype} ${shapes}: result ${k}, element ${at}: ${found[k]![at]}, ${value}`);
    });
  });
}

/** Results, and what their squares give as gradients of the inputs. */
function withGradients(inputs: Tensor[], fn: (inputs: Tensor[]) => Tensor[]): Tensor[] {
  for (const input of inputs) input.requiresGrad = true;
  const results = fn(inputs);
  const sum = results.map((x) => x.square().sum()).reduce((all, next) => all.add(next));
  sum.backward();
  return [...results.map((x) => x.detach()), ...inputs.map((input) => input.grad!)];
}

/** A test for each type: results, and gradients where they are asked for, of tensors of these shapes. */
function testGroups(
  name: string,
  shapes: readonly Sides[],
  fn: (inputs: Tensor[]) => Tensor[],
  options: { gradients: boolean } = { gradients: true },
): void {
  for (const dtype of ["float32", "float64"] as const) {
    testOpenCL(`${name} by groups: ${dtype} [${shapes.join("], [")}]`, () => {
      return assertSame(
        shapes,
        dtype,
        (inputs) => options.gradients ? withGradients(inputs, fn) : fn(inputs),
      );
    });
  }
}

for (const shape of [[2, 33, 33], [64, 64], [100, 100]]) {
  testGroups("cholesky and solveTriangular", [shape, [...shape.slice(0, -1), 3]], ([a, b]) => {
    const l = linalg.cholesky(definite(a!)),
      lower = linalg.solveTriangular(l, b!, { upper: false });
    const unit = { upper: true, unitriangular: true };
    return [l, lower, linalg.solveTriangular(transposed(l).div(9), b!, unit)];
  });
}

for (const shape of [[3, 5, 5], [2, 40, 40], [70, 70]]) {
  testGroups("solve, det and inv", [shape, [...shape.slice(0, -1), 3]], ([a, b]) => {
    const near = a!.add(Tensor.eye(shape.at(-1)!, { dtype: a!.dtype }).mul(4));
    return [linalg.solve(near, b!), linalg.logdet(near.matmul(transposed(near)))];
  });
}

for (const shape of [[2, 7, 40], [90, 37], [50, 50]]) {
  testGroups("luFactor and qr", [shape], ([a]) => {
    const { lu, permutation } = linalg.luFactor(a!), { q, r } = linalg.qr(a!);
    return [lu, permutation, q, r, linalg.qr(a!, { mode: "complete" }).q.square().sum()];
  }, { gradients: false });
}

// Items of a group have two rows each.
testGroups("luFactor of many rows", [[1030, 5]], ([a]) => {
  const { lu, permutation } = linalg.luFactor(a!);
  return [lu, permutation];
}, { gradients: false });

// More blocks than a step solves.
testGroups("solveTriangular of vectors", [[260, 260], [260, 2]], ([a, b]) => {
  const l = a!.div(260).add(Tensor.eye(260, { dtype: a!.dtype }));
  const lower = linalg.solveTriangular(l, b!, { upper: false, unitriangular: true });
  return [lower, linalg.solveTriangular(l, b!, { upper: true })];
}, { gradients: false });

testGroups("eigh and svd", [[2, 35, 35], [60, 40]], ([a, b]) => {
  const { values, vectors } = linalg.eigh(a!.add(transposed(a!)));
  const { u, s, vh } = linalg.svd(b!, { fullMatrices: false });
  const root = (x: Tensor) => x.mul(0.2).add(2).sqrt().unsqueeze(-2);
  const matrix = vectors.mul(root(values)).matmul(transposed(vectors));
  return [values, matrix, s, u.mul(root(s)).matmul(vh)];
});

const lines: readonly [shape: Sides, axis: number][] = [
  ...[[3, 30], [2, 1024], [10000], [2, 34], [2, 67]].map((shape) => [shape, -1] as [Sides, -1]),
  ...[[2, 16, 5], [4, 121, 9]].map((shape) => [shape, 1] as [Sides, 1]),
];

for (const [shape, axis] of lines) {
  testGroups(`fft along axis ${axis}`, [shape, shape], ([re, im]) => {
    const there = fft.fft(new fft.ComplexTensor(re!, im!), { axis, norm: "ortho" });
    return [there.real, there.imag, fft.ifft(there.mul(there), { axis }).real];
  });
}

const parts = ({ real, imag }: fft.ComplexTensor): Tensor[] => [real, imag];

// Signals of one launch, and of two: their mirrored lines are an even and an odd number.
for (const shape of [[3, 30], [2, 2, 1024], [2, 17_000], [18_018], [2, 34], [3, 4]]) {
  testGroups("fft, rfft and irfft of real numbers", [shape], ([x]) => {
    const half = fft.rfft(x!, { norm: "ortho" }), n = shape.at(-1)!;
    return [...parts(fft.fft(x!)), ...parts(half), fft.irfft(half.mul(half), { n })];
  });
}

for (const shape of [[2, 30, 20], [49, 64], [3, 5, 7]]) {
  testGroups("fft2, rfft2 and rfft of columns", [shape], ([x]) => {
    const half = fft.rfft2(x!), columns = fft.rfft(x!, { axis: -2, n: 10 });
    const back = fft.irfft2(half, { lengths: [shape.at(-2)!, shape.at(-1)!] });
    return [...parts(fft.fft2(x!, { norm: "ortho" })), ...parts(half), ...parts(columns), back];
  });
}

testOpenCL("vmap of solve, cholesky, qr and fft by groups", () => {
  const one = (a: Tensor, b: Tensor) => {
    const factors = [linalg.cholesky(definite(a)), linalg.qr(a).r];
    return [linalg.solve(a, b), ...factors, fft.fft(b).imag];
  };
  const each = ([a, b]: Tensor[]) => func.vmap(one)(a!, b!) as Tensor[];
  return assertSame([[3, 34, 34], [3, 34]], "float32", each);
});

testOpenCL("solve and cholesky by groups name the matrix that has none", () => {
  return withDeviceType("gpu", async () => {
    const singular = Tensor.zeros([2, 40, 40]), b = Tensor.ones([2, 40, 1]);
    await assertRejects(() => linalg.solve(singular, b).toHost(), RangeError, "solve");
    await assertRejects(() => linalg.cholesky(singular.sub(1)).toHost(), RangeError, "cholesky");
  });
});
