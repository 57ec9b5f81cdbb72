/** Gradients that leave while a replayed backward goes on; run by data_parallel_test.ts. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import {
  amp,
  compile,
  device,
  distributed,
  manualSeed,
  memory,
  nn,
  optim,
  profiler,
  Tensor,
} from "../../mod.ts";
import type { Gate } from "../../backend/internal.ts";
import { CommandQueue, Device } from "../../ffi/mod.ts";
import { SharedTurns } from "../../tensor/distributed/exchange/shared_turns.ts";
import { COPIES, DEVICE, lastSlices } from "../../backend/profiling/trace.ts";
import { backwardOf, callsOfStep } from "./enqueued_calls.ts";
import { assertSameEverywhere } from "./ways/everywhere.ts";
import { wayOf } from "./ways/way.ts";

const { way, args } = wayOf(import.meta.url);
const isApart = Deno.env.has("NETCL_TEST_APART");
if (isApart) {
  Object.defineProperty(Device.prototype, "hostUnifiedMemory", { get: () => false });
}
using _dev = device(args[0]!);
using group = distributed.init();
const reduceOn = args[1] as "host" | "device";
const { rank, size } = group;

type Batch = [x: Tensor, y: Tensor];
const x = Tensor.fromHost(
  Float32Array.from({ length: 48 }, (_, k) => Math.sin(k * 1.3 + 7 * rank)),
  { shape: [8, 6] },
);
const y = Tensor.fromHost(Int32Array.from({ length: 8 }, (_, k) => (k + rank) % 3));

const batches = [[x, y] as Batch];

/** Two layers have the same weights; the last one is used by rank 0 alone. */
class Model extends nn.Module {
  first = new nn.Linear(6, 16);
  second = new nn.Linear(16, 16);
  tied = this.second;
  last = new nn.Linear(16, 3);
  some = new nn.Linear(3, 3);
  norm = new nn.BatchNorm1d(16);

  override forward(x: Tensor): Tensor {
    const h = this.tied.forward(this.second.forward(this.first.forward(x).tanh()).tanh());
    const out = this.last.forward(this.norm.forward(h).tanh());
    return rank === 0 ? this.some.forward(out) : out;
  }
}

function makeModel(): Model {
  manualSeed(3);
  return new Model();
}

type Parts = {
  readonly model: Model;
  readonly parallel: distributed.DataParallel;
  readonly optimizer: optim.Optimizer;
  /** Compiled, or as it is. */
  readonly made: <A extends unknown[], R>(fn: (...args: A) => R) => (...args: A) => R;
};

async function bitsOf(model: Model): Promise<number[]> {
  const state = Object.values(model.stateDict());
  return (await Promise.all(state.map((tensor) => tensor.toNumbers()))).flat();
}

/** Eight steps; those of a compiled function are replayed from the third on. */
async function learned(isCompiled: boolean, way: (parts: Parts) => () => void): Promise<number[]> {
  const model = makeModel();
  using parallel = new distributed.DataParallel(model, group, { bucketBytes: 700, reduceOn });
  const optimizer = new optim.Adam(model.parameters(), { lr: 0.02 });
  const made: Parts["made"] = (fn) => isCompiled ? compile(fn) : fn;
  const step = way({ model, parallel, optimizer, made });
  for (let k = 0; k < 8; k++) step();
  return await bitsOf(model);
}

async function check(
  what: string,
  way: (parts: Parts) => () => void,
  tolerance = 0,
): Promise<void> {
  const plain = await learned(false, way), replayed = await learned(true, way);
  const worst = Math.max(...replayed.map((value, k) => Math.abs(value - plain[k]!)));
  assert(worst <= tolerance, `${what}: off by ${worst}`);
  await assertSameEverywhere(group, replayed, what);
}

function backward({ model, made }: Parts, factor = 1): (...batch: Batch) => void {
  return made(backwardOf(model, (loss) => loss.mul(factor)));
}

await check("one compiled function a step", (parts) => {
  const { parallel, optimizer, made } = parts, gradients = backward(parts);
  const update = made(() => {
    optimizer.step();
    optimizer.zeroGrad();
  });
  return () => {
    parallel.onEachDevice(batches, gradients);
    update();
  };
});
await check("gradients that a second function finishes", (parts) => {
  const { parallel, optimizer } = parts, first = backward(parts, 0.5), second = backward(parts, 2);
  return () => {
    optimizer.zeroGrad();
    parallel.onEachDevice(batches, (x, y) => {
      first(x, y);
      second(x, y);
    });
    optimizer.step();
  };
});
// Kernels whose results nobody reads are left out, and others are joined: a GPU's products then round otherwise.
const CHANGED_TOLERANCE = 1e-5;
await check("gradients that change behind the function", (parts) => {
  const { parallel, optimizer, model } = parts, gradients = backward(parts);
  return () => {
    optimizer.zeroGrad();
    parallel.onEachDevice(batches, (x, y) => {
      gradients(x, y);
      model.last.bias!.grad = Tensor.ones([3]);
      model.first.weight.grad!.assign(Tensor.full([16, 6], 0.25));
    });
    optimizer.step();
  };
}, CHANGED_TOLERANCE);
await check("gradients that are there before", (parts) => {
  const { parallel, optimizer } = parts, gradients = backward(parts);
  return () => {
    optimizer.zeroGrad();
    parallel.noSync(() => gradients(x, y));
    parallel.onEachDevice(batches, gradients);
    optimizer.step();
  };
});
await check("clipped gradients", (parts) => {
  const { parallel, optimizer, model } = parts, gradients = backward(parts);
  return () => {
    optimizer.zeroGrad();
    parallel.onEachDevice(batches, gradients);
    optim.clipGradNorm(model.parameters(), 0.05);
    optimizer.step();
  };
});
await check("GradScaler", (parts) => {
  const { parallel, optimizer, model, made } = parts;
  const scaler = new amp.GradScaler({ initScale: 256 });
  const gradients = made(backwardOf(model, (loss) => scaler.scale(loss)));
  return () => {
    optimizer.zeroGrad();
    parallel.onEachDevice(batches, gradients);
    scaler.step(optimizer);
    scaler.update();
  };
});
await check("a step that ends in an error on all ranks", (parts) => {
  const { parallel, optimizer } = parts, gradients = backward(parts);
  return () => {
    optimizer.zeroGrad();
    assertThrows(
      () =>
        parallel.onEachDevice(batches, (x, y) => {
          gradients(x, y);
          throw new RangeError("in the middle");
        }),
      RangeError,
    );
    optimizer.zeroGrad();
    parallel.onEachDevice(batches, gradients);
    optimizer.step();
  };
});

