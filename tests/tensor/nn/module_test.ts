import {
  assert,
  assertEquals,
  assertStrictEquals,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import {
  amp,
  type BackendName,
  DTypeError,
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
import { testOnBackends, testOpenCL } from "../../opencl.ts";
import { assertNumbers } from "../numbers.ts";

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
  ...["inProjWeight", "frozen", "runningMean", "byName.scale", "fc1.weight", "fc1.bias"],
  ...["blockList.1.weight", "byName.left.weight", "byName.left.bias"],
];

testOnBackends("a module finds its parameters and buffers, under the names of properties", () => {
  const model = new Everything();
  assertEquals(Object.keys(model.stateDict()), names);
  const once = names.filter((name) => !/running/.test(name));
  assertEquals(model.namedParameters().map(([name]) => name), once);
  assertEquals(model.parameters().length, once.length);
  assertEquals(model.namedBuffers().map(([name]) => name), ["runningMean"]);
  const children = model.children().map(([name]) => name);
  assertEquals(children, ["fc1", "shared", "blockList.0", "blockList.1", "byName.left"]);
});

testOnBackends("a state can be kept, saved and loaded", async (backend) => {
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
  const loaded = other.loadStateDict(await loadSafetensors(path, { device: backend }));
  assertEquals(loaded, { missingKeys: [], unexpectedKeys: [] });
  await Deno.remove(path);
  assertEquals(await other.forward(x).toArray(), y);
  assert(other.parameters().every((p) => p.requiresGrad), "parameters still learn");
});

testOnBackends("a state that does not fit is refused by names, and changes nothing", async () => {
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
  const loaded = model.loadStateDict(state, { strict: false });
  assertEquals(loaded, { missingKeys: ["bias"], unexpectedKeys: ["extra"] });
  assertEquals(await model.weight.toArray(), [[1, 1]]);
});

/** Names as in models of PyTorch, those of users, and of layers here. */
class Written extends nn.Module {
  LayerNorm = new nn.LayerNorm(2, { bias: false });
  lora_A = new nn.Linear(1, 1, { bias: false });
  loraA = new nn.Linear(1, 1, { bias: false });
  Conv2D_0 = new nn.BatchNorm1d(2, { affine: false });
  A_log = nn.parameter(Tensor.ones([2]));
  selfAttn = new nn.MultiheadAttention(2, 1);
  forward(x: Tensor): Tensor {
    return x;
  }
}

testOnBackends("names of state are the names of properties as they are written", async () => {
  const model = new Written(), names = Object.keys(model.stateDict());
  const parts = "in_proj_weight in_proj_bias out_proj.weight out_proj.bias".split(" ");
  assertEquals(names, [
    ...["A_log", "LayerNorm.weight", "lora_A.weight", "loraA.weight", "Conv2D_0.running_mean"],
    ...["Conv2D_0.running_var", "Conv2D_0.num_batches_tracked"],
    ...parts.map((name) => `selfAttn.${name}`),
  ]);
  const other = model.stateDict();
  other["lora_A.weight"] = Tensor.full([1, 1], 3);
  assertEquals(model.loadStateDict(other).missingKeys, []);
  assertEquals(await model.lora_A.weight.toArray(), [[3]]);
  const renamed = (name: string): string => name.replace("selfAttn", "self_attn");
  const file = Object.fromEntries(names.map((name) => [renamed(name), other[name]!]));
  const { message } = assertThrows(() => model.loadStateDict(file), RangeError);
  assertStringIncludes(message, 'write "self_attn.in_proj_weight" for "selfAttn.in_proj_weight"');
  assertEquals(model.loadStateDict(file, { strict: false }).unexpectedKeys.length, 4);
});

testOnBackends("layers here have PyTorch's names, also in classes that extend them", () => {
  class Adapted extends nn.MultiheadAttention {
    loraA = nn.parameter(Tensor.ones([1]));
  }
  class Chain extends nn.Sequential {
    lastScale = nn.parameter(Tensor.ones([1]));
  }
  const names = (module: nn.AnyModule): string => Object.keys(module.stateDict()).join(" ");
  assertEquals(names(new Adapted(2, 1, { bias: false })), "in_proj_weight loraA out_proj.weight");
  assertEquals(names(new Chain(new nn.Linear(1, 1))), "lastScale 0.weight 0.bias");
  assertEquals(names(new nn.SwiGLU(2, 2)), "gate_proj.weight up_proj.weight down_proj.weight");
  assertEquals(names(new nn.GRUCell(1, 1)), "weight_ih weight_hh bias_ih bias_hh");
  assertEquals(
    names(new nn.LSTM(1, 1, { bias: false, bidirectional: true })),
    "weight_ih_l0 weight_hh_l0 weight_ih_l0_reverse weight_hh_l0_reverse",
  );
  const decoder = names(new nn.TransformerDecoderLayer(2, 1, { bias: false }));
  assertEquals(decoder.match(/\w+attn\.\w+/g), [
    ...["self_attn.in_proj_weight", "self_attn.out_proj"],
    ...["multihead_attn.in_proj_weight", "multihead_attn.out_proj"],
  ]);
});

testOnBackends("two tensors under one name are refused: one would be lost", () => {
  class Same extends nn.Module {
    heads = new Map<unknown, Tensor>([1, "1"].map((k) => [k, nn.parameter(Tensor.ones([1]))]));
    forward(x: Tensor): Tensor {
      return x;
    }
  }
  assertThrows(() => new Same().stateDict(), TypeError, '"heads.1"');
});

testOnBackends("a state that is a promise says what to await", () => {
  const model = new nn.Linear(1, 1), adam = new optim.Adam(model.parameters());
  const schedules = [new optim.LinearLR(adam), new optim.ReduceLROnPlateau(adam)];
  const others = [new optim.LBFGS(model.parameters()), new amp.GradScaler()];
  for (const part of [model, adam, ...schedules, new optim.AveragedModel(model), ...others]) {
    const load = part.loadStateDict as (state: unknown) => unknown;
    assertThrows(() => load.call(part, Promise.resolve({})), TypeError, "await");
  }
});

testOnBackends("train, eval, requireGrad and zeroGrad reach every module below", () => {
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

testOnBackends("cast changes what is floating point, and shared tensors stay shared", () => {
  const model = new Everything(), norm = new nn.BatchNorm2d(2).cast("float16");
  model.cast("float16");
  assertEquals(model.fc1.weight.dtype, "float16");
  assertStrictEquals(model.shared.weight, model.fc1.weight);
  assertEquals(Object.keys(model.stateDict()), names);
  assertEquals([model.mask.dtype, model.constant.dtype], ["float16", "float32"]);
  assertEquals(norm.numBatchesTracked!.dtype, "int64");
  assert(model.fc1.weight.requiresGrad && !model.frozen.requiresGrad, "as before");
});

testOnBackends("to() takes an element type, too, and half() is float16", (backend) => {
  const model = new nn.Sequential(new nn.Linear(2, 2), new nn.BatchNorm1d(2));
  const types = () => [...new Set(Object.values(model.stateDict()).map(({ dtype }) => dtype))];
  assertStrictEquals(model.to("bfloat16"), model);
  assertEquals(types(), ["bfloat16", "int64"]);
  assertEquals(model.half().parameters()[0]!.dtype, "float16");
  assertEquals(model.to(backend).to("float32").parameters()[0]!.backend, backend);
  assertThrows(() => model.to("int32"), DTypeError, '"int32"');
  assertThrows(() => model.cast("float8" as never), DTypeError, '"float8"');
});

testOnBackends("dispose gives all memory of parameters, gradients and buffers back", (backend) => {
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
  assertNumbers(await run("cl", model), expected, 1e-6);
});

testOpenCL("the same seed gives the same weights on both backends", async () => {
  const weights = (device: BackendName): Promise<number[]> => {
    manualSeed(11);
    return withDevice(device, () => new nn.Linear(40, 30).weight).flatten().toNumbers() as never;
  };
  assertNumbers(await weights("cl"), await weights("cpu"), 1e-7);
});

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
