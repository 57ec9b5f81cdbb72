import { assert, assertEquals, assertInstanceOf } from "@std/assert";
import {
  amp,
  compile,
  manualSeed,
  memory,
  nn,
  optim,
  setDeterministic,
  Tensor,
} from "../../../mod.ts";
import { cl, replaceSymbols } from "../../../ffi/library/library.ts";
import {
  beginInterruption,
  completeInterruption,
  InterruptedError,
  resetInterruption,
  throwIfInterrupted,
} from "../../../backend/lifecycle/interruption.ts";
import { paperGPU, withPaperDevice } from "../../backend/paper_device.ts";
import { withDeviceType } from "../../backend/opencl/fixture.ts";
import { testOnBackends, testOpenCL } from "../../opencl.ts";
import { GPT, ResNet } from "../../../bench/peers/models.ts";
import { UNet, ViT } from "../../../bench/peers/wild_models.ts";

/** A model, an optimizer of it, and a batch. */
interface Parts {
  readonly model: nn.Module;
  readonly optimizer: optim.Optimizer;
  readonly x: Tensor;
  readonly lossOf: (output: Tensor) => Tensor;
}

const ids = (size: number, shape: number[]): Tensor => Tensor.randint(0, size, shape).realize();
const sizes = { vocabulary: 65, context: 128, width: 128, heads: 4, layers: 3 };
const squares = (output: Tensor): Tensor => output.square().mean();

const works: Record<string, () => Parts> = {
  "a GPT with AdamW": () => {
    const model = new GPT(sizes), x = ids(65, [16, 128]);
    const lossOf = (output: Tensor) => output.crossEntropy(x.flatten());
    return { model, optimizer: new optim.AdamW(model.parameters()), x, lossOf };
  },
  "a ResNet with momentum": () => {
    const model = new ResNet([16, 32], 2), x = Tensor.rand([16, 3, 32, 32]).realize();
    const optimizer = new optim.SGD(model.parameters(), { lr: 0.01, momentum: 0.9 });
    return { model, optimizer, x, lossOf: squares };
  },
  "a vision transformer with AdamW": () => {
    const model = new ViT({ side: 32, patch: 4, width: 96, heads: 3, layers: 3 });
    const optimizer = new optim.AdamW(model.parameters());
    return { model, optimizer, x: Tensor.rand([16, 3, 32, 32]).realize(), lossOf: squares };
  },
  "a U-Net with Adam": () => {
    const model = new UNet([8, 16, 32]), optimizer = new optim.Adam(model.parameters());
    return { model, optimizer, x: Tensor.rand([4, 3, 64, 64]).realize(), lossOf: squares };
  },
  "an embedding": () => {
    const model = new nn.Embedding(20_000, 64),
      optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
    return { model, optimizer, x: ids(20_000, [512]), lossOf: (output) => output.sum() };
  },
};

function stepOf({ model, optimizer, lossOf }: Parts, precision: "float32" | "bfloat16") {
  return (x: Tensor): Tensor => {
    const loss = amp.autocast(precision, () => lossOf(model.forward(x).cast("float32")));
    optimizer.zeroGrad();
    loss.backward();
    optimizer.step();
    return loss;
  };
}

/** The most bytes that tensors hold in steps behind the first ones. */
function peakOf(call: (x: Tensor) => Tensor, x: Tensor): number {
  for (let k = 0; k < 5; k++) call(x).realize().dispose();
  memory.resetPeakStats();
  for (let k = 0; k < 3; k++) call(x).realize().dispose();
  return memory.stats().peakAllocated;
}

/** Peaks of a step as it is written, and compiled, as a GPU with matrix units plans them. */
function peaks(work: string, precision: "float32" | "bfloat16"): [plain: number, compiled: number] {
  const found: number[] = [];
  const device = paperGPU({ warps: true, warpgroups: true, matrixUnits: "mma" }, {
    localMemory: 232448,
  });
  for (const isCompiled of [false, true]) {
    withPaperDevice(device, () => {}, () => {
      const parts = works[work]!(), step = stepOf(parts, precision);
      found.push(peakOf(isCompiled ? compile(step) : step, parts.x));
    }, { custom: () => {} });
  }
  return found as [number, number];
}

// What lies in one place for good has gaps between its lifetimes.
const GAPS = 1.05;

for (const work of Object.keys(works)) {
  testOpenCL(`compile: ${work} holds at most what its step does as it is written`, () => {
    setDeterministic(true);
    for (const precision of ["float32", "bfloat16"] as const) {
      const [plain, compiled] = peaks(work, precision);
      assert(compiled <= GAPS * plain, `${precision}: ${compiled} bytes, ${plain} as written`);
    }
  });
}

