/** Averages of parameters: their values, their use, their state. */
import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { compile, nn, noGrad, optim, Tensor } from "../../../mod.ts";
import { testOnBackends } from "../../opencl.ts";
import { assertNumbers, numbersOf } from "../numbers.ts";

const near = (found: number[], expected: number[]): void => assertNumbers(found, expected, 1e-6);

for (const [kind, decay] of [["SWA", undefined], ["EMA", 0.75]] as const) {
  testOnBackends(`${kind} has the averages of PyTorch's formula, also compiled`, async () => {
    for (const isCompiled of [false, true]) {
      const model = new nn.Sequential(new nn.Linear(2, 2), new nn.BatchNorm2d(2));
      const average = new optim.AveragedModel(model, decay === undefined ? {} : { decay });
      const weight = model.parameters()[0]!;
      const plain = (value: Tensor) => {
        noGrad(() => weight.assign(value));
        average.update();
      };
      const step = isCompiled ? compile(plain) : plain;
      let expected: number[] = [];
      for (let n = 0; n < 5; n++) {
        const values = [n, -n, n * n, 1].map((v) => v + 0.5);
        step(Tensor.fromHost(values, { shape: [2, 2] }));
        expected = n === 0
          ? values
          : expected.map((e, k) =>
            decay === undefined
              ? e + (values[k]! - e) / (n + 1)
              : decay * e + (1 - decay) * values[k]!
          );
      }
      near(numbersOf(average.averages()["0.weight"]!), expected);
      const own = numbersOf(weight);
      near(await average.use(() => Promise.resolve(numbersOf(weight))), expected);
      assertEquals(numbersOf(weight), own);
      assertThrows(() => average.use(() => average.update()), Error, "while the model has them");
      await assertRejects(() => average.use(() => Promise.reject(new Error("no"))), Error, "no");
      assertEquals(numbersOf(weight), own);
      assertEquals(Object.keys(average.averages()), Object.keys(model.stateDict()));
    }
  });
}

testOnBackends("an AveragedModel goes on from its state", async () => {
  const make = (decay?: number) => {
    const model = new nn.Linear(2, 1);
    return { model, average: new optim.AveragedModel(model, decay === undefined ? {} : { decay }) };
  };
  const { model, average } = make();
  average.update(), average.update();
  const state = average.stateDict();
  assertEquals(Object.keys(state), ["n_averaged", "module.weight", "module.bias"]);
  assertEquals([state.n_averaged!.dtype, await state.n_averaged!.item()], ["int64", 2]);
  const other = make();
  other.average.loadStateDict(state);
  for (const each of [{ model, average }, other]) {
    noGrad(() => each.model.weight.assign(Tensor.ones([1, 2])));
    each.average.update();
  }
  const [resumed, same] = [other.average, average].map((each) => each.averages().weight!);
  assertEquals(numbersOf(resumed!), numbersOf(same!));
  const few = { n_averaged: state.n_averaged! };
  assertThrows(() => average.loadStateDict(few), RangeError, "module.weight");
  assertThrows(() => new optim.AveragedModel(new nn.ReLU()), TypeError, "no parameters");
  assertThrows(() => new optim.AveragedModel(model, { decay: 2 }), RangeError, "decay");
});
