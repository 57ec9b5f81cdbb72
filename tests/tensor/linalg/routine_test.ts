// Suite: alone; it ends all devices of its process.
/** Routines: calls that are one node, and planned as what they stand for. */
import { assert, assertEquals } from "@std/assert";
import { backendOf, nextNodeId } from "../../../backend/internal.ts";
import { withoutRoutines } from "../../../tensor/ops/routine.ts";
import {
  checkpoint,
  compile,
  fft,
  func,
  linalg,
  noGrad,
  realizeAll,
  setFloat32Precision,
  shutdown,
  Tensor,
} from "../../../mod.ts";
import { testOnBackends, testOnCPU } from "../../opencl.ts";
import { assertNumbers, numbersOf } from "../numbers.ts";

/** Numbers from -1/2 to 1/2 with more on the diagonal. */
function matrix(n: number, seed = 1): Tensor {
  const values = Array.from({ length: n * n }, (_, k) => Math.sin(k * seed) / 2);
  return Tensor.fromHost(values, { shape: [n, n], dtype: "float32" }).add(Tensor.eye(n).mul(9));
}

function nodesIn(fn: () => void): number {
  const before = nextNodeId();
  fn();
  return nextNodeId() - before;
}

testOnBackends("routine makes the nodes of a kind of call once", () => {
  const a = matrix(150).realize(), b = a.slice(null, [0, 2]).realize();
  const solve = () => noGrad(() => numbersOf(linalg.solve(a, b)));
  const first = solve(), many = nodesIn(() => withoutRoutines(solve));
  assertEquals(solve(), first);
  const few = nodesIn(solve);
  assert(few * 4 < many, `${few} nodes a call, ${many} without routines`);
});

testOnBackends("routine gives what its function gives, whichever results are asked for", () => {
  const work = () => {
    const [a, b] = [matrix(70), matrix(70, 2)], { lu, permutation } = linalg.luFactor(a);
    const first = linalg.solve(a, b), second = linalg.solve(b, first.add(1));
    const { values } = linalg.eigh(a.add(a.transpose()));
    const { real } = fft.fft(first.slice([0, 8])), { imag } = fft.ifft(fft.rfft(b));
    return [permutation, lu.sum(0), second, first, values, linalg.det(a.div(9)), real, imag];
  };
  const expected = withoutRoutines(() => work().map((x) => numbersOf(x)));
  for (let k = 0; k < 2; k++) {
    const together = work();
    realizeAll(together);
    together.forEach((x, k) => assertNumbers(numbersOf(x), expected[k]!, 1e-5));
    work().reverse().forEach((x, k) => assertNumbers(numbersOf(x), expected.at(-1 - k)!, 1e-5));
  }
});

testOnBackends("routine takes part in backward, vmap and precisions as its function does", () => {
  const a = Tensor.stack([matrix(5), matrix(5, 3)]).realize();
  const f = (x: Tensor) => linalg.inv(x).square().sum();
  const gradients = () => numbersOf(func.vmap(func.grad(f))(a) as Tensor);
  const expected = withoutRoutines(gradients);
  assertNumbers(gradients(), expected, 1e-5);
  setFloat32Precision("medium");
  try {
    assertNumbers(gradients(), expected, 1e-2);
  } finally {
    setFloat32Precision("highest");
  }
});

testOnBackends("routine has tables that are no leaves of a checkpoint in a compiled step", () => {
  const x = Tensor.arange(90, { dtype: "float32" }).realize();
  x.requiresGrad = true;
  const step = (fn: (x: Tensor) => Tensor) => {
    const whole = compile(() => {
      x.grad = null;
      fn(x).sum().backward();
      return x.grad!;
    });
    return [1, 2, 3].map(() => numbersOf(whole()));
  };
  const weights = Array.from({ length: 90 }, (_, k) => k);
  // The first call of this length is in the checkpoint.
  const product = (x: Tensor) =>
    fft.fft(x).real.mul(Tensor.fromHost(weights, { dtype: "float32" }));
  const found = step((x) => checkpoint(product, x)), expected = step(product);
  found.forEach((gradient, k) => assertNumbers(gradient, expected[k]!, 1e-3));
});

testOnCPU("routine keeps the tables of its calls until shutdown()", async () => {
  const spectrum = (n: number) => {
    using x = Tensor.ones([n]);
    const { real, imag } = noGrad(() => fft.fft(x));
    const [sum] = numbersOf(real);
    for (const part of [real, imag]) part.dispose();
    return sum;
  };
  const bytes = () => backendOf().memory.pool.stats.bytesAllocated;
  assertEquals(spectrum(6000), 6000);
  const before = bytes();
  assert(before >= 48_000, `${before} bytes of tables`);
  for (let k = 0; k < 3; k++) assertEquals(spectrum(6000), 6000);
  // Less where the collector has found tensors of other tests meanwhile.
  assert(bytes() <= before, `${bytes()} bytes after more calls, ${before} before`);
  await shutdown();
  assertEquals(spectrum(6000), 6000);
});
