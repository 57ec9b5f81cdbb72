// Suite: alone; asks what all objects of the process come to.
/** The host's cost of a replay: its kernels have arguments of their own, which are set when they change. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { liveObjects, OpenCLError, withFaults } from "../../../ffi/mod.ts";
import { compile, manualSeed, memory, nn, noGrad, optim, profiler, Tensor } from "../../../mod.ts";
import { backendOf, isEager } from "../../../backend/internal.ts";
import { hasWideVectors } from "../../../backend/opencl/templates/parts/register_tile.ts";
import { nodeOf } from "../../../tensor/core/internals.ts";
import { countingCalls } from "../../ffi/counting_calls.ts";
import { openCLDevice, testOpenCL } from "../../opencl.ts";
import { learn } from "../training.ts";

/** The gradients of something that learns, compiled, and a step of it. */
function trainer(parameters: Tensor[], lossOf: (x: Tensor) => Tensor, shape: number[]) {
  const optimizer = new optim.Adam(parameters, { lr: 0.01 });
  const backward = (x: Tensor): Tensor => {
    const loss = lossOf(x);
    optimizer.zeroGrad();
    loss.backward();
    return loss;
  };
  const step = (x: Tensor): Tensor => learn(optimizer, lossOf(x));
  const x = Tensor.rand(shape).realize();
  return { parameters, backward: compile(backward), step: compile(step), x };
}

function mlp() {
  manualSeed(5);
  const model = new nn.Sequential(new nn.Linear(8, 8), new nn.ReLU(), new nn.Linear(8, 8));
  return trainer(model.parameters(), (x) => model.forward(x).square().mean(), [4, 8]);
}

function lstm() {
  manualSeed(5);
  const model = new nn.LSTM(8, 8), loss = (x: Tensor) => model.forward(x).output.square().mean();
  return trainer(model.parameters(), loss, [6, 2, 8]);
}

/** Gives gradients back. */
function drop(parameters: Tensor[]): void {
  for (const p of parameters) {
    p.grad!.dispose();
    p.grad = null;
  }
}

/** Calls of the driver in some replays, after enough of them for each place to have been seen. */
function callsOf(run: () => void, replays: number): ReadonlyMap<string, number> {
  for (let k = 0; k < 12; k++) run();
  using calls = countingCalls();
  for (let k = 0; k < replays; k++) run();
  return calls.counts;
}

for (const [name, make] of Object.entries({ "an MLP": mlp, "an LSTM": lstm })) {
  testOpenCL(`a replay of ${name} enqueues its kernels, and sets no argument`, () => {
    if (isEager()) return;
    const { backward, parameters, x } = make();
    const counts = callsOf(() => {
      backward(x).dispose();
      drop(parameters);
    }, 4);
    assert(counts.get("clEnqueueNDRangeKernel")! >= 8);
    assertEquals(counts.get("clSetKernelArg") ?? 0, 0);
  });
}

testOpenCL("ReplayedLaunches: a replay waits for uploads, and sets no argument", async () => {
  if (isEager()) return;
  const { backward, parameters, x } = mlp(), backend = backendOf(x.device);
  const { uploads } = backend.memory;
  const gradients = (): Tensor => {
    const loss = backward(x);
    drop(parameters);
    return loss;
  };
  for (let k = 0; k < 12; k++) gradients().dispose();
  // Few bytes go to the compute queue where host and device share their memory.
  using bulk = Tensor.zeros([2 ** 17]).contiguous().realize();
  const blockOf = (t: Tensor) => nodeOf(t).storage!.handle, block = blockOf(x);
  const copy = backend.writeBeside(
    [x, bulk].map(blockOf).map((block) => ({ block, bytes: new Uint8Array(block.nbytes) })),
  );
  assert(uploads.isPending(block));
  using calls = countingCalls();
  using loss = gradients();
  assertEquals([uploads.isPending(block), calls.counts.get("clSetKernelArg") ?? 0], [false, 0]);
  assertEquals(calls.counts.get("clEnqueueBarrierWithWaitList"), 1);
  assert(Number.isFinite(await loss.item()));
  copy[Symbol.dispose]();
});

