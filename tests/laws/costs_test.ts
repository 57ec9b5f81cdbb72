/** Costs of operations beside those that a reader thinks of as their like. */
import { assert, assertEquals } from "@std/assert";
import { Tensor, withDevice } from "../../mod.ts";
import { testOnBackends } from "../opencl.ts";

/** Kernels of a value that is not computed yet, and the bytes that they move. */
function costOf(value: Tensor): { kernels: number; bytes: number } {
  const lines = [...value.explain().matchAll(/^\d+\. .*: (\d+) bytes$/gm)];
  return { kernels: lines.length, bytes: lines.reduce((sum, [, bytes]) => sum + Number(bytes), 0) };
}

testOnBackends(
  "argmax and argmin of computed values take what max takes of them",
  (backend) =>
    withDevice(backend, () => {
      const logits = Tensor.rand([128_256]).realize(), computed = () => logits.mul(2).add(1);
      const max = costOf(computed().max());
      assert(max.kernels > 0 && max.bytes > 4 * logits.size);
      for (const place of [computed().argmax(), computed().argmin()]) {
        const { kernels, bytes } = costOf(place);
        assertEquals(kernels, max.kernels);
        assert(bytes <= 1.01 * max.bytes, `${bytes} bytes, of max ${max.bytes}`);
      }
    }),
);

testOnBackends(
  "multinomial adds to softmax no more than two walks over its result",
  (backend) =>
    withDevice(backend, () => {
      const logits = Tensor.rand([128_256]).realize();
      const softmax = costOf(logits.softmax(0)), drawn = costOf(logits.softmax(0).multinomial(1));
      assert(softmax.kernels > 0);
      const more = drawn.bytes - softmax.bytes;
      assert(more <= 2.1 * 4 * logits.size, `${more} bytes more than ${softmax.bytes}`);
    }),
);
