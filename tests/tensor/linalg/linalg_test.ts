/**
 * Linear algebra against PyTorch's values and gradients, which `tests/fixtures/ops/linalg.py` wrote:
 * both backends, both types.
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { compile, DTypeError, grad, linalg, manualSeed, ShapeError, Tensor } from "../../../mod.ts";
import { type Case, decode } from "../../conformance/fixture.ts";
import { testOnBackends, testOnCPU } from "../../opencl.ts";
import { assertNumbers, numbersOf } from "../numbers.ts";
import { checkCases } from "./cases.ts";

const t = (x: Tensor) => x.transpose(-1, -2);
const symmetric = (x: Tensor) => x.add(t(x));

function orderFrom(ord: number | string): linalg.MatrixOrder {
  return ord === "fro" || ord === "nuc" ? ord : decode(ord);
}

// deno-lint-ignore no-explicit-any -- arguments of a fixture
const operations: Record<string, (x: Tensor[], args: any[]) => Tensor[]> = {
  cholesky: ([a]) => [linalg.cholesky(a!)],
  choleskyUpper: ([a]) => [linalg.cholesky(a!, { upper: true })],
  inv: ([a]) => [linalg.inv(a!)],
  det: ([a]) => [linalg.det(a!)],
  slogdet: ([a]) => Object.values(linalg.slogdet(a!)),
  solve: ([a, b], [options]) => [linalg.solve(a!, b!, options)],
  luFactor: ([a]) => [linalg.luFactor(a!).lu],
  luSolve: ([a, b]) => [linalg.luSolve(linalg.luFactor(a!), b!)],
  choleskySolve: ([a, b]) => [linalg.choleskySolve(b!, linalg.cholesky(a!))],
  choleskyInverse: ([a]) => [linalg.choleskyInverse(linalg.cholesky(a!))],
  logdet: ([a]) => [linalg.logdet(a!)],
  tensorinv: ([a], [axes]) => [linalg.tensorinv(a!, axes)],
  tensorsolve: ([a, b]) => [linalg.tensorsolve(a!, b!)],
  eigvalshUpper: ([a]) => [linalg.eigvalsh(a!, { upper: true })],
  norm: ([a], [ord]) => [linalg.norm(a!, ord)],
  diag: ([a]) => [linalg.diag(a!)],
  blockDiag: (blocks) => [linalg.blockDiag(blocks)],
  vander: ([a], [columns]) => [linalg.vander(a!, columns)],
  vecdot: ([a, b]) => [linalg.vecdot(a!, b!)],
  solveLower: ([a, b]) => [linalg.solveTriangular(a!, b!, { upper: false })],
  solveUpper: ([a, b]) => [linalg.solveTriangular(a!, b!, { upper: true, left: false })],
  solveUnit: ([a, b]) => [linalg.solveTriangular(a!, b!, { upper: true, unitriangular: true })],
  eigvalsh: ([a]) => [linalg.eigvalsh(symmetric(a!))],
  eighRoot: ([a]) => {
    const { values, vectors } = linalg.eigh(symmetric(a!));
    return [vectors.mul(values.add(9).sqrt().unsqueeze(-2)).matmul(t(vectors))];
  },
  eigvals: ([a]) => {
    const values = linalg.eigvals(a!);
    return [values.abs().pow(3).sum(-1), values.mul(values).sum(-1).real];
  },
  eig: ([a]) => [linalg.eig(a!).vectors.abs().pow(4).sum([-2, -1])],
  qr: ([a]) => Object.values(linalg.qr(a!)),
  qrComplete: ([a]) => Object.values(linalg.qr(a!, { mode: "complete" })),
  lu: ([a]) => Object.values(linalg.lu(a!)),
  svdvals: ([a]) => [linalg.svdvals(a!)],
  svdRoot: ([a]) => {
    const { u, s, vh } = linalg.svd(a!, { fullMatrices: false });
    return [u.mul(s.add(1).sqrt().unsqueeze(-2)).matmul(vh)];
  },
  pinv: ([a], [options]) => [linalg.pinv(a!, options)],
  lstsq: ([a, b]) => [linalg.lstsq(a!, b!)],
  matrixExp: ([a]) => [linalg.matrixExp(a!)],
  matrixPower: ([a], [exponent]) => [linalg.matrixPower(a!, exponent)],
  vectorNorm: ([a], [ord]) => [linalg.vectorNorm(a!, { ord: decode(ord) })],
  matrixNorm: ([a], [ord, options]) => [linalg.matrixNorm(a!, orderFrom(ord), options)],
  cond: ([a], [ord]) => [linalg.cond(a!, ord)],
  cross: ([a, b], [axis]) => [linalg.cross(a!, b!, axis)],
  kron: ([a, b]) => [linalg.kron(a!, b!)],
  trace: ([a]) => [linalg.trace(a!)],
  diagonal: ([a], [offset]) => [linalg.diagonal(a!, offset)],
  diagonalEmbed: ([a], [offset]) => [linalg.diagonalEmbed(a!, offset)],
  tensordot: ([a, b], [axes]) => [linalg.tensordot(a!, b!, axes)],
  multiDot: (matrices) => [linalg.multiDot(matrices)],
  householder: ([a, b]) => [linalg.householder(a!, b!)],
  matrixRank: ([a], [options]) => [linalg.matrixRank(a!, options)],
};

testOnBackends("factors, solutions and their gradients are PyTorch's", (backend) => {
  const call = (c: Case, inputs: Tensor[]) => operations[c.op]!(inputs, [...c.args]);
  checkCases(backend, "linalg", call, { float64: 1e-10, float32: 2e-4, gradients: 20 });
});

/** The largest difference over the largest element. */
async function distance(a: Tensor, b: Tensor): Promise<number> {
  return await a.sub(b).abs().max().item() / Math.max(1, await b.abs().max().item());
}

