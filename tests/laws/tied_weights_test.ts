/** Tied weights: one tensor of a module under several names. */
import { assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import { nn, optim, ShapeError, Tensor } from "../../mod.ts";
import { testOnBackends } from "../opencl.ts";

/** A language model whose embedding is its last layer, too. */
class Tied extends nn.Module {
  embed = new nn.Embedding(10, 4);
  lmHead = new nn.Linear(4, 10, { bias: false });
  constructor() {
    super();
    this.lmHead.weight = this.embed.weight;
  }
  forward(x: Tensor): Tensor {
    return this.lmHead.forward(this.embed.forward(x));
  }
}

testOnBackends("tied weights are saved once, and load under either name", async () => {
  const model = new Tied(), value = async () => (await model.lmHead.weight.toHost())[0];
  assertEquals(Object.keys(model.stateDict()), ["embed.weight"]);
  for (const [k, names] of [["embed"], ["lmHead"], ["embed", "lmHead"]].entries()) {
    const state = names.map((name) => [`${name}.weight`, Tensor.full([10, 4], k)]);
    model.loadStateDict(Object.fromEntries(state));
    assertEquals(await value(), k);
  }
  assertEquals(model.loadStateDict({}, { strict: false }).missingKeys, ["embed.weight"]);
  assertThrows(() => model.loadStateDict({ "lmHead.weight": Tensor.ones([4]) }), ShapeError);
  model.cast("bfloat16");
  assertStrictEquals(model.embed.weight, model.lmHead.weight);
  const average = new optim.AveragedModel(model);
  average.loadStateDict({
    n_averaged: Tensor.ones([], { dtype: "int64" }),
    "module.lmHead.weight": Tensor.full([10, 4], 7),
  });
  assertEquals(await average.use(value), 7);
  assertEquals(Object.keys(average.stateDict()), ["n_averaged", "module.embed.weight"]);
});

testOnBackends("a tied weight has one value in a state, or the last where it is asked for", () => {
  const model = new Tied();
  const state = {
    "embed.weight": Tensor.full([10, 4], 1),
    "lmHead.weight": Tensor.full([10, 4], 2),
  };
  const before = String(model.embed.weight.toHostSync());
  assertThrows(
    () => model.loadStateDict(state),
    RangeError,
    'Cannot load the state of Tied: "embed.weight" and "lmHead.weight" are one tied tensor',
  );
  assertEquals(String(model.embed.weight.toHostSync()), before);
  model.loadStateDict(state, { strict: false });
  assertEquals(model.embed.weight.toHostSync()[0], 2);
  const missing = [Tensor.full([10, 4], NaN), Tensor.full([10, 4], NaN)];
  model.loadStateDict({ "embed.weight": missing[0]!, "lmHead.weight": missing[1]! });
  assertEquals(model.embed.weight.toHostSync()[0], NaN);
});
