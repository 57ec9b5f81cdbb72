/** Numbers that are no network, as NumPy, SciPy and PyTorch compute them beside. */
import { fft, linalg, noGrad, realizeAll, Tensor } from "@netcl/netcl";
import type { Maker, Runnable } from "./serve.ts";

/** The works by kind; `sync` waits for the device. */
export function numberWorks(sync: () => void): Record<string, Maker> {
  const work = (inputs: Tensor[], fn: (...inputs: Tensor[]) => Tensor[]): Runnable => ({
    run: () => {
      const outputs = noGrad(() => fn(...inputs));
      realizeAll(outputs);
      for (const output of outputs) output.dispose();
    },
    sync,
    close: () => inputs.forEach((input) => input.dispose()),
  });
  const random = (...shape: number[]) => Tensor.rand(shape).sub(0.5).realize();
  const definite = (n: number) => {
    const a = random(n, n);
    return a.matmul(a.transpose()).div(n).add(Tensor.eye(n)).realize();
  };
  return {
    fft: (n) => work([random(n)], (x) => parts(fft.fft(x))),
    fft2: (n) => work([random(n, n)], (x) => parts(fft.fft2(x))),
    cholesky: (n) => work([definite(n)], (a) => [linalg.cholesky(a)]),
    solve: (n) => work([definite(n), random(n, 1)], (a, b) => [linalg.solve(a, b)]),
    qr: (n) => work([random(n, n)], (a) => Object.values(linalg.qr(a))),
    svd: (n) => work([random(n, n)], (a) => Object.values(linalg.svd(a))),
    eigh: (n) => work([definite(n)], (a) => Object.values(linalg.eigh(a))),
    "solve-16": (count) => {
      const a = random(count, 16, 16).add(Tensor.eye(16).mul(8)).realize();
      return work([a, random(count, 16, 1)], (a, b) => [linalg.solve(a, b)]);
    },
  };
}

function parts({ real, imag }: fft.ComplexTensor): Tensor[] {
  return [real, imag];
}
