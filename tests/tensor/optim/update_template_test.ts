// Steps whose updates are made from a template are those that the optimizer's operations make.
import { assert, assertEquals, assertThrows } from "@std/assert";
import { amp, optim, Tensor } from "../../../mod.ts";
import { Node, Template } from "../../../backend/internal.ts";
import { testOnBackends, testOnCPU, testOpenCL } from "../../opencl.ts";
import { learn } from "../training.ts";

// A class of a user's own is never asked for the same expression again.
const classes = {
  SGD: [optim.SGD, class extends optim.SGD {}],
  Adam: [optim.Adam, class extends optim.Adam {}],
  AdamW: [optim.AdamW, class extends optim.AdamW {}],
  RMSprop: [optim.RMSprop, class extends optim.RMSprop {}],
  Adagrad: [optim.Adagrad, class extends optim.Adagrad {}],
  NAdam: [optim.NAdam, class extends optim.NAdam {}],
  RAdam: [optim.RAdam, class extends optim.RAdam {}],
  Lion: [optim.Lion, class extends optim.Lion {}],
} as const;

type Make = new (parameters: Tensor[], options: { lr: number }) => optim.Optimizer<{ lr?: number }>;

function leaf(values: number[]): Tensor {
  return Tensor.fromHost(values, { requiresGrad: true });
}

/** Values after steps in which now one parameter has a gradient, now the other, now both. */
async function valuesAfterSteps(
  make: Make,
  change: (o: optim.Optimizer) => void,
): Promise<unknown[]> {
  const parameters = [leaf([1, -2, 3]), leaf([0.5, 4, -1])];
  const [a, b] = parameters as [Tensor, Tensor];
  using optimizer = new make(parameters, { lr: 0.1 });
  const losses = [() => a.square().sum(), () => b.square().sum(), () => a.mul(b).sum()];
  const seen: unknown[] = [];
  for (let step = 0; step < 9; step++) {
    if (step === 5) optimizer.lr = 0.05;
    if (step === 7) change(optimizer);
    learn(optimizer, losses[step % 3]!());
    seen.push(await a.toArray(), await b.toArray());
  }
  for (const tensor of Object.values(optimizer.stateDict())) seen.push(await tensor.toArray());
  return seen;
}

/** Compares the steps of a class with those of one that is the same, but for templates. */
async function compare(name: keyof typeof classes): Promise<void> {
  const [fast, own] = classes[name] as unknown as [Make, Make];
  const change = ({ groups }: optim.Optimizer): void => {
    const { options } = groups[0]! as unknown as { options: { weightDecay: number } };
    options.weightDecay = 0.25;
  };
  const expected = await valuesAfterSteps(own, change);
  assertEquals(await valuesAfterSteps(fast, change), expected);
  const unchanged = await valuesAfterSteps(fast, () => {});
  assertThrows(() => assertEquals(unchanged, expected), Error);
}

for (const name of Object.keys(classes) as (keyof typeof classes)[]) {
  testOnCPU(`${name} steps as its operations say, with any gradients`, () => compare(name));
}

testOpenCL("AdamW steps on OpenCL as its operations say", () => compare("AdamW"));

testOnBackends("a step that is known goes on from state that was loaded", async () => {
  const run = (Class: typeof optim.Adam): Promise<unknown> => {
    const p = leaf([1, 2]);
    const optimizer = new Class([p], { lr: 0.1 });
    const step = (): void => void learn(optimizer, p.square().sum());
    step(), step();
    const saved = optimizer.stateDict();
    step(), step();
    optimizer.loadStateDict(saved);
    step();
    return p.toArray();
  };
  assertEquals(await run(classes.Adam[0]), await run(classes.Adam[1]));
});

testOnBackends("a scaler holds back a step that is known", async () => {
  const p = leaf([1, 2]), adam = new optim.Adam([p], { lr: 0.1 }), scaler = new amp.GradScaler();
  const step = (factor: number): void => {
    learn(adam, p.mul(factor).sum(), scaler);
  };
  step(1), step(1);
  const before = await p.toArray();
  step(Infinity);
  assertEquals(await p.toArray(), before);
  step(1);
  assert((await p.toArray() as number[])[0]! < (before as number[])[0]!);
});

function input(shape: number[]): Node {
  return new Node({ kind: "iota" }, [], shape, "int32");
}

function add(a: Node, b: Node): Node {
  return new Node({ kind: "elementwise", fn: "add" }, [a, b], a.shape, a.dtype);
}

Deno.test("Template makes the same nodes of other inputs", () => {
  const constant = new Node({ kind: "constant", value: 2 }, [], [], "int32");
  const f = (a: Node, b: Node): Node[] => {
    const two = new Node({ kind: "constant", value: 2 }, [], [], "int32");
    const sum = add(a, two);
    return [add(sum, b), sum, a];
  };
  const known = [input([3]), input([3])] as const, other = [input([3]), input([3])] as const;
  const { template } = Template.record(known, () => f(...known), (nodes) => nodes);
  const [total, sum, same] = template!.instantiate(other);
  assertEquals([same, total!.inputs, sum!.inputs[0]], [other[0], [sum, other[1]], other[0]]);
  assertEquals(sum!.inputs[1]!.op, constant.op);
  assertEquals(template!.takes(other), true);
  assertEquals(template!.takes([input([3]), input([4])]), false);
});

Deno.test("Template refuses what is not made of its inputs alone", () => {
  const a = input([3]), outer = input([3]);
  const made = (fn: () => Node, inputs = [a]): Template | null =>
    Template.record(inputs, () => [fn()], (nodes) => nodes).template;
  assertEquals(made(() => add(a, outer)), null);
  assertEquals(made(() => add(a, a), [a, a]), null);
  const random = { kind: "random", seed: 1, stream: { value: 1 } } as const;
  assertEquals(made(() => new Node(random, [], [3], "float32")), null);
});