{
  // The first bucket is on its way to the host before the last kernels of backward are enqueued.
  const model = makeModel();
  using parallel = new distributed.DataParallel(model, group, { bucketBytes: 700, reduceOn });
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
  const gradients = compile(backwardOf(model));
  const step = () => {
    parallel.onEachDevice(batches, gradients);
    optimizer.zeroGrad();
  };
  for (let k = 0; k < 6; k++) step();
  const live = memory.stats().currentAllocated;
  profiler.reset();
  for (let k = 0; k < 10; k++) step();
  assertEquals(memory.stats().currentAllocated, live);
  assertEquals(profiler.counters().nativeAllocs, 0);
  {
    using _trace = profiler.trace();
    step();
  }
  // In the order in which they were enqueued.
  const slices = lastSlices().filter(({ tid }) => tid === DEVICE || tid === COPIES);
  const firstRead = slices.findIndex(({ name }) => name === "read");
  const later = slices.slice(firstRead).filter(({ tid }) => tid === DEVICE);
  assert(firstRead > 0 && later.length > 4, `${later.length} kernels behind the first read`);
}

if (args[0] === "cl" && reduceOn === "device" && !isApart) {
  // A loop that never gives the event loop a turn, beside a slow rank: the host opens gates by itself, before
  // more than a step's launches are behind one. (NVIDIA's driver blocks the thread behind some 1,000.)
  const model = makeModel();
  using parallel = new distributed.DataParallel(model, group, { bucketBytes: 700, reduceOn });
  const gradients = compile(backwardOf(model));
  const clock = new Int32Array(new SharedArrayBuffer(4)), steps = 40;
  const watch = watchGates();
  for (let k = 0; k < steps; k++) {
    if (rank === 1) Atomics.wait(clock, 0, 0, 3);
    parallel.onEachDevice(batches, gradients);
    for (const parameter of model.parameters()) parameter.grad = null;
  }
  const { launches, mostBehind } = watch();
  assert(launches > 10 * steps, `${launches} launches`);
  assert(mostBehind < 2.5 * launches / steps, `${mostBehind} of ${launches} behind a gate`);
}

/** Counts launches, and those behind gates that are closed, until it is called. */
function watchGates(): () => { readonly launches: number; readonly mostBehind: number } {
  // How many launches were before each.
  const { leave } = SharedTurns.prototype, closed = new Map<Gate | null, number>();
  let launches = 0, mostBehind = 0;
  SharedTurns.prototype.leave = function (turn, gate) {
    closed.set(gate, launches);
    const open = (): void => {
      closed.delete(gate);
      gate?.open();
    };
    leave.call(this, turn, { open });
  };
  const names = ["enqueueKernel", "enqueueKernelHeld"] as const;
  const genuine = names.map((name) => CommandQueue.prototype[name]);
  names.forEach((name, k) => {
    CommandQueue.prototype[name] = function (...args) {
      launches++;
      for (const before of closed.values()) mostBehind = Math.max(mostBehind, launches - before);
      genuine[k]!.apply(this, args);
    };
  });
  return () => {
    SharedTurns.prototype.leave = leave;
    names.forEach((name, k) => CommandQueue.prototype[name] = genuine[k]!);
    return { launches, mostBehind };
  };
}

/** Calls of the driver in one step besides launches, of a model with so many layers. */
function callsOf(layers: number): Record<string, number> {
  return callsOfStep(
    layers,
    (model) => new distributed.DataParallel(model, group, { reduceOn }),
    batches,
  );
}

if (args[0] === "cl" && !isApart) {
  // What travels is one copy, however many parameters and buffers there are. A mark of the device's
  // progress comes after some hundred launches, so one may be more.
  const few = callsOf(2), many = callsOf(24);
  for (const [name, calls] of Object.entries(few)) {
    assert(Math.abs(many[name]! - calls) <= 1, `${name}: ${calls} and ${many[name]}`);
    assert(calls <= 6, `${name}: ${calls}`);
  }
  // Small copies of a device that shares the host's memory are on the queue of its kernels.
  const ordering = ["clEnqueueMarkerWithWaitList", "clEnqueueBarrierWithWaitList"];
  if (reduceOn === "host") {
    for (const name of ordering) assert(few[name]! <= 1, `${name}: ${few[name]}`);
  }
}
console.log(`rank ${rank} of ${size}, ${way}: good`);