testOnBackends("blocked factorizations give the matrix back", async () => {
  manualSeed(1);
  const n = 150, a = Tensor.randn([n, n]).realize(), b = Tensor.randn([n, 3]).realize();
  const spd = a.matmul(t(a)).add(Tensor.eye(n)).realize();
  const l = linalg.cholesky(spd);
  assert(await distance(l.matmul(t(l)), spd) < 1e-5, "cholesky");
  for (const [rows, columns] of [[n, n], [n, 70], [70, n]] as const) {
    const part = a.slice([0, rows], [0, columns]), { q, r } = linalg.qr(part);
    assert(await distance(q.matmul(r), part) < 1e-5, `qr of ${rows} x ${columns}`);
    const eye = Tensor.eye(q.shape[1]!);
    assert(await distance(t(q).matmul(q), eye) < 1e-5, `orthogonal, ${rows} x ${columns}`);
    assert(await distance(r, r.triu()) === 0, `a triangle, ${rows} x ${columns}`);
  }
  const factors = linalg.lu(a);
  assert(await distance(factors.p.matmul(factors.l).matmul(factors.u), a) < 1e-4, "lu");
  assert(await distance(spd.matmul(linalg.solve(spd, b)), b) < 1e-2, "solve");
  const x = linalg.solveTriangular(l, b, { upper: false });
  assert(await distance(l.matmul(x), b) < 1e-3, "lower triangle");
  const y = linalg.solveTriangular(t(l), b, { upper: true });
  assert(await distance(t(l).matmul(y), b) < 1e-3, "upper triangle");
});