testOpenCL("ReplayedLaunches: a replay sets what reads another input, and no argument else", () => {
  if (isEager()) return;
  const w = Tensor.rand([8, 8]).realize();
  const f = compile((x: Tensor) => x.matmul(w).relu().matmul(w).softmax(1).matmul(w).sum());
  const inputs = Array.from({ length: 5 }, () => Tensor.rand([4, 8]).realize());
  let call = 0;
  const counts = callsOf(() => f(inputs[call++ % inputs.length]!).dispose(), 10);
  // One kernel reads it: where it begins, and its memory object where that is another.
  assert((counts.get("clSetKernelArg") ?? 0) <= 10 * 2, `${counts.get("clSetKernelArg")}`);
});

testOpenCL("ReplayedLaunches: a step sets no more than where tensors are that it replaces", () => {
  if (isEager()) return;
  const { step, x, parameters } = mlp();
  const counts = callsOf(() => step(x).dispose(), 10);
  // A value, a gradient and two moments for each: where kernels read and where they write them. How
  // many of them move depends on what was allocated before.
  const places = 2 * 4 * parameters.length + 4;
  assert((counts.get("clSetKernelArg") ?? 0) <= 10 * places, `${counts.get("clSetKernelArg")}`);
});

testOpenCL("ReplayedLaunches: replays draw anew, and find indices out of range", () => {
  const noise = compile((x: Tensor) => Tensor.rand([64]).add(x)), x = Tensor.zeros([64]).realize();
  const seen = new Set(Array.from({ length: 8 }, () => String(noise(x).toHostSync())));
  assertEquals(seen.size, 8);
  const table = Tensor.rand([10, 4]).realize();
  const pick = compile((ids: Tensor) => table.gather(0, ids));
  const ids = (id: number) => Tensor.full([3, 4], id, { dtype: "int32" }).realize();
  for (let k = 0; k < 6; k++) pick(ids(k)).toHostSync();
  assertThrows(() => pick(ids(10)).toHostSync(), RangeError, "10");
  assertEquals(pick(ids(3)).shape, [3, 4]);
});

testOpenCL("ReplayedLaunches: replays have the blocks of their call", () => {
  const { step, x, parameters } = mlp(), plain = mlp();
  const inputs = Array.from({ length: 5 }, () => Tensor.rand([4, 8]).realize());
  const kept: Tensor[] = [];
  for (let call = 0; call < 60; call++) {
    const input = call % 7 === 0 ? x : inputs[(call * call) % 5]!;
    const [loss, expected] = [step(input), plain.step(input)];
    assertEquals(loss.toHostSync(), expected.toHostSync(), `call ${call}`);
    // Places move: results are kept, memory is taken, segments go back to the driver.
    if (call % 3 === 0) kept.push(loss, Tensor.rand([1 << (call % 13)]).realize());
    if (call % 11 === 0) kept.splice(0).forEach((tensor) => tensor.dispose());
    if (call === 30) memory.emptyCache();
    if (call % 5 === 0) parameters[0]!.assign(plain.parameters[0]!.add(0));
  }
});

testOpenCL("ReplayedLaunches: a replay that the driver refuses leaves the next one right", () => {
  if (isEager()) return;
  const w = Tensor.fromHost([1, 2, 3]).add(0).realize();
  const f = compile((x: Tensor) => x.mul(w).sum().add(x).exp().sum());
  const inputs = [1, 2, 3].map((v) => Tensor.full([3], v).realize());
  const expected = inputs.map((x) => f(x).toHostSync());
  for (let round = 0; round < 6; round++) inputs.forEach((x) => f(x).dispose());
  for (const call of ["clSetKernelArg", "clEnqueueNDRangeKernel"] as const) {
    const other = Tensor.full([3], 2).realize();
    assertThrows(() => withFaults([{ call, status: -5 }], () => f(other)), OpenCLError);
    assertEquals(inputs.map((x) => f(x).toHostSync()), expected);
    assertEquals(f(other).toHostSync(), expected[1]);
  }
});

