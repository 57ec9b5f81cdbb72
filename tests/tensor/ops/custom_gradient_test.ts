/** Gradients of a user's own take the place of those that would be recorded. */
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import {
  checkpoint,
  compile,
  customGradient,
  DTypeError,
  grad,
  noGrad,
  optim,
  ShapeError,
  Tensor,
} from "../../../mod.ts";
import { testOnBackends } from "../../opencl.ts";
import { learn } from "../training.ts";

const reversed = customGradient((x: Tensor) => x, (g) => [g.neg()]);
const product = customGradient(
  (a: Tensor, b: Tensor) => a.mul(b),
  (g, [a, b], output) => [g.mul(b!), g.mul(a!).add(output.mul(0))],
);

testOnBackends("customGradient replaces the gradient", async () => {
  const x = Tensor.fromHost([1, 2], { requiresGrad: true });
  const y = reversed(x);
  assert(y !== x);
  y.mul(3).sum().backward();
  assertEquals(await y.toArray(), [1, 2]);
  assertEquals(await x.grad!.toArray(), [-3, -3]);
  const b = Tensor.fromHost([5, 7], { requiresGrad: true });
  const [ga, gb] = grad([product(x, b).sum()], [x, b]);
  assertEquals([await ga!.toArray(), await gb!.toArray()], [[5, 7], [1, 2]]);
  const [first] = grad([product(x, x).sum()], [x], { createGraph: true });
  const [second] = grad([first!.sum()], [x]);
  assertEquals(await second!.toArray(), [2, 2]);
  assertEquals(noGrad(() => reversed(x)).requiresGrad, false);
  x.grad = null;
  checkpoint((v: Tensor) => reversed(v.mul(2)), x).sum().backward();
  assertEquals(await x.grad!.toArray(), [-2, -2]);
});

testOnBackends("customGradient in a compiled step trains as outside of it", async () => {
  const run = async (isCompiled: boolean): Promise<unknown> => {
    const w = Tensor.fromHost([1, -1], { requiresGrad: true });
    const sgd = new optim.SGD([w], { lr: 0.1 });
    const plain = (x: Tensor): Tensor => {
      return learn(sgd, () => reversed(product(w, x)).square().sum());
    };
    const step = isCompiled ? compile(plain) : plain;
    const losses: number[] = [];
    for (let k = 1; k < 6; k++) {
      losses.push(await step(Tensor.full(k === 3 ? [1] : [2], k / 4)).item());
    }
    return [losses, await w.toArray()];
  };
  assertEquals(await run(true), await run(false));
});

testOnBackends("customGradient says what is wrong", () => {
  const x = Tensor.ones([2], { requiresGrad: true });
  const fails = (
    fn: () => unknown,
    pattern: RegExp,
    type: Parameters<typeof assertThrows>[1] = Error,
  ) => assertMatch(assertThrows(fn, type).message, pattern);
  const of = (gradient: (g: Tensor) => (Tensor | null)[]) =>
    customGradient(function half(x: Tensor) {
      return x.div(2);
    }, gradient);
  fails(() => of((g) => [g, g])(x).sum().backward(), /half: its gradient gave 2 gradients/);
  const scalar = of((g) => [g.sum()]);
  fails(() => scalar(x).sum().backward(), /half: .*shape \[\] for input 0/, ShapeError);
  fails(() => of(() => [1 as unknown as Tensor])(x).sum().backward(), /half: .*1 for input 0/);
  fails(() => of((g) => [g])(3 as unknown as Tensor), /half/);
  fails(() => customGradient((_: Tensor) => 1 as unknown as Tensor, (g) => [g])(x), /return from/);
  fails(() => customGradient((x: Tensor) => x.cast("int32"), (g) => [g])(x), /int32/, DTypeError);
  of(() => [null])(x).sum().backward();
  assertEquals(x.grad, null);
});
