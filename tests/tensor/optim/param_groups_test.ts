/** Groups that are added to an optimizer while it learns. */
import { assertEquals, assertThrows } from "@std/assert";
import { compile, optim, Tensor } from "../../../mod.ts";
import { testOnBackends, testOnCPU } from "../../opencl.ts";
import { learn } from "../training.ts";

testOnBackends("an added group learns as one that was there from the beginning", async () => {
  const leaf = () => Tensor.fromHost([1, -2], { requiresGrad: true });
  const run = async (isCompiled: boolean): Promise<unknown[]> => {
    const [a, b] = [leaf(), leaf()];
    const adam = new optim.Adam([a], { lr: 0.1, beta1: 0.8 });
    const schedule = new optim.ExponentialLR(adam, { gamma: 0.5 });
    const plain = (): void => {
      learn(adam, a.square().sum().add(b.square().sum()));
    };
    const step = isCompiled ? compile(plain) : plain;
    step(), step();
    adam.addParamGroup({ parameters: [b], lr: 0.2 });
    schedule.step();
    assertEquals(adam.groups.map(({ lr }) => lr), [0.05, 0.2]);
    assertEquals(adam.groups[1]!.options.beta1, 0.8);
    step(), step();
    const alone = leaf(), single = new optim.Adam([alone], { lr: 0.2, beta1: 0.8 });
    for (let k = 0; k < 2; k++) learn(single, alone.square().sum());
    assertEquals(await b.toArray(), await alone.toArray());
    assertEquals(Object.keys(adam.stateDict()).includes("state.1.exp_avg"), true);
    return [await a.toArray(), await b.toArray()];
  };
  assertEquals(await run(true), await run(false));
});

testOnBackends("a group that cannot be added changes nothing", () => {
  const [a, b] = [1, 2].map((v) => Tensor.full([2], v, { requiresGrad: true })) as [Tensor, Tensor];
  const sgd = new optim.SGD([a], { lr: 0.1 });
  assertThrows(() => sgd.addParamGroup({ parameters: [a] }), TypeError, "twice");
  const nesterov = () => sgd.addParamGroup({ parameters: [b], nesterov: true });
  assertThrows(nesterov, RangeError, "nesterov");
  assertThrows(() => sgd.addParamGroup({ parameters: [b], rate: 1 } as never), TypeError, "rate");
  assertThrows(() => sgd.addParamGroup([b] as never), TypeError);
  assertEquals(sgd.groups.length, 1);
});

const algorithms = [
  "SGD",
  "Adam",
  "AdamW",
  "NAdam",
  "RAdam",
  "Adagrad",
  "RMSprop",
  "Lion",
] as const;

/** The default of every option, and a value that it refuses. */
function* optionsOf(type: typeof algorithms[number]): Generator<[string, unknown]> {
  const x = Tensor.ones([2], { requiresGrad: true });
  const { lr, options } = new optim[type]([x]).groups[0]!;
  for (const [name, value] of Object.entries({ lr, ...options })) {
    yield [name, typeof value === "boolean" ? 1 : name.startsWith("beta") ? 1 : -1];
  }
}

testOnCPU("every option of every optimizer is checked, for the optimizer and for a group", () => {
  for (const type of algorithms) {
    const x = Tensor.ones([2], { requiresGrad: true });
    for (const [name, wrong] of optionsOf(type)) {
      const bound = name.startsWith("beta") ? "a number of at least 0 and below 1" : "";
      const said = `Cannot make ${type} with ${name} ${wrong}: pass ${bound}`,
        own = { [name]: wrong };
      assertThrows(() => new optim[type]([x], own as never), Error, said);
      assertThrows(() => new optim[type]([{ parameters: [x], ...own }] as never), Error, said);
    }
    assertThrows(() => new optim[type]([x], { rate: 1 } as never), TypeError, "the options are");
    assertThrows(() => new optim[type]([x], null as never), TypeError, `Cannot make ${type}`);
  }
});

testOnCPU("a class has its own defaults, a class that extends it the same", () => {
  const x = () => Tensor.ones([2], { requiresGrad: true });
  const decayOf = (optimizer: optim.Optimizer<optim.AdamOptions>) =>
    optimizer.groups[0]!.options.weightDecay;
  class Own extends optim.AdamW {}
  class All extends optim.Optimizer<{ lr?: number; depth?: number }> {
    protected override initialState(): Record<string, Tensor> {
      return {};
    }
    protected override update(): void {}
  }
  assertEquals(decayOf(new optim.Adam([x()])), 0);
  assertEquals(decayOf(new optim.AdamW([x()])), 0.01);
  assertEquals(decayOf(new optim.AdamW([x()], { weightDecay: undefined } as never)), 0.01);
  assertEquals(decayOf(new Own([x()])), 0.01);
  assertThrows(() => new Own([x()], { eps: -1 }), RangeError, "Cannot make Own with eps -1");
  const groups = [{ parameters: [x()] }, { parameters: [x()], depth: 4 }];
  const all = new All(groups, { lr: 1, depth: -3 });
  assertEquals(all.groups.map(({ options }) => options.depth), [-3, 4]);
  assertThrows(() => all.addParamGroup({ parameters: [x()], depth: -1 }), RangeError, "depth -1");
});
