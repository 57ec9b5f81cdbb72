import { assert, assertEquals, assertThrows } from "@std/assert";
import {
  amp,
  compile,
  grad,
  manualSeed,
  memory,
  nn,
  noGrad,
  optim,
  profiler,
  realizeAll,
  ShapeError,
  Tensor,
} from "../../../mod.ts";
import { assertClose, Case, fixture } from "../../fixtures/pytorch.ts";
import { testOnBackends, testOnCPU } from "../../opencl.ts";
import { assertNumbers, leaf } from "../numbers.ts";
import { learn } from "../training.ts";

const both = { numLayers: 2, bidirectional: true, batchFirst: true };
const layers: Record<string, () => nn.RNN | nn.LSTM | nn.GRU> = {
  lstm: () => new nn.LSTM(4, 6, { numLayers: 2 }),
  lstm_both: () => new nn.LSTM(4, 6, both),
  lstm_plain: () => new nn.LSTM(4, 6, { bias: false }),
  gru: () => new nn.GRU(4, 6, { numLayers: 2 }),
  gru_both: () => new nn.GRU(4, 6, both),
  gru_plain: () => new nn.GRU(4, 6, { bias: false }),
  rnn: () => new nn.RNN(4, 6, { numLayers: 2 }),
  rnn_relu: () => new nn.RNN(4, 6, { nonlinearity: "relu", bidirectional: true }),
};

for (const [name, make] of Object.entries(layers)) {
  testOnBackends(`${name}: outputs, states and gradients are PyTorch's`, async (backend) => {
    const expected = new Case(await fixture("recurrent", backend), name);
    const model = make();
    model.loadStateDict(expected.state);
    assertEquals(Object.keys(model.stateDict()).sort(), Object.keys(expected.state).sort());
    await expected.check(({ x, h, c }) => {
      const { output, state } = model.forward(x!, c ? [h!, c] : [h!]);
      return { output, h: state[0]!, ...(c && { c: state[1]! }) };
    }, model);
    const x = expected.get("in.x");
    await assertClose(model.forward(x).output, expected.get("zero.output"), 2e-6, "zero state");
    const single = model.forward(x.slice(null, 0)).output;
    await assertClose(single, expected.get("single.output"), 2e-6, "one sequence");
  });
}

testOnBackends("cells: a step and its gradients are PyTorch's", async (backend) => {
  const run = await fixture("recurrent", backend);
  const lstm = new nn.LSTMCell(4, 6), gru = new nn.GRUCell(4, 6), rnn = new nn.RNNCell(4, 6);
  const load = (model: nn.Module<never[], unknown>, name: string): Case => {
    const expected = new Case(run, name);
    model.loadStateDict(expected.state);
    return expected;
  };
  await load(lstm, "lstm_cell").check(({ x, h, c }) => {
    const [nextH, nextC] = lstm.forward(x!, [h!, c!]);
    return { h: nextH!, c: nextC! };
  }, lstm);
  await load(gru, "gru_cell").check(({ x, h }) => ({ h: gru.forward(x!, h) }), gru);
  await load(rnn, "rnn_cell").check(({ x, h }) => ({ h: rnn.forward(x!, h) }), rnn);
  assertEquals(gru.forward(Tensor.ones([4])).shape, [6]);
});

/** The weights of a layer, under the names that a cell has for them. */
function stateOfCell(layer: nn.RNN | nn.LSTM | nn.GRU): Record<string, Tensor> {
  const weights = Object.entries(layer.stateDict());
  return Object.fromEntries(weights.map(([name, value]) => [name.replace("_l0", ""), value]));
}

testOnBackends("a cell, step by step, is the layer", async () => {
  const x = Tensor.randn([7, 2, 4]).realize();
  const layer = new nn.LSTM(4, 5), cell = new nn.LSTMCell(4, 5);
  cell.loadStateDict(stateOfCell(layer));
  let state: Tensor[] | undefined;
  const steps = x.split(1).map((step) => (state = cell.forward(step.squeeze(0), state))[0]!);
  const { output, state: last } = layer.forward(x);
  await assertClose(output, Tensor.stack(steps), 1e-6, "outputs");
  await assertClose(last[1]!.squeeze(0), state![1]!, 1e-6, "the last c");
});

testOnCPU("recurrent layers: second derivatives are those of cells", async () => {
  for (const kind of ["lstm", "gru", "rnn"] as const) {
    manualSeed(1);
    const make = { lstm: nn.LSTM, gru: nn.GRU, rnn: nn.RNN }[kind];
    const layer = new make(3, 4);
    const cell = new { lstm: nn.LSTMCell, gru: nn.GRUCell, rnn: nn.RNNCell }[kind](3, 4);
    cell.loadStateDict(stateOfCell(layer));
    const penalty = (x: Tensor, run: (x: Tensor) => Tensor): Tensor => {
      const [first] = grad([run(x).square().sum()], [x], { createGraph: true });
      return grad([first!.square().sum()], [x])[0]!;
    };
    const x = leaf(Tensor.randn([4, 2, 3]).realize());
    const whole = penalty(x, (x) => layer.forward(x).output);
    const stepwise = penalty(x, (x) => {
      let state: Tensor | Tensor[] | undefined;
      return Tensor.stack(
        x.split(1).map((step) => {
          state = cell.forward(step.squeeze(0), state as never);
          return Array.isArray(state) ? state[0]! : state;
        }),
      );
    });
    await assertClose(whole, stepwise, 1e-5, kind);
  }
});

