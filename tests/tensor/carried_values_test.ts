/**
 * Values that a loop passes on from step to step without reading them are computed once a step: they hold no
 * former ones, and the hundredth step does what the tenth does.
 */
import { assert } from "@std/assert";
import { memory, noGrad, optim, profiler, Tensor } from "../../mod.ts";
import { isEager } from "../../backend/internal.ts";
import { testOnBackends } from "../opencl.ts";
import { learn } from "./training.ts";

const SIZE = 1024, ROWS = 8;

/** Makes a step, which gives what to read of it. */
type Program = () => (k: number) => Tensor;

const weights = (): Tensor => Tensor.ones([SIZE], { requiresGrad: true });
const sampled = (k: number): Tensor => Tensor.fromHost(new Float32Array(SIZE).fill(k % 5));

const programs: Record<string, Program> = {
  "a running mean, of which a part is read": () => {
    let mean = Tensor.zeros([SIZE]);
    return (k) => {
      mean = mean.mul(0.5).add(sampled(k));
      return mean.mul(2).sum();
    };
  },
  "a running mean of weights, in a loss": () => {
    const w = weights(), sgd = new optim.SGD([w], { lr: 0.1 });
    let mean = Tensor.zeros([SIZE]);
    return () => {
      mean = mean.mul(0.5).add(w.detach());
      learn(sgd, w.sub(mean.mul(0.25)).square().sum());
      return w.sum();
    };
  },
  "a queue of keys, in a loss": () => {
    const w = weights(), sgd = new optim.SGD([w], { lr: 0.1 });
    let queue = Tensor.zeros([ROWS, SIZE / ROWS]);
    return () => {
      sgd.zeroGrad();
      const rows = w.reshape([ROWS, SIZE / ROWS]), keys = noGrad(() => rows.mul(0.5));
      rows.matmul(queue.transpose()).add(rows.sum()).mean().backward();
      sgd.step();
      queue = Tensor.concat([queue.slice([2, null]), keys.slice([0, 2])]);
      return w.sum();
    };
  },
};

/** Bytes that steps hold at most, and bytes that they move, early and late. */
function run(program: Program) {
  const step = program();
  const part = (from: number, to: number): { held: number; moved: number } => {
    memory.resetPeakStats();
    const { bytesMoved } = profiler.counters();
    for (let k = from; k < to; k++) assert(Number.isFinite(step(k).itemSync()));
    const held = memory.stats().peakRequestedBytes;
    return { held, moved: profiler.counters().bytesMoved - bytesMoved };
  };
  part(0, 16);
  return { early: part(16, 32), late: part(32, 48) };
}

testOnBackends("what steps pass on unread is computed once a step", () => {
  if (isEager()) return;
  for (const [name, program] of Object.entries(programs)) {
    const { early, late } = run(program);
    assert(late.moved <= early.moved * 1.3, `${name}: ${early.moved} bytes moved, ${late.moved}`);
    assert(late.held <= early.held + 8 * 4 * SIZE, `${name}: ${early.held} held, ${late.held}`);
  }
});
