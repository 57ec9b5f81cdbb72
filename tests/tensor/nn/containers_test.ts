/** Modules are found wherever they are held, or refused. */
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { nn, optim, ShapeError, Tensor, withDevice } from "../../../mod.ts";
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
  withDevice("cpu", () => {
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
    assert(model.heads.get("aB")!.inner.weight !== before);
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
});

testOnCPU("a module in a #private field is refused, at every look", () => {
  withDevice("cpu", () => {
    const hidden = new Hidden();
    for (let k = 0; k < 2; k++) {
      const { message } = assertThrows(() => hidden.parameters(), TypeError);
      assertStringIncludes(message, "the modules of Hidden: its constructor made Linear");
      assertStringIncludes(message, "private in place of #private");
    }
    assertThrows(() => hidden.stateDict(), TypeError);
    assertThrows(() => hidden.train(), TypeError);
    class Outer extends nn.Module {
      block = new Hidden();
      forward(x: Tensor): Tensor {
        return x;
      }
    }
    assertThrows(() => new Outer().parameters(), TypeError, "Hidden");
    class InBody extends nn.Module {
      readonly #made: nn.Module[];
      constructor() {
        super();
        this.#made = [1, 2].map(() => new Open());
      }
      forward(x: Tensor): Tensor {
        return this.#made[0]!.forward(x);
      }
    }
    assertThrows(() => new InBody().parameters(), TypeError, "InBody: its constructor made Open");
  });
});

testOnCPU(
  "modules that belong to others are nobody's: loops, helpers, recursion, subclasses",
  () => {
    withDevice("cpu", () => {
      const chains = [1, 2, 3].map(() => new Chain());
      for (const chain of chains) assertEquals(chain.parameters().length, 2);
      class Tree extends nn.Module {
        readonly children2: nn.Module[];
        readonly leaf = new Open();
        constructor(depth: number) {
          super();
          this.children2 = depth > 0 ? [new Tree(depth - 1), new Tree(depth - 1)] : [];
        }
        forward(x: Tensor): Tensor {
          return x;
        }
      }
      assertEquals(new Tree(2).parameters().length, 7);
      class Twice extends Open {
        readonly other = new Open();
      }
      const made = [new Twice(), new Twice()], between = new Open();
      assertEquals(made.map((m) => m.parameters().length), [2, 2]);
      assertEquals(between.parameters().length, 1);
      const factory = (): nn.Module => new Open();
      class Late extends nn.Module {
        net: nn.Module | null = null;
        build(): void {
          this.net = factory();
        }
        forward(x: Tensor): Tensor {
          return x;
        }
      }
      const late = new Late();
      late.build();
      assertEquals(late.parameters().length, 1);
      assertEquals(new nn.MultiheadAttention(4, 2).parameters().length > 0, true);
    });
  },
);

testOnCPU("an error of a shape names the layer of a Sequential", () => {
  withDevice("cpu", () => {
    const model = new nn.Sequential(
      new nn.Linear(2, 3),
      new nn.Sequential(new nn.ReLU(), new nn.Linear(4, 2)),
    );
    const error = assertThrows(() => model.forward(Tensor.ones([1, 2])), ShapeError);
    assertStringIncludes(
      error.message,
      "Layer 1 (Sequential): Layer 1 (Linear): Cannot run Linear",
    );
    assert(error.cause instanceof ShapeError);
  });
});

testOnCPU("an optimizer of a module says what to pass", () => {
  withDevice("cpu", () => {
    const model = new Open() as unknown as Tensor[];
    assertThrows(() => new optim.SGD(model, { lr: 0.1 }), TypeError, "model.parameters()");
  });
});