testOnBackends("recurrent layers learn the same in compile()", async () => {
  for (const make of [nn.LSTM, nn.GRU]) {
    const x = Tensor.randn([3, 6, 8]).realize();
    const curve = async (wrap: typeof compile): Promise<number[]> => {
      manualSeed(3);
      const rnn = new make(8, 8, { numLayers: 2, batchFirst: true, dropout: 0.2 });
      const adam = new optim.Adam(rnn.parameters(), { lr: 1e-2 });
      const step = wrap((x: Tensor) => {
        return learn(adam, nn.mse(rnn.forward(x).output, x));
      });
      const losses: number[] = [];
      for (let i = 0; i < 8; i++) losses.push(await step(x).item());
      return losses;
    };
    const [plain, compiled] = [await curve((fn) => fn), await curve(compile)];
    assertEquals(compiled, plain);
    assert(plain.at(-1)! < plain[0]!);
  }
});

testOnBackends("a step of an LSTM is few kernels", () => {
  const kernels = (length: number): number => {
    const lstm = new nn.LSTM(4, 8), x = Tensor.randn([length, 2, 4]).realize();
    profiler.reset();
    const { output } = lstm.forward(x);
    output.sum().backward();
    realizeAll(lstm.parameters().map((weight) => weight.grad!));
    return profiler.counters().kernels;
  };
  // The same joins of steps, so that the difference is steps alone.
  assert((kernels(8) - kernels(4)) / 4 <= 5, `${kernels(8)} for 8, ${kernels(4)} for 4`);
});

testOnBackends("a training step of recurrent layers leaves nothing behind", async () => {
  for (const make of [nn.LSTM, nn.GRU, nn.RNN]) {
    const rnn = new make(4, 8, { numLayers: 2, bidirectional: true });
    const adam = new optim.Adam(rnn.parameters());
    const x = Tensor.randn([5, 2, 4]).realize();
    const held: number[] = [];
    for (let step = 0; step < 4; step++) {
      using output = rnn.forward(x).output;
      using loss = learn(adam, output.square().mean());
      await loss.item();
      held.push(memory.stats().currentAllocated);
    }
    assert(held.slice(2).every((bytes) => bytes <= held[1]!), `${make.name}: ${held}`);
    adam.dispose();
    rnn.dispose();
  }
});

testOnBackends("the state of a recurrent layer is that of its call", async () => {
  const lstm = new nn.LSTM(4, 8), x = Tensor.randn([5, 2, 4]).realize();
  const adam = new optim.Adam(lstm.parameters(), { lr: 0.1 });
  const expected = await lstm.forward(x).state[1]!.toHost();
  const result = lstm.forward(x);
  result.output.sum().backward();
  adam.step();
  // Other kernels than before may round the last digit otherwise; a step of Adam changes much more.
  assertNumbers(await result.state[1]!.toHost(), expected, 1e-6);
  assert(result.state === result.state);
  assertEquals(noGrad(() => lstm.forward(x)).state[0]!.requiresGrad, false);
  assertEquals(noGrad(() => result.state[0]!.requiresGrad), true);
});

testOnBackends("dropout of recurrent layers is between layers, while training", async () => {
  const x = Tensor.randn([3, 2, 4]).realize();
  const one = new nn.GRU(4, 8, { dropout: 1 }),
    two = new nn.GRU(4, 8, { numLayers: 2, dropout: 1 });
  const plain = await one.forward(x).output.toHost();
  assertEquals(await one.eval().forward(x).output.toHost(), plain);
  // All that the second layer sees is dropped, so that each sequence gives the same.
  const rows = two.forward(x).output;
  await assertClose(rows.slice(null, 0), rows.slice(null, 1), 0, "dropped");
  const used = two.eval().forward(x).output;
  assert(await used.slice(null, 0).sub(used.slice(null, 1)).abs().max().item() > 1e-3);
});

testOnBackends("recurrent layers take types, autocast and empty batches", async (backend) => {
  const x = Tensor.randn([3, 2, 4]).realize();
  for (const make of [nn.LSTM, nn.GRU, nn.RNN]) {
    const rnn = new make(4, 5);
    const expected = rnn.forward(x).output;
    const half = amp.autocast("bfloat16", () => rnn.forward(x));
    assertEquals(half.output.dtype, "bfloat16");
    await assertClose(half.output, expected, 0.05, "in bfloat16");
    half.output.sum().backward();
    assertEquals(rnn.weightIhL0.grad!.dtype, "float32");
    assertEquals(rnn.forward(Tensor.zeros([3, 0, 4])).output.shape, [3, 0, 5]);
    if (backend === "cl") continue;
    rnn.cast("float64");
    await assertClose(rnn.forward(x.cast("float64")).output, expected, 1e-6, "in float64");
  }
});

testOnBackends("recurrent layers name shapes that do not fit", () => {
  const lstm = new nn.LSTM(4, 5);
  assertThrows(() => lstm.forward(Tensor.ones([3, 2, 6])), ShapeError, "4 features");
  assertThrows(() => lstm.forward(Tensor.ones([0, 2, 4])), ShapeError, "at least one step");
  const x = Tensor.ones([3, 2, 4]), h = Tensor.ones([1, 2, 5]);
  assertThrows(() => lstm.forward(x, [h]), TypeError, "[h, c]");
  assertThrows(() => lstm.forward(x, [h, h.slice(null, 0)]), ShapeError, "[1, 2, 5]");
  assertThrows(() => new nn.LSTM(4, -1), RangeError, "hiddenSize");
  assertThrows(() => new nn.LSTM(4, 2, { layers: 2 } as never), TypeError, '"layers"');
  assertThrows(() => new nn.LSTMCell(4, 5).forward(Tensor.ones([2, 3])), ShapeError, "[N, 4]");
});
