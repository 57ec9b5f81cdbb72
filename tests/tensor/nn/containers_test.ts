/** Modules are found wherever properties hold them. */
import {
  assert,
  assertEquals,
  assertStrictEquals,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { nn, optim, ShapeError, Tensor } from "../../../mod.ts";
import { testOnCPU } from "../../opencl.ts";

function names(module: nn.AnyModule): string[] {
  return module.namedParameters().map(([name]) => name);
}

class Hidden extends nn.Module {
  readonly #inner = new nn.Linear(2, 2);
  forward(x: Tensor): Tensor {
    return this.#inner.forward(x);
  }
}

class Open extends nn.Module {
  readonly inner = new nn.Linear(2, 2, { bias: false });
  forward(x: Tensor): Tensor {
    return this.inner.forward(x);
  }
}

/** A module that makes its layers before the base constructor runs. */
class Chain extends nn.Sequential {
  constructor() {
    super(new nn.Linear(2, 2, { bias: false }), new nn.Sequential(new Open()));
  }
}

testOnCPU("modules in Maps, lists and dictionaries are found, with names of the user's own", () => {
  class Model extends nn.Module {
    heads = new Map([["aB", new Open()]]);
    list = new nn.ModuleList([new Open(), new Open()]);
    named = new nn.ModuleDict<nn.Module>({ aB: new Open() });
    forward(x: Tensor): Tensor {
      return x;
    }
  }
  const model = new Model();
  assertEquals(names(model), [
    "heads.aB.inner.weight",
    "list.0.inner.weight",
    "list.1.inner.weight",
    "named.aB.inner.weight",
  ]);
  const before = model.heads.get("aB")!.inner.weight;
  model.cast("float16");
  assertEquals(model.parameters().map((p) => p.dtype), new Array(4).fill("float16"));
  assertStrictEquals(model.heads.get("aB")!.inner.weight, before);
  assertEquals([...model.list].length, model.list.length);
  assertEquals(model.list.at(-1), [...model.list][1]);
  assertThrows(() => model.list.at(2), RangeError, "it has 2");
  assertThrows(() => model.named.get("c"), RangeError, "aB");
  assertThrows(() => model.named.set("a.b", new Open()), TypeError, "dots");
  assertThrows(() => new nn.ModuleList([1 as unknown as nn.Module]), TypeError, "pass modules");
  assertThrows(() => model.list.forward(), TypeError, "one by one");
  const order: string[] = [];
  model.list.apply((module) => void order.push(module.constructor.name));
  assertEquals(order, ["Linear", "Open", "Linear", "Open", "ModuleList"]);
});

testOnCPU("modules in #private fields are hidden; an optimizer of nothing says so", () => {
  const hidden = new Hidden();
  assertEquals(hidden.modules().length, 1);
  for (
    const make of [
      () => new optim.SGD(hidden.parameters(), { lr: 1 }),
      () => new optim.LBFGS(hidden.parameters()),
      () => new optim.AveragedModel(hidden),
    ]
  ) {
    const { message } = assertThrows(make, TypeError);
    assertStringIncludes(message, "model.parameters()");
    assertStringIncludes(message, "#private fields hold is not: use TypeScript's private");
  }
});

testOnCPU("modules that a constructor makes for a part of them are nobody's", () => {
  class Borrowed extends nn.Module {
    readonly weight: Tensor;
    readonly #unused = new Open();
    constructor() {
      super();
      this.weight = new nn.Linear(3, 2).weight;
    }
    forward(x: Tensor): Tensor {
      return this.#unused.forward(x.matmul(this.weight));
    }
  }
  assertEquals(names(new Borrowed()), ["weight"]);
  assertEquals(new Chain().parameters().length, 2);
});

testOnCPU("modules in a Set are found, once, and keep their places in it", () => {
  class Group extends nn.Module {
    readonly scales = new Set([1, 2].map((k) => nn.parameter(Tensor.full([k], k))));
    readonly blocks = new Set([new Open(), new Open()]);
    readonly first = [...this.blocks][0]!;
    forward(x: Tensor): Tensor {
      return x;
    }
  }
  const group = new Group(), all = ["scales.0", "scales.1"];
  all.push(...[0, 1].map((k) => `blocks.${k}.inner.weight`));
  assertEquals(names(group), all);
  group.cast("float16");
  assertEquals(names(group), all);
  assertEquals([...group.scales].map((scale) => scale.size), [1, 2]);
  assertEquals(new Set(group.parameters().map(({ dtype }) => dtype)), new Set(["float16"]));
});

testOnCPU("a module that holds its holder is listed once", () => {
  class Child extends Open {
    parent: nn.Module | null = null;
  }
  class Parent extends nn.Module {
    child = new Child();
    settings: Record<string, unknown> = {};
    constructor() {
      super();
      this.child.parent = this;
      this.settings["own"] = this.settings;
    }
    forward(x: Tensor): Tensor {
      return x;
    }
  }
  const parent = new Parent(), order: string[] = [];
  assertEquals(names(parent), ["child.inner.weight"]);
  parent.apply((module) => void order.push(module.constructor.name));
  assertEquals(order, ["Linear", "Child", "Parent"]);
  assertStringIncludes(`${parent}`, "(child): Child(");
});

testOnCPU("an error of a shape names the layer of a Sequential", () => {
  const model = new nn.Sequential(
    new nn.Linear(2, 3),
    new nn.Sequential(new nn.ReLU(), new nn.Linear(4, 2)),
  );
  const error = assertThrows(() => model.forward(Tensor.ones([1, 2])), ShapeError);
  assertStringIncludes(error.message, "Layer 1 (Sequential): Layer 1 (Linear): Cannot run Linear");
  assert(error.cause instanceof ShapeError);
});

testOnCPU("an optimizer of a module says what to pass", () => {
  const model = new Open() as unknown as Tensor[];
  assertThrows(() => new optim.SGD(model, { lr: 0.1 }), TypeError, "model.parameters()");
});