testOnBackends("svd and eigh of 64 rows, of any rank, are orthogonal", async () => {
  manualSeed(2);
  const low = Tensor.randn([64, 5]).matmul(Tensor.randn([5, 40])).realize();
  for (const a of [low, t(low), low.mul(1e-12), low.zerosLike(), Tensor.randn([2, 64, 64])]) {
    const { u, s, vh } = linalg.svd(a), k = s.shape.at(-1)!;
    const first = u.slice(...u.shape.slice(0, -1).map(() => null), [0, k]);
    const rows = vh.slice(...vh.shape.slice(0, -2).map(() => null), [0, k]);
    assert(await distance(first.mul(s.unsqueeze(-2)).matmul(rows), a) < 1e-5);
    assert(await distance(t(u).matmul(u), Tensor.eye(u.shape.at(-1)!)) < 1e-5, "U");
    assert(await distance(vh.matmul(t(vh)), Tensor.eye(vh.shape.at(-1)!)) < 1e-5, "V");
  }
  assertEquals(await linalg.matrixRank(low).item(), 5);
  const m = low.matmul(t(low)), { values, vectors: v } = linalg.eigh(m);
  assert(await distance(v.mul(values.unsqueeze(-2)).matmul(t(v)), m) < 1e-5);
  assert(await distance(t(v).matmul(v), Tensor.eye(64)) < 1e-5);
});

testOnBackends("svd and eigh of 100 rows have orthogonal vectors, of any scale", async () => {
  manualSeed(3);
  const a = Tensor.randn([110, 100]).realize(), low = a.matmul(Tensor.randn([100, 7]));
  // Columns from 1 to 1e-14: squares of the last ones leave the range of float32.
  const graded = a.mul(Tensor.linspace(0, -14 * Math.LN10, 100).exp());
  const scaled = [a.mul(1e-15), a.mul(1e15), a.zerosLike()];
  for (const x of [a, graded, low.matmul(Tensor.randn([7, 100])), ...scaled]) {
    const { u, s, vh } = linalg.svd(x, { fullMatrices: false });
    const size = await x.abs().max().item() || 1;
    assert(await distance(u.mul(s.div(size).unsqueeze(-2)).matmul(vh), x.div(size)) < 3e-5);
    assert(await distance(t(u).matmul(u), Tensor.eye(100)) < 3e-5, "U");
    assert(await distance(vh.matmul(t(vh)), Tensor.eye(100)) < 3e-5, "V");
    const m = t(x.div(size)).matmul(x.div(size)).div(110);
    const { values, vectors: v } = linalg.eigh(m);
    assert(await distance(v.mul(values.unsqueeze(-2)).matmul(t(v)), m) < 3e-5);
    assert(await distance(t(v).matmul(v), Tensor.eye(100)) < 3e-5, "vectors");
  }
  const d = Tensor.arange(100).cast("float32");
  assert(await distance(linalg.eigvalsh(linalg.diag(d)), d) < 1e-5, "a diagonal");
});

testOnBackends("matrices without rows have factors, and a determinant of 1", async () => {
  const none = Tensor.zeros([2, 0, 0]);
  assertEquals(await linalg.det(none).toArray(), [1, 1]);
  assertEquals(await linalg.slogdet(none).sign.toArray(), [1, 1]);
  assertEquals([...linalg.inv(none).shape], [2, 0, 0]);
  assertEquals([...linalg.cholesky(none).shape], [2, 0, 0]);
  assertEquals([...linalg.svd(Tensor.zeros([3, 0])).u.shape], [3, 3]);
  assertEquals([...linalg.pinv(Tensor.zeros([3, 0])).shape], [0, 3]);
});

testOnBackends("a matrix without a factorization is named when the result is read", async () => {
  const good = [[2, 0], [0, 2]], indefinite = [[1, 2], [2, 1]], singular = [[1, 1], [1, 1]];
  const bad = Tensor.fromHost([good, indefinite]);
  const what = "batch element 1 is";
  const cholesky = () => linalg.cholesky(bad).toHost();
  await assertRejects(cholesky, RangeError, `${what} not positive definite`);
  for (const op of [linalg.inv, (a: Tensor) => linalg.solve(a, Tensor.ones([2, 1]))]) {
    const read = () => op(Tensor.fromHost([good, singular])).toHost();
    await assertRejects(read, RangeError, `${what} singular`);
  }
  assertEquals(await linalg.cholesky(Tensor.fromHost(good).mul(2)).toArray(), [[2, 0], [0, 2]]);
});

