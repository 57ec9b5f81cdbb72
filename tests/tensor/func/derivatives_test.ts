/** Derivatives of functions beside those known from calculus, and forward mode beside reverse mode. */
import { assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { compile, fft, func, grad, noGrad, ShapeError, Tensor } from "../../../mod.ts";
import { testOnBackends, testOnCPU } from "../../opencl.ts";
import { assertNumbers, leaf, numbersOf } from "../numbers.ts";

const flat = (x: Tensor): number[] => numbersOf(x);
const near = (found: Tensor, expected: Tensor): void =>
  assertNumbers(flat(found), flat(expected), 1e-5);

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

testOnBackends("forward mode has what reverse mode has", () => {
  const x = Tensor.linspace(0.2, 0.9, 6).reshape([2, 3]).realize(), w = Tensor.linspace(-1, 1, 3);
  const f = (x: Tensor) => x.matmul(w).tanh().mul(x.softmax(-1).max(1)).exp();
  const [forward, reverse] = [func.jacfwd(f)(x), func.jacrev(f)(x)];
  assertEquals([forward.shape, reverse.shape], [[2, 2, 3], [2, 2, 3]]);
  near(forward, reverse);
  const tangent = Tensor.linspace(1, -1, 6).reshape([2, 3]);
  const [value, change] = func.jvp(f, [x], [tangent]);
  near(value, f(x));
  near(change, reverse.mul(tangent).sum([1, 2]));
  const [, back] = func.vjp(f, x), cotangent = Tensor.fromHost([1, -2]);
  near(back(cotangent)[0]!, reverse.mul(cotangent.reshape([2, 1, 1])).sum(0));
});

testOnBackends("a Hessian is symmetric, and hvp is its product", () => {
  const x = Tensor.fromHost([0.3, 0.5, 0.7]), v = Tensor.fromHost([1, -1, 2]);
  const f = (x: Tensor) => x.sin().prod().add(x.pow(3).sum());
  const hessian = func.hessian(f)(x);
  near(hessian, hessian.transpose());
  const [a, b, c] = [0.3, 0.5, 0.7] as const;
  assertAlmostEquals(flat(hessian)[1]!, Math.cos(a) * Math.cos(b) * Math.sin(c), 1e-5);
  near(func.hvp(f, x, v), hessian.matmul(v));
  near(func.jacfwd(func.grad(f))(x), hessian);
});

testOnBackends("jvp and vjp are differentiated themselves", async () => {
  const [x, t] = [[1, 2], [1, 10]].map((row) => leaf(Tensor.fromHost(row))) as [Tensor, Tensor];
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

testOnBackends("derivatives take and give trees, several arguments and extras", async () => {
  const a = Tensor.fromHost([1, 2]), b = Tensor.fromHost([3, 4]);
  const f = (x: Tensor, y: Tensor) => x.mul(y).sum();
  const both = func.grad(f, { argument: [0, 1] })(a, b);
  assertEquals([flat(both[0]!), flat(both[1]!)], [[3, 4], [1, 2]]);
  const withAux = (x: Tensor) => [x.sum(), x.mul(3)] as const;
  const [gradient, aux] = func.grad(withAux, { hasAux: true })(a);
  assertEquals([flat(gradient), flat(aux)], [[1, 1], [3, 6]]);
  const tree = (t: { a: Tensor; b: Tensor }) => [t.a.mul(t.b), t.a.sum()] as const;
  for (const jacobian of [func.jacrev(tree), func.jacfwd(tree)]) {
    const found = jacobian({ a, b });
    assertEquals(flat(found[0].b), [1, 0, 0, 2]);
    assertEquals([found[1].a.shape, flat(found[1].a)], [[2], [1, 1]]);
  }
  const second = func.hessian((t: { a: Tensor; b: Tensor }) => f(t.a, t.b))({ a, b });
  assertEquals([flat(second.a.b), flat(second.b.b)], [[1, 0, 0, 1], [0, 0, 0, 0]]);
  assertEquals(flat(func.hessian((x: Tensor) => x.square())(a)), [2, 0, 0, 0, 0, 0, 0, 2]);
  const [, back] = func.vjp((x: Tensor) => ({ x: x.mul(2), sum: x.sum() }), a);
  assertEquals(flat(back({ x: Tensor.ones([2]), sum: Tensor.ones([]) })[0]), [3, 3]);
  const [value, along] = func.linearize((x: Tensor) => x.square(), a);
  assertEquals([flat(value), flat(along(b)), flat(along(a))], [[1, 4], [6, 16], [2, 8]]);
  const [, place] = func.jvp((x: Tensor) => x.argmax(), [a], [b]);
  assertEquals([place.dtype, await place.item()], ["int32", 0]);
});

testOnBackends(
  "compile's functions are differentiated and batched, by func, as they are written",
  () => {
    const f = (x: Tensor) => x.exp().mul(x.flip(0)), compiled = compile(f);
    const x = Tensor.linspace(-1, 1, 4).realize(), rows = Tensor.stack([x, x.mul(2)]);
    for (let call = 0; call < 3; call++) compiled(x.add(call));
    const transforms: ((f: (x: Tensor) => Tensor) => Tensor)[] = [
      (f) => func.jacrev(f)(x),
      (f) => func.jacfwd(f)(x),
      (f) => func.hessian((x: Tensor) => f(x).sum())(x),
      (f) => func.vmap(f)(rows),
      (f) => func.grad((rows: Tensor) => func.vmap(f)(rows).square().sum())(rows),
    ];
    for (const transformed of transforms) near(transformed(compiled), transformed(f));
    near(func.grad((w: Tensor) => compile((x: Tensor) => x.mul(w).sum())(x))(x), x);
    near(compiled(x), f(x));
  },
);

testOnBackends("derivatives go through complex tensors, as trees of two", async () => {
  const x = Tensor.fromHost([1, 2, 3, 4]), t = Tensor.fromHost([1, 0, -1, 2]);
  const [, change] = func.jvp((x: Tensor) => fft.rfft(x), [x], [t]);
  near(change.pairs(), fft.rfft(t).pairs());
  const power = func.vmap((z: fft.ComplexTensor) => z.absSquare().sum())(
    fft.rfft(x.reshape([2, 2])),
  );
  assertNumbers(flat(power), [10, 50], 1e-5);
  const slope = func.grad((z: fft.ComplexTensor) => z.absSquare().sum())(fft.rfft(x));
  near(slope.pairs(), fft.rfft(x).mul(2).pairs());
  const step = compile((z: fft.ComplexTensor) => z.mul(z));
  for (const k of [1, 2, 3]) {
    const z = new fft.ComplexTensor(Tensor.full([2], k), Tensor.ones([2]));
    const found = flat((await step(z)).pairs());
    assertNumbers(found, [k * k - 1, 2 * k, k * k - 1, 2 * k], 1e-5);
  }
});
