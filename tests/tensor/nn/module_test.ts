import { assert, assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import {
  type BackendName,
  loadSafetensors,
  manager,
  manualSeed,
  memory,
  nn,
  optim,
  saveSafetensors,
  ShapeError,
  Tensor,
  withDevice,
} from "../../../mod.ts";
import { hasOpenCL, testOnBackends, testOpenCL } from "../../opencl.ts";

/** Every way of holding something. */
class Everything extends nn.Module {
  inProjWeight = nn.parameter(Tensor.ones([2]));
  frozen = nn.parameter(Tensor.ones([1]));
  runningMean = nn.buffer(Tensor.zeros([2]));
  mask = nn.buffer(Tensor.ones([2]), { persistent: false });
  constant = Tensor.full([2], 5);
  nothing: Tensor | null = null;
  fc1 = new nn.Linear(2, 2);
  shared: nn.Linear = this.fc1;
  blockList = [new nn.ReLU(), new nn.Linear(2, 1, { bias: false })];
  byName = { left: new nn.Linear(1, 1), scale: nn.parameter(Tensor.ones([])) };
  readonly width = 3;

  constructor() {
    super();
    this.frozen.requiresGrad = false;
  }

  forward(x: Tensor): Tensor {
    return this.fc1.forward(x).mul(this.constant);
  }
}

const names = [
  "in_proj_weight",
  "frozen",
  "running_mean",
  "by_name.scale",
  "fc1.weight",
  "fc1.bias",
  "shared.weight",
  "shared.bias",
  "block_list.1.weight",
  "by_name.left.weight",
  "by_name.left.bias",
];

testOnBackends("a module finds its parameters and buffers, under PyTorch's names", (backend) => {
  withDevice(backend, () => {
    const model = new Everything();
    assertEquals(Object.keys(model.stateDict()), names);
    const once = names.filter((name) => !/shared|running/.test(name));
    assertEquals(model.namedParameters().map(([name]) => name), once);
    assertEquals(model.parameters().length, once.length);
    assertEquals(model.namedBuffers().map(([name]) => name), ["running_mean"]);
    assertEquals(model.children().map(([name]) => name), [
      "fc1",
      "shared",
      "block_list.0",
      "block_list.1",
      "by_name.left",
    ]);
  });
});

testOnBackends("a state can be kept, saved and loaded", (backend) => {
  return withDevice(backend, async () => {
    const make = () => new nn.Sequential(new nn.Linear(3, 4), new nn.ReLU(), new nn.Linear(4, 2));
    const model = make();
    const before = model.stateDict();
    const x = Tensor.randn([5, 3]).realize();
    const y = await model.forward(x).toArray();
    const optimizer = new optim.SGD(model.parameters(), { lr: 1 });
    model.forward(x).square().sum().backward();
    optimizer.step();
    assert(JSON.stringify(await model.forward(x).toArray()) !== JSON.stringify(y), "it learned");
    const path = await Deno.makeTempFile();
    await saveSafetensors(path, before);
    const other = make();
    assertEquals(other.loadStateDict(await loadSafetensors(path, { device: backend })), {
      missing: [],
      unexpected: [],
    });
    await Deno.remove(path);
    assertEquals(await other.forward(x).toArray(), y);
    assert(other.parameters().every((p) => p.requiresGrad), "parameters still learn");
  });
});

testOnBackends("a state that does not fit is refused by names, and changes nothing", (backend) => {
  return withDevice(backend, async () => {
    const model = new nn.Linear(2, 1);
    const before = await model.weight.toArray();
    const state = { weight: Tensor.ones([1, 2]), extra: Tensor.ones([1]) };
    assertEquals(
      assertThrows(() => model.loadStateDict(state), RangeError).message,
      "Cannot load the state of Linear: missing are bias; not known are extra. Pass " +
        "{ strict: false } to load what fits",
    );
    const wrong = { weight: Tensor.ones([2, 1]), bias: Tensor.ones([1]) };
    assertEquals(
      assertThrows(() => model.loadStateDict(wrong), ShapeError).message,
      "Cannot load the state of Linear: weight is [1, 2] and got [2, 1]",
    );
    assertEquals(await model.weight.toArray(), before);
    assertEquals(model.loadStateDict(state, { strict: false }), {
      missing: ["bias"],
      unexpected: ["extra"],
    });
    assertEquals(await model.weight.toArray(), [[1, 1]]);
  });
});

testOnBackends("train, eval, requireGrad and zeroGrad reach every module below", (backend) => {
  withDevice(backend, () => {
    const inner = new nn.Dropout(0.5), linear = new nn.Linear(2, 2);
    const model = new nn.Sequential(new nn.Sequential(inner), linear);
    assertStrictEquals(model.eval(), model);
    assert(!inner.training && !linear.training, "eval");
    model.train();
    assert(inner.training, "train");
    model.requireGrad(false);
    assert(model.parameters().every((p) => !p.requiresGrad), "frozen");
    assertEquals(model.parameters().length, 2);
    model.requireGrad();
    model.forward(Tensor.ones([1, 2])).sum().backward();
    assert(linear.weight.grad !== null, "a gradient");
    model.zeroGrad();
    assertEquals(linear.weight.grad, null);
  });
});

testOnBackends("cast changes what is floating point, and shared tensors stay shared", (backend) => {
  withDevice(backend, () => {
    const model = new Everything(), norm = new nn.BatchNorm2d(2).cast("float16");
    model.cast("float16");
    assertEquals(model.fc1.weight.dtype, "float16");
    assertStrictEquals(model.shared.weight, model.fc1.weight);
    assertEquals(Object.keys(model.stateDict()), names);
    assertEquals([model.mask.dtype, model.constant.dtype], ["float16", "float32"]);
    assertEquals(norm.numBatchesTracked!.dtype, "int64");
    assert(model.fc1.weight.requiresGrad && !model.frozen.requiresGrad, "as before");
  });
});

testOnBackends("dispose gives all memory of parameters, gradients and buffers back", (backend) => {
  withDevice(backend, () => {
    const dev = manager.default(backend);
    using x = Tensor.ones([1, 1024]).realize();
    const before = memory.stats(dev).currentAllocated;
    const model = new nn.Sequential(new nn.Linear(1024, 1024), new nn.BatchNorm1d(1024)).eval();
    using loss = model.forward(x).sum();
    loss.backward();
    loss.realize();
    assert(memory.stats(dev).currentAllocated - before > 8e6, "weights and gradients");
    model.dispose();
    const left = memory.stats(dev).currentAllocated - before;
    assert(left < 1e4, `${left} bytes are left`);
  });
});

testOpenCL("a model moves to another device, and computes the same there", async () => {
  const x = Float32Array.of(1, 2, 3);
  const run = (device: BackendName, model: nn.Module) =>
    model.forward(Tensor.fromHost(x, { shape: [1, 3], device })).toHost();
  manualSeed(3);
  const model = withDevice("cpu", () => new nn.Linear(3, 2));
  const expected = await run("cpu", model);
  assertStrictEquals(model.to("cl"), model);
  assertEquals(model.weight.backend, "cl");
  assert(model.weight.requiresGrad, "it still learns");
  const actual = await run("cl", model);
  expected.forEach((v, k) => assert(Math.abs(Number(v) - Number(actual[k])) < 1e-6));
});

Deno.test(
  "the same seed gives the same weights on both backends",
  { ignore: !hasOpenCL },
  async () => {
    const weights = async (device: BackendName) => {
      manualSeed(11);
      return [...await withDevice(device, () => new nn.Linear(40, 30).weight).toHost()].map(Number);
    };
    const [a, b] = [await weights("cpu"), await weights("cl")];
    assert(a.every((v, k) => Math.abs(v - b[k]!) < 1e-7), "they differ");
  },
);

Deno.test("a model is written as its parts with their tensors and the number of parameters", () => {
  class Gate extends nn.Module {
    scale = nn.parameter(Tensor.ones([1]));
    seen = nn.buffer(Tensor.zeros([2]));
    list = new nn.ModuleList([new nn.Linear(4, 2, { bias: false })]);
    forward(x: Tensor): Tensor {
      return x.mul(this.scale);
    }
  }
  const model = new nn.Sequential(new nn.Conv2d(1, 4, 3), new nn.ReLU(), new Gate());
  const text = `Sequential(
  (0): Conv2d(weight [4, 1, 3, 3], bias [4])
  (1): ReLU()
  (2): Gate(
    scale [1]
    seen [2]
    (list): ModuleList(
      (0): Linear(weight [2, 4])
    )
  )
)
49 parameters`;
  assertEquals(`${model}`, text);
  assertEquals(Deno.inspect(model), text);
});
