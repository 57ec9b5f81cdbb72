// Suite: quick kernels; above the kernels: other tests hold that optimized ones are right.
/** An option that does not exist is an error at every function that takes options. */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { DataLoader, optim, Tensor, withDevice } from "../../mod.ts";
import { CommandQueue, Image } from "@netcl/netcl/ffi";
import { nearestName } from "../../ffi/host/wording.ts";
import { type Call, optionCalls, type Untyped } from "./declared_calls.ts";

const calls = optionCalls();
const nothing: Untyped = {}, samples = { length: 4, get: () => [] };
const leaf = () => Tensor.ones([2], { requiresGrad: true });

/** Options within options. */
const inner: Readonly<Record<string, Call>> = {
  "a group of parameters": (o) => new optim.SGD([{ parameters: [leaf()], ...o }]),
  "a group that is added": (o) =>
    new optim.SGD([leaf()]).addParamGroup({ parameters: [leaf()], ...o }),
  "the workers of a DataLoader": (o) =>
    new DataLoader(samples, { workers: { module: new URL("file:///data.ts"), count: 1, ...o } }),
  "the layout of a box": (o) =>
    CommandQueue.prototype.writeRect
      .call(nothing, nothing, new Uint8Array(8), { region: [1, 1, 1], host: o }),
  "the format of an image": (o) =>
    new Image(nothing, { format: { order: "R", type: "FLOAT", ...o }, width: 1 }),
};

/** Calls that take another thing in the place of options, or name what must be in them. */
const others = [
  ...["Tensor.arange(1)", "Tensor.arange(2)", "Tensor::backward(0)"],
  ...["Tensor::interpolate(0)", "new nn.Upsample(0)"],
];

/** Runs a call on the built-in backend and waits for it, so that it rejects whatever it throws. */
const settled = (call: Call, options: Untyped): Promise<unknown> =>
  Promise.try(() => withDevice("cpu", () => call(options)));

Deno.test("functions with options are found by their declarations", () => {
  assert(Object.keys(calls).length > 300);
  assertEquals(others.filter((name) => !(name in calls)), []);
});

for (const [name, call] of Object.entries({ ...calls, ...inner })) {
  Deno.test(`an unknown option is an error that lists the right ones: ${name}`, async () => {
    const error = await assertRejects(
      () => settled(call, { definitelyNotAnOption: 1 }),
      TypeError,
      'with the option "definitelyNotAnOption": the options are ',
    );
    assertEquals(/options are \w+/.test(error.message), true, error.message);
  });
}

for (const [name, call] of Object.entries(calls)) {
  if (others.includes(name)) continue;
  Deno.test(`options are an object and nothing else: ${name}`, async () => {
    for (const wrong of [true, 1, "mean", [1], null, Tensor]) {
      await assertRejects(() => settled(call, wrong), TypeError, "pass an object of named");
    }
  });
}

Deno.test("a wrong name is told the right one", () => {
  const rows: [wrong: Untyped, name: string, right: string][] = [
    [{ pading: 1 }, "new nn.Conv2d(3)", "padding"],
    [{ epsilon: 1 }, "new nn.LayerNorm(1)", "eps"],
    [{ batch_size: 1 }, "new DataLoader(1)", "batchSize"],
    [{ num_workers: 1 }, "new DataLoader(1)", "workers"],
    [{ keepdim: true }, "Tensor::sum(1)", "keepDims"],
    [{ requires_grad: true }, "Tensor.zeros(1)", "requiresGrad"],
    [{ label_smoothing: 0.1 }, "nn.crossEntropy(2)", "labelSmoothing"],
    [{ weight_decay: 0.1 }, "new optim.Adam(1)", "weightDecay"],
    [{ retain_graph: true }, "Tensor::backward(1)", "retainGraph"],
    [{ init_scale: 2 }, "new amp.GradScaler(0)", "initScale"],
  ];
  for (const [wrong, name, right] of rows) {
    const run = () => withDevice("cpu", () => calls[name]!(wrong));
    assertThrows(run, TypeError, `(did you mean "${right}"?)`);
  }
});

Deno.test("nearestName finds what was meant, and nothing where nothing was", () => {
  const names = ["lr", "momentum", "weightDecay", "eps", "positiveWeight"];
  assertEquals(nearestName("weightdecay", names), "weightDecay");
  assertEquals(nearestName("momentun", names), "momentum");
  assertEquals(nearestName("weight", names), "weightDecay");
  assertEquals(nearestName("definitelyNotAnOption", names), undefined);
  assertEquals(nearestName("", names), undefined);
});
