/** Costs of operations beside those that a reader thinks of as their like. */
import { assert, assertEquals } from "@std/assert";
import { Tensor } from "../../mod.ts";
import { testOnBackends } from "../opencl.ts";

/** Kernels of a value that is not computed yet, and the bytes that they move. */
function costOf(value: Tensor): { kernels: number; bytes: number } {
  const lines = [...value.explain().matchAll(/^\d+\. .*: (\d+) bytes$/gm)];
  return { kernels: lines.length, bytes: lines.reduce((sum, [, bytes]) => sum + Number(bytes), 0) };
}

testOnBackends("argmax and argmin of computed values take what max takes of them", () => {
  const logits = Tensor.rand([128_256]).realize(), computed = () => logits.mul(2).add(1);
  const max = costOf(computed().max());
  assert(max.kernels > 0 && max.bytes > 4 * logits.size);
  for (const place of [computed().argmax(), computed().argmin()]) {
    const { kernels, bytes } = costOf(place);
    assertEquals(kernels, max.kernels);
    assert(bytes <= 1.01 * max.bytes, `${bytes} bytes, of max ${max.bytes}`);
  }
});

testOnBackends("multinomial adds to softmax no more than two walks over its result", () => {
  const logits = Tensor.rand([128_256]).realize();
  const softmax = costOf(logits.softmax(0)), drawn = costOf(logits.softmax(0).multinomial(1));
  assert(softmax.kernels > 0);
  const more = drawn.bytes - softmax.bytes;
  assert(more <= 2.1 * 4 * logits.size, `${more} bytes more than ${softmax.bytes}`);
});

testOnBackends("numbers that differ from step to step give what tensors do", async () => {
  const x = Tensor.linspace(0.5, 2, 12).reshape([3, 4]).realize(), n = x.mul(4).cast("int32");
  const functions: ((k: Tensor | number) => Tensor)[] = [
    (k) => x.mul(k).add(Tensor.sub(k, x)).tanh().sum(0),
    (k) => x.pow(k).div(k),
    (k) => x.lt(k).where(k, x).maximum(x.sub(k)),
    (k) => x.matmul(x.transpose().mul(k)).softmax(1).sub(k),
  ];
  for (const fn of functions) {
    for (let k = 1; k < 9; k++) {
      const number = Math.fround(0.3 * k), of = Tensor.full([], number).realize();
      const isClose = await fn(number).allClose(fn(of), { rtol: 1e-6, atol: 1e-6 });
      assert(isClose, `${fn} of ${number}`);
    }
  }
  for (let k = 1; k < 9; k++) {
    const whole = n.mul(k).remainder(k + 1).bitwiseXor(k),
      of = Tensor.full([], k, { dtype: "int32" });
    assert(await whole.equal(n.mul(of).remainder(of.add(1)).bitwiseXor(of)), `of ${k}`);
  }
});
