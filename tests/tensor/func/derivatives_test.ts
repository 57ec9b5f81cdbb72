/** Derivatives of functions beside those known from calculus, and forward mode beside reverse mode. */
import { assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { compile, fft, func, grad, noGrad, ShapeError, Tensor } from "../../../mod.ts";
import { testOnBackends, testOnCPU } from "../../opencl.ts";

function close(actual: readonly number[], expected: readonly number[], tolerance = 1e-5): void {
  assertEquals(actual.length, expected.length);
  actual.forEach((value, k) => assertAlmostEquals(value, expected[k]!, tolerance));
}

const flat = async (x: Tensor) => (await x.toNumbers() as number[]).flat(9);

testOnBackends("func.grad leaves what it is called with alone, and is nested", async () => {
  const x = Tensor.fromHost([1, 2]), w = Tensor.fromHost([3, 4], { requiresGrad: true });
  const f = (x: Tensor, w: Tensor) => x.square().mul(w).sum();
  assertEquals(await func.grad(f, { argument: 0 })(x, w).toArray(), [6, 16]);
  assertEquals([x.requiresGrad, x.grad, w.grad], [false, null, null]);
  assertEquals(await func.grad(f, { argument: 1 })(x, w).toArray(), [1, 4]);
  assertEquals(noGrad(() => func.grad(f)(x, w)).requiresGrad, false);
  const [value, gradient] = func.valueAndGrad((tree: { x: Tensor }) => f(tree.x, w))({ x });
  assertEquals([await value.item(), await gradient.x.toArray()], [19, [6, 16]]);
  const sixth = func.grad((x: Tensor) => func.grad((y: Tensor) => y.pow(3).mul(x))(x));
  assertEquals(await sixth(Tensor.fromHost(2)).item(), 36);
  const constant = func.grad((_: Tensor) => Tensor.fromHost(1));
  assertEquals(await constant(x).toArray(), [0, 0]);
  // What comes of it is differentiated by what the function holds.
  const [byW] = grad([func.grad((x: Tensor) => f(x, w))(x).sum()], [w]);
  assertEquals(await byW!.toArray(), [2, 4]);
});

testOnBackends("forward mode has what reverse mode has", async () => {
  const x = Tensor.linspace(0.2, 0.9, 6).reshape([2, 3]).realize(), w = Tensor.linspace(-1, 1, 3);
  const f = (x: Tensor) => x.matmul(w).tanh().mul(x.softmax(-1).max(1)).exp();
  const [forward, reverse] = [func.jacfwd(f)(x), func.jacrev(f)(x)];
  assertEquals([forward.shape, reverse.shape], [[2, 2, 3], [2, 2, 3]]);
  close(await flat(forward), await flat(reverse));
  const tangent = Tensor.linspace(1, -1, 6).reshape([2, 3]);
  const [value, change] = func.jvp(f, [x], [tangent]);
  close(await flat(value), await flat(f(x)));
  close(await flat(change), await flat(reverse.mul(tangent).sum([1, 2])));
  const [, back] = func.vjp(f, x), cotangent = Tensor.fromHost([1, -2]);
  close(
    await flat(back(cotangent)[0]!),
    await flat(reverse.mul(cotangent.reshape([2, 1, 1])).sum(0)),
  );
});

testOnBackends("a Hessian is symmetric, and hvp is its product", async () => {
  const x = Tensor.fromHost([0.3, 0.5, 0.7]), v = Tensor.fromHost([1, -1, 2]);
  const f = (x: Tensor) => x.sin().prod().add(x.pow(3).sum());
  const hessian = func.hessian(f)(x);
  close(await flat(hessian), await flat(hessian.transpose()));
  const [a, b, c] = [0.3, 0.5, 0.7] as const;
  assertAlmostEquals((await flat(hessian))[1]!, Math.cos(a) * Math.cos(b) * Math.sin(c), 1e-5);
  close(await flat(func.hvp(f, x, v)), await flat(hessian.matmul(v)));
  close(await flat(func.jacfwd(func.grad(f))(x)), await flat(hessian));
});

testOnBackends("jvp and vjp are differentiated themselves", async () => {
  const x = Tensor.fromHost([1, 2], { requiresGrad: true }),
    t = Tensor.fromHost([1, 10], { requiresGrad: true });
  const [, tangent] = func.jvp((x) => x.pow(3), [x], [t]);
  const [byX, byT] = grad([tangent.sum()], [x, t]);
  assertEquals([await byX!.toArray(), await byT!.toArray()], [[6, 120], [3, 12]]);
  const [, none] = func.jvp((x) => x.zerosLike(), [x], [t]);
  assertEquals(await none.toArray(), [0, 0]);
});

testOnCPU("derivatives refuse what does not fit, by name", () => {
  const x = Tensor.ones([2]), f = (x: Tensor) => x.mul(2);
  assertThrows(() => func.grad(f)(x), ShapeError, "func.jacobian");
  assertThrows(() => func.grad(f, { argument: 1 })(x), TypeError, "no tensor");
  assertThrows(() => func.grad(f, { argnum: 1 } as object), TypeError, "argnum");
  assertThrows(() => func.grad("f" as unknown as typeof f), TypeError, "a function");
  assertThrows(() => func.jvp(f, [x], [Tensor.ones([3])]), ShapeError, "tangent");
  // @ts-expect-error: one tangent for each
  assertThrows(() => func.jvp(f, [x], []), TypeError, "one for each");
  assertThrows(() => func.vjp(f, x)[1](Tensor.ones([])), ShapeError, "cotangent");
  assertThrows(() => func.jacrev(f)(1 as unknown as Tensor), TypeError, "jacrev");
});

testOnBackends(
  "derivatives take and give trees, several arguments, and what stands beside",
  async () => {
    const a = Tensor.fromHost([1, 2]), b = Tensor.fromHost([3, 4]);
    const f = (x: Tensor, y: Tensor) => x.mul(y).sum();
    const both = func.grad(f, { argument: [0, 1] })(a, b);
    assertEquals([await flat(both[0]!), await flat(both[1]!)], [[3, 4], [1, 2]]);
    const [gradient, aux] = func.grad((x: Tensor) => [x.sum(), x.mul(3)] as const, {
      hasAux: true,
    })(a);
    assertEquals([await flat(gradient), await flat(aux)], [[1, 1], [3, 6]]);
    const tree = func.jacrev((t: { a: Tensor; b: Tensor }) => [t.a.mul(t.b), t.a.sum()] as const);
    for (
      const jacobian of [
        tree,
        func.jacfwd((t: { a: Tensor; b: Tensor }) => [t.a.mul(t.b), t.a.sum()] as const),
      ]
    ) {
      const found = jacobian({ a, b });
      assertEquals(await flat(found[0].b), [1, 0, 0, 2]);
      assertEquals([found[1].a.shape, await flat(found[1].a)], [[2], [1, 1]]);
    }
    const second = func.hessian((t: { a: Tensor; b: Tensor }) => f(t.a, t.b))({ a, b });
    assertEquals([await flat(second.a.b), await flat(second.b.b)], [[1, 0, 0, 1], [0, 0, 0, 0]]);
    assertEquals(await flat(func.hessian((x: Tensor) => x.square())(a)), [2, 0, 0, 0, 0, 0, 0, 2]);
    const [, back] = func.vjp((x: Tensor) => ({ x: x.mul(2), sum: x.sum() }), a);
    assertEquals(await flat(back({ x: Tensor.ones([2]), sum: Tensor.ones([]) })[0]), [3, 3]);
    const [value, along] = func.linearize((x: Tensor) => x.square(), a);
    assertEquals([await flat(value), await flat(along(b)), await flat(along(a))], [[1, 4], [
      6,
      16,
    ], [2, 8]]);
    const [, place] = func.jvp((x: Tensor) => x.argmax(), [a], [b]);
    assertEquals([place.dtype, await place.item()], ["int32", 0]);
  },
);

testOnBackends("derivatives go through complex tensors, as trees of two", async () => {
  const x = Tensor.fromHost([1, 2, 3, 4]), t = Tensor.fromHost([1, 0, -1, 2]);
  const [, change] = func.jvp((x: Tensor) => fft.rfft(x), [x], [t]);
  close(await flat(change.pairs()), await flat(fft.rfft(t).pairs()));
  const power = func.vmap((z: fft.ComplexTensor) => z.absSquare().sum())(
    fft.rfft(x.reshape([2, 2])),
  );
  close(await flat(power), [10, 50]);
  const slope = func.grad((z: fft.ComplexTensor) => z.absSquare().sum())(fft.rfft(x));
  close(await flat(slope.pairs()), await flat(fft.rfft(x).mul(2).pairs()));
  const step = compile((z: fft.ComplexTensor) => z.mul(z));
  for (const k of [1, 2, 3]) {
    const z = new fft.ComplexTensor(Tensor.full([2], k), Tensor.ones([2]));
    close(await flat((await step(z)).pairs()), [k * k - 1, 2 * k, k * k - 1, 2 * k]);
  }
});
