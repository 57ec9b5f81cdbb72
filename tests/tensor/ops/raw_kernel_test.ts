/** Kernels of a user's own: as lazy, as recorded and as checked as the operations that we have. */
import { assert, assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import {
  type BackendName,
  checkpoint,
  compile,
  DTypeError,
  grad,
  KernelBuildError,
  nn,
  optim,
  profiler,
  rawKernel,
  realizeAll,
  ShapeError,
  Tensor,
  withDevice,
} from "../../../mod.ts";
import { backendOf, isEager } from "../../../backend/internal.ts";
import { testOnBackends, testOnCPU, testOpenCL } from "../../opencl.ts";
import { assertNumbers, numbersOf } from "../numbers.ts";
import { learn } from "../training.ts";

const like = (x: Tensor) => ({ shape: x.shape, dtype: x.dtype });

const axpy = rawKernel("axpy", {
  source: `// y comes before the numbers
kernel void axpy(global const float *a, __global const float* restrict b, global float* y, float s, int n) {
  const size_t i = get_global_id(0);
  y[i] = s * a[i] + b[i] * n;
}`,
  output: (a) => like(a),
  cpu: ([a, b], [y], [s, n]) => {
    for (let i = 0; i < y!.length; i++) y![i] = s! * Number(a![i]) + Number(b![i]) * n!;
  },
  gradient: ([g], _inputs, _outputs, [s, n]) => [g!.mul(s!), g!.mul(n!)],
});

/** Sine and cosine at once, and the sign as bool. */
const sincos = rawKernel("sincos_both", {
  source:
    `kernel void sincos_both(global const float* x, global float* s, global float* c, global uchar* sign) {
  const size_t i = get_global_id(0);
  s[i] = sin(x[i]); c[i] = cos(x[i]); sign[i] = x[i] > 0;
}`,
  output: (x) => [like(x), like(x), { shape: x.shape, dtype: "bool" as const }],
  cpu: ([x], [s, c, sign]) => {
    for (let i = 0; i < s!.length; i++) {
      s![i] = Math.sin(Number(x![i])), c![i] = Math.cos(Number(x![i]));
      sign![i] = Number(Number(x![i]) > 0);
    }
  },
  gradient: ([gs, gc], _inputs, [s, c]) => [gs!.mul(c!).sub(gc!.mul(s!))],
});

function assertNear(found: ArrayLike<number | bigint>, expected: readonly number[]): void {
  assertNumbers(found, expected, 1e-5);
}

function counted(fn: () => void): number {
  const before = profiler.counters().kernels;
  fn();
  return profiler.counters().kernels - before;
}

testOnBackends("rawKernel is fed by and feeds what fuses", async () => {
  const a = Tensor.fromHost([1, 2, 3]).mul(2);
  const b = Tensor.arange(6, { dtype: "float32" }).reshape([3, 2]).slice(null, 1);
  assertNear(await axpy(a, b, 0.5, 10).add(1).toHost(), [12, 33, 54]);
  const spread = axpy(Tensor.ones([2, 2]), Tensor.full([], 3).expand([2, 2]), 1, 1);
  assertNear(await spread.toHost(), [4, 4, 4, 4]);
});

testOnBackends("the outputs of one rawKernel come from one launch", async () => {
  if (isEager()) return;
  const x = Tensor.fromHost([0, 1, -2]).realize();
  const [s, c, sign] = sincos(x);
  assertEquals(sign!.dtype, "bool");
  assertEquals(counted(() => realizeAll([s!, c!, sign!])), 1);
  assertNear(await s!.toHost(), [0, Math.sin(1), Math.sin(-2)]);
  assertNear(await c!.toHost(), [1, Math.cos(1), Math.cos(-2)]);
  assertEquals(await sign!.toArray(), [false, true, false]);
  // In one expression, and by itself after that.
  const [s2, c2] = sincos(x);
  const sum = s2!.square().add(c2!.square());
  assertEquals(counted(() => sum.realize()), 2);
  assertNear(await sum.toHost(), [1, 1, 1]);
  assertNear(await c2!.toHost(), [1, Math.cos(1), Math.cos(-2)]);
  // Two calls are two launches.
  const both = sincos(x)[0]!.add(sincos(x.add(1))[1]!);
  const { sin, cos } = Math;
  assertNear(await both.toHost(), [cos(1), sin(1) + cos(2), sin(-2) + cos(-1)]);
});

testOnBackends("gradients of several outputs meet, also where one is not used", async () => {
  const x = Tensor.fromHost([0.5, -1], { requiresGrad: true });
  const [s, c, sign] = sincos(x);
  assertEquals(sign!.requiresGrad, false);
  s!.mul(2).add(c!).sum().backward();
  const expected = [0.5, -1].map((v) => 2 * Math.cos(v) - Math.sin(v));
  assertNear(await x.grad!.toHost(), expected);
  const [only] = grad([sincos(x)[1]!.sum()], [x]);
  assertNear(await only!.toHost(), [0.5, -1].map((v) => -Math.sin(v)));
  const [first] = grad([sincos(x)[0]!.sum()], [x], { createGraph: true });
  const [second] = grad([first!.sum()], [x]);
  assertNear(await second!.toHost(), [0.5, -1].map((v) => -Math.sin(v)));
  const z = Tensor.fromHost([0.5], { requiresGrad: true });
  checkpoint((v: Tensor) => sincos(v)[0]!.square(), z).sum().backward();
  assertNear(await z.grad!.toHost(), [2 * Math.sin(0.5) * Math.cos(0.5)]);
});

testOnBackends("a compiled step with a rawKernel trains as one that is not", async () => {
  const losses = async (isCompiled: boolean): Promise<number[]> => {
    const w = Tensor.fromHost([0.3, -0.2, 0.9], { requiresGrad: true });
    const sgd = new optim.SGD([w], { lr: 0.1 });
    const plain = (x: Tensor, s: number): Tensor => {
      return learn(sgd, () => axpy(w.mul(x), sincos(w)[0]!, s, 2).square().sum());
    };
    const step = isCompiled ? compile(plain) : plain;
    const found: number[] = [];
    for (let k = 0; k < 6; k++) {
      found.push(await step(Tensor.fromHost([1, k, 2]), k === 4 ? 3 : 0.5).item());
    }
    return found;
  };
  assertEquals(await losses(true), await losses(false));
});

testOpenCL("rawKernel takes blocks as they lie in memory objects, and makes none of them", () => {
  const { memory } = backendOf(), before = memory.pool.stats.subBuffers;
  // Of sizes that nothing else has: their places have no memory object yet.
  for (let n = 3001; n < 3005; n++) {
    const a = Tensor.arange(n, { dtype: "float32" }).realize();
    const kept = axpy(a, a.mul(2), 2, 1).realize(),
      twice = compile((x: Tensor) => axpy(x, x, 1, 1));
    for (let k = 0; k < 3; k++) assertEquals(numbersOf(twice(kept))[n - 1], 8 * (n - 1));
    assertEquals(numbersOf(kept)[n - 1], 4 * (n - 1));
  }
  assertEquals(memory.pool.stats.subBuffers, before);
});

testOnBackends("element types are those that are declared", async () => {
  for (const [dtype, C] of [["int32", "int"], ["int64", "long"], ["uint8", "uchar"]] as const) {
    const twice = rawKernel("twice", {
      source:
        `kernel void twice(global const T* x, global T* y) { const size_t i = get_global_id(0); y[i] = x[i] + x[i]; }`,
      buildOptions: `-DT=${C}`,
      output: (x) => like(x),
      cpu: ([x], [y]) => x!.forEach((v, i) => y![i] = v as number + (v as number)),
    });
    const x = Tensor.fromHost([1, 2, 3], { dtype });
    assertEquals(await twice(x).toArray(), [2, 4, 6], dtype);
    const e = assertThrows(() => twice(Tensor.ones([3])), DTypeError);
    assert(/twice.*input 0.*float32.*x.*cast/s.test(e.message), e.message);
  }
  const halved = rawKernel("halved", {
    source:
      "kernel void halved(global const ushort* x, global ushort* y) { y[get_global_id(0)] = x[get_global_id(0)]; }",
    output: (x) => like(x),
    cpu: ([x], [y]) => x!.forEach((v, i) => y![i] = v),
  });
  const two = Tensor.fromHost([1.5, -2], { dtype: "bfloat16" });
  assertEquals(await halved(two).toArray(), [1.5, -2]);
});

testOnBackends("empty tensors, no tensors, and a work-group of one's own", async () => {
  assertEquals(await axpy(Tensor.ones([0, 3]), Tensor.ones([0, 3]), 1, 1).toArray(), []);
  const total = rawKernel("total", {
    source: `kernel void total(global const float* x, global float* y, int n) {
  float sum = 0; for (int i = 0; i < n; ++i) sum += x[i]; if (get_global_id(0) == 0) y[0] = sum; }`,
    output: () => ({ shape: [], dtype: "float32" }),
    global: () => [8],
    local: [4],
    cpu: ([x], [y]) => y![0] = [...x!].reduce<number>((a, b) => a + Number(b), 0),
  });
  assertEquals(await total(Tensor.arange(5, { dtype: "float32" }), 5).item(), 10);
  assertEquals(await total(Tensor.ones([0]), 0).item(), 0);
  const ramp = rawKernel("ramp", {
    source:
      "kernel void ramp(global int* y, int first) { y[get_global_id(0)] = get_global_id(0) + first; }",
    output: () => ({ shape: [4], dtype: "int32" }),
    cpu: (_, [y], [first]) => {
      for (let i = 0; i < 4; i++) y![i] = i + first!;
    },
  });
  assertEquals(await ramp(7).toArray(), [7, 8, 9, 10]);
});

testOnBackends("a rawKernel says what was declared", () => {
  const x = Tensor.ones([2]);
  const fails = (fn: () => unknown, pattern: RegExp): void =>
    assertMatch(assertThrows(fn, Error).message, pattern);
  fails(() => axpy(x, 1, 1), /axpy with 1 tensor: it declares 3 pointers \(global const float \*a/);
  fails(() => axpy(1, 1), /axpy with 0 tensors: its output\(\) takes 1/);
  fails(() => axpy(x, x, 1), /axpy with 1 number: it declares 2 \(float s, int n\)/);
  fails(() => axpy(x, x, 1, 1.5), /axpy with the number 1.5: it declares "int n"/);
  fails(() => axpy(x, 1, x, 1), /axpy with .* behind a number as argument 2/);
  fails(() => axpy(x, "a" as unknown as number), /as argument 1/);
  const made = (source: string, more = {}) =>
    rawKernel("k", { source, output: (x) => like(x), cpu: () => {}, ...more });
  const taking = (parameters: string) => made(`kernel void k(${parameters}) {}`);
  fails(() => made("kernel void other(global float* x) {}"), /k: the source declares other/);
  fails(() => taking("local float* x"), /"local float\* x", memory of a work-group/);
  fails(() => taking("int n, global float* x"), /behind the number "int n"/);
  fails(() => taking("global float* x, float4 v"), /"float4 v", which is no number/);
  const constant = taking("global float* x, global const float* y");
  fails(() => constant(x), /its output 0 as "global const float\* y"/);
  const plain = "kernel void k(global const float* x, global float* y) {}";
  fails(() => made(plain, { local: [3] })(x), /2\] work-items in groups of \[3\]/);
  fails(() => made(plain, { global: () => [0] })(x), /nobody would write/);
  const negative = made(plain, { output: () => ({ shape: [-1], dtype: "float32" }) });
  assertThrows(() => negative(x), ShapeError);
  fails(() => made(plain, { outputs: 1 }), /outputs/);
  x.requiresGrad = true;
  fails(() => made(plain)(x).sum().backward(), /backward through the kernel k: it has no gradient/);
  const wrong = made(plain, { gradient: () => [Tensor.ones([3])] });
  assertThrows(() => wrong(x).sum().backward(), ShapeError, "k: its gradient gave shape [3]");
});

testOpenCL("a rawKernel that does not compile is named, with its lines", async () => {
  const bad = rawKernel("misspelt", {
    source: "kernel void misspelt(global float* y) {\n  y[0] = undeclared;\n}",
    output: () => ({ shape: [1], dtype: "float32" }),
  });
  const error = await assertRejects(async () => await bad().toHost(), KernelBuildError);
  assert(/kernel misspelt:[\s\S]*undeclared/.test(error.message), error.message);
});

testOpenCL("numbers of a rawKernel are no part of its text, and traces say its name", async () => {
  const x = Tensor.ones([3]).realize();
  await axpy(x, x, 1, 2).toHost();
  const before = profiler.counters().programsBuilt;
  for (let k = 0; k < 4; k++) assertNear(await axpy(x, x, k, 2).toHost(), [k + 2, k + 2, k + 2]);
  assertEquals(profiler.counters().programsBuilt, before);
  const path = await Deno.makeTempFile({ suffix: ".json" });
  {
    using _trace = profiler.trace(path);
    await axpy(x, x, 9, 2).toHost();
  }
  const { traceEvents } = JSON.parse(await Deno.readTextFile(path));
  await Deno.remove(path);
  assert(traceEvents.some(({ name }: { name: string }) => name === "axpy"));
});

testOpenCL("a layer with a rawKernel is the same on both backends", () => {
  const run = (backend: BackendName): number[] =>
    withDevice(backend, () => {
      const layer = new nn.Linear(3, 2);
      for (const p of layer.parameters()) p.assign(p.fullLike(0.25));
      const y = layer.forward(axpy(Tensor.ones([4, 3]), Tensor.ones([4, 3]), 2, 3));
      y.sum().backward();
      return numbersOf(layer.weight.grad!);
    });
  assertEquals(run("cl"), run("cpu"));
});

testOpenCL("a kernel of one's own may have any comment, also one of ours", async () => {
  const noted = rawKernel("noted", {
    source: `//@ author somebody
kernel void noted(global const float* x, global float* y) { //@ twice
  y[get_global_id(0)] = 2 * x[get_global_id(0)];
}`,
    output: (x) => like(x),
  });
  assertEquals(await noted(Tensor.fromHost([1, 2, 3])).toArray(), [2, 4, 6]);
});

testOnCPU("a cpu function that goes on after an await is refused", async () => {
  const later = rawKernel("later", {
    source: "",
    output: (x) => like(x),
    cpu: (async (_: unknown, [y]: Float32Array[]) => {
      await Promise.resolve();
      y!.fill(1);
    }) as never,
  });
  const computed = () => later(Tensor.ones([2])).toHost();
  await assertRejects(async () => await computed(), TypeError, "later by an asynchronous function");
});