testOpenCL("ReplayedLaunches: kernels of calls without replay go with their recordings", () => {
  if (isEager()) return;
  let factor = 1;
  const f = compile((x: Tensor) => x.mul(factor).exp().sum()), x = Tensor.rand([9]).realize();
  const twice = (): void => {
    factor++;
    for (let k = 0; k < 3; k++) f(x).dispose();
  };
  for (let k = 0; k < 70; k++) twice();
  const before = liveObjects().Kernel;
  for (let k = 0; k < 70; k++) twice();
  assert(liveObjects().Kernel - before <= 8, `${liveObjects().Kernel - before} kernels more`);
});

/** Layers whose weights another kernel prepares, on processors with wide vectors. */
const prepared = {
  "3x3 taps": {
    shape: [1, 64, 28, 28],
    layer: () => new nn.Conv2d(64, 64, 3, { padding: 1, bias: false }),
  },
  "steps of two": {
    shape: [1, 64, 28, 28],
    layer: () => new nn.Conv2d(64, 64, 3, { padding: 1, stride: 2, bias: false }),
  },
  "products": { shape: [64, 384], layer: () => new nn.Linear(384, 384, { bias: false }) },
} as const;

/** Two layers of a kind, and what lies between them. */
function layersOf(kind: keyof typeof prepared) {
  manualSeed(6);
  const { shape, layer } = prepared[kind];
  const model = new nn.Sequential(layer(), new nn.ReLU(), layer());
  const x = Tensor.rand([...shape]).realize();
  return { x, parameters: model.parameters(), forward: (x: Tensor) => model.forward(x) as Tensor };
}

const hasTransforms = (): boolean => !isEager() && hasWideVectors(backendOf(openCLDevice).target);

for (const kind of Object.keys(prepared) as (keyof typeof prepared)[]) {
  testOpenCL(
    `ReplayedLaunches makes what follows from weights once, until they change: ${kind}`,
    () => {
      const { x, parameters: [first], forward } = layersOf(kind);
      if (!hasTransforms()) return;
      const infer = compile((x: Tensor) => noGrad(() => forward(x)));
      // Results have few places, for which arguments are set once.
      const run = (count: number): void => {
        for (let k = 0; k < count; k++) infer(x).realize().dispose();
      };
      const kernels = (): number => {
        using calls = countingCalls();
        run(1);
        return calls.counts.get("clEnqueueNDRangeKernel")!;
      };
      const assertRight = (): void => {
        const right = noGrad(() => forward(x)).toHostSync();
        for (let k = 0; k < 3; k++) assertEquals(infer(x).toHostSync(), right);
      };
      run(12);
      assertEquals(kernels(), 2);
      assertRight();
      noGrad(() => first!.assign(first!.mul(2)));
      assertRight();
      run(6);
      assertEquals(kernels(), 2);
      nodeOf(first!).storage!.markWritten();
      assertEquals([kernels(), kernels()], [3, 2]);
      assertRight();
    },
  );
}

testOpenCL("ReplayedLaunches makes it in every call that learns", () => {
  const { x, parameters, forward } = layersOf("3x3 taps");
  if (!hasTransforms()) return;
  const { backward } = trainer(parameters, (x) => forward(x).square().mean(), [1]);
  const prepared = (): number => {
    using _trace = profiler.trace();
    for (let k = 0; k < 4; k++) {
      backward(x).dispose();
      drop(parameters);
    }
    _trace[Symbol.dispose]();
    return profiler.rows().filter(({ name }) => name.includes("prepare"))
      .reduce((sum, { calls }) => sum + calls, 0);
  };
  for (let k = 0; k < 12; k++) prepared();
  assert(prepared() >= 4 * 2);
});