testOnBackends("norms have gradients of every order where a power has no slope", () => {
  for (const ord of [0.5, 1, 1.5, 2, 3, Infinity]) {
    for (const data of [[0, 0, 0], [0, 3, 4]]) {
      const x = Tensor.fromHost(data, { requiresGrad: true });
      const [first] = grad([linalg.vectorNorm(x, { ord })], [x], { createGraph: true });
      assertEquals(first!.toHostSync()[0], 0, `the gradient of order ${ord} at ${data}`);
      if (!first!.requiresGrad) continue;
      const [second] = grad([first!.sum()], [x]);
      const values = [...second!.toHostSync()];
      assert(values.every(Number.isFinite), `the second of order ${ord} at ${data}: ${values}`);
    }
  }
});

Deno.test("linalg refuses what is no matrix, in words", () => {
  const wide = Tensor.ones([2, 3]);
  assertThrows(() => linalg.inv(wide), ShapeError, "Cannot compute inv of shape [2, 3]");
  assertThrows(() => linalg.svd(Tensor.ones([3])), ShapeError, "the last two axes are a matrix's");
  const whole = Tensor.fromHost([[1]], { dtype: "int32" });
  assertThrows(() => linalg.det(whole), DTypeError, "Cannot compute det of int32");
  const eye = Tensor.eye(2);
  assertThrows(() => linalg.solve(eye, Tensor.ones([3, 1])), ShapeError, "as many rows");
  const typo = { uper: true } as unknown as linalg.CholeskyOptions;
  assertThrows(() => linalg.cholesky(eye, typo), TypeError, 'did you mean "upper"');
});

testOnBackends("the gradient of a singular determinant is its cofactors", () => {
  const a = Tensor.fromHost([[1, 2, 0], [2, 4, 0], [0.5, 1, 3]], { requiresGrad: true });
  linalg.det(a).backward();
  assertNumbers(numbersOf(a.grad!.contiguous()), [12, -6, 0, -6, 3, 0, 0, 0, 0], 1e-5);
});

testOnCPU("second derivatives of linalg are those of differences", () => {
  manualSeed(3);
  const [a, direction] = [1, 2].map(() => Tensor.randn([3, 3], { dtype: "float64" }).realize());
  const spd = a!.matmul(t(a!)).add(Tensor.eye(3, { dtype: "float64" })).realize();
  const turn = symmetric(direction!).realize();
  const functions: Record<string, (x: Tensor) => Tensor> = {
    cholesky: (x) => linalg.cholesky(x).pow(3).sum(),
    inv: (x) => linalg.inv(x).pow(3).sum(),
    det: (x) => linalg.det(x).pow(2),
    slogdet: (x) => linalg.slogdet(x).logabsdet.pow(2),
    qr: (x) => linalg.qr(x).r.pow(3).sum(),
    pinv: (x) => linalg.pinv(x).pow(3).sum(),
    eigh: (x) => linalg.eigh(x).values.pow(3).sum(),
    svd: (x) => linalg.svd(x).u.mul(linalg.svd(x).vh).abs().sum(),
    lu: (x) => linalg.lu(x).l.add(linalg.lu(x).u).pow(3).sum(),
  };
  for (const [name, f] of Object.entries(functions)) {
    const slope = (at: Tensor, createGraph = false) => {
      at.requiresGrad = true;
      return grad([f(at)], [at], { createGraph })[0]!.mul(turn).sum();
    };
    const x = spd.detach(), second = grad([slope(x, true)], [x])[0]!.mul(turn).sum();
    const step = 1e-5, up = slope(spd.add(turn.mul(step)).detach());
    const down = slope(spd.sub(turn.mul(step)).detach());
    assertNumbers(numbersOf(second), numbersOf(up.sub(down).div(2 * step)), 1e-4, name);
  }
});

testOnBackends("a compiled function solves and reports as a plain one does", async () => {
  const step = compile((a: Tensor) => linalg.inv(a).add(0));
  for (let k = 1; k < 5; k++) {
    const inverse = await step(Tensor.eye(2).mul(k)).toNumbers();
    assertEquals(inverse, [1 / k, 0, 0, 1 / k].map(Math.fround));
  }
  await assertRejects(() => step(Tensor.zeros([2, 2])).toHost(), RangeError, "singular");
});