testOpenCL("realize: a table's next value lies where its gradient did", () => {
  setDeterministic(true);
  const table = 20_000 * 64 * 4;
  for (const peak of peaks("an embedding", "float32")) assert(peak < 2.1 * table, `${peak} bytes`);
});

/** Parameters after some steps, and the losses. */
function learned(work: string, isCompiled: boolean): number[][] {
  manualSeed(3);
  const parts = works[work]!(),
    step = stepOf(parts, "float32"),
    call = isCompiled ? compile(step) : step;
  const losses = Array.from({ length: 5 }, () => call(parts.x).itemSync() as number);
  return [losses, ...[...parts.model.parameters()].map((p) => [...p.toHostSync("float32")])];
}

/** A model whose gradients are products, sums of rows, a convolution's, with their updates in the same kernels. */
works["a small net"] = () => {
  const convolution = new nn.Conv2d(2, 8, 3), linear = new nn.Linear(8 * 36, 96);
  const model = new nn.Sequential(convolution, new nn.ReLU(), new nn.Flatten(), linear);
  const x = Tensor.rand([128, 2, 8, 8]).realize();
  return { model, optimizer: new optim.AdamW(model.parameters()), x, lossOf: squares };
};

for (const work of ["a small net", "an embedding"]) {
  testOpenCL(
    `compile: ${work} learns the same on a GPU, where next values lie in former ones' places`,
    () =>
      withDeviceType("gpu", () => {
        setDeterministic(true);
        assertEquals(learned(work, true), learned(work, false));
        return Promise.resolve();
      }),
  );
}

testOnBackends("compile: a former value that somebody has stays as it was", () => {
  const state = Tensor.arange(6, { dtype: "float32" }).realize();
  const step = compile(() => {
    state.assign(state.mul(2).add(1));
  });
  const seen: Tensor[] = [], wanted: number[][] = [];
  for (let k = 0; k < 6; k++) {
    step();
    wanted.push([...state.toHostSync("float32")]);
    if (k % 2 === 0) seen.push(state.detach());
  }
  assertEquals(seen.map((t) => [...t.toHostSync("float32")]), [wanted[0], wanted[2], wanted[4]]);
  assert(wanted[4]![0] !== wanted[5]![0]);
});

testOnBackends(
  "compile: what was computed from a former value before the call is as it was",
  () => {
    const state = Tensor.ones([5]).realize();
    const step = compile(() => {
      state.assign(state.add(1));
    });
    for (let k = 0; k < 4; k++) step();
    const pending = state.mul(10);
    step();
    step();
    assertEquals([...pending.toHostSync("float32")], Array(5).fill(50));
    assertEquals([...state.toHostSync("float32")], Array(5).fill(7));
  },
);

testOpenCL(
  "compile: an interrupt in the midst of a step leaves all parameters as before, or as behind it",
  () =>
    withDeviceType("gpu", () => {
      setDeterministic(true);
      const parts = works["a small net"]!(), call = compile(stepOf(parts, "float32"));
      const values = () => [...parts.model.parameters()].map((p) => [...p.toHostSync("float32")]);
      for (let k = 0; k < 4; k++) call(parts.x).realize().dispose();
      const genuine = cl;
      let launches = 0, at = Infinity, thrown = 0;
      const former = replaceSymbols({
        ...genuine,
        // As where the host is held back behind each launch: it is told of the interrupt there.
        clEnqueueNDRangeKernel: (...args: Parameters<typeof genuine.clEnqueueNDRangeKernel>) => {
          const status = genuine.clEnqueueNDRangeKernel(...args);
          if (++launches === at && beginInterruption()) completeInterruption();
          throwIfInterrupted();
          return status;
        },
      });
      try {
        call(parts.x).realize().dispose();
        const all = launches;
        assert(all > 5, `${all} launches`);
        for (let k = 1; k <= all; k++) {
          const before = values();
          launches = 0;
          at = k;
          try {
            call(parts.x).realize().dispose();
          } catch (error) {
            assertInstanceOf(error, InterruptedError);
            thrown++;
          }
          at = Infinity;
          resetInterruption();
          const changed = values().map((list, p) =>
            list.some((value, i) => value !== before[p]![i])
          );
          assertEquals(new Set(changed).size, 1, `interrupted at ${k} of ${all}: ${changed}`);
        }
        assert(thrown > 0);
      } finally {
        replaceSymbols(former);
      }
      return Promise.resolve();
    }),
);
