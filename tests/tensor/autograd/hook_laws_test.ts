/**
 * A gradient hook acts once, on the gradient that its tensor has without checkpoint() and without
 * compile(): each program gives the same gradients, and calls its hooks as often, in every way to run it.
 * The file is long because it is one list of such programs.
 */
import fc from "fast-check";
import { assertEquals, assertThrows } from "@std/assert";
import {
  amp,
  checkpoint,
  compile,
  customGradient,
  grad,
  manualSeed,
  nn,
  noGrad,
  optim,
  Tensor,
} from "../../../mod.ts";
import { testOnBackends, testOnCPU } from "../../opencl.ts";
import { isEager } from "../../../backend/internal.ts";
import { outcomesOf } from "../compile/outcomes.ts";
import { assertNumbers } from "../numbers.ts";

/** Runs a part of a program, checkpointed or not. */
type Part = <R>(fn: (x: Tensor) => R, x: Tensor) => R;
/** Makes a step, which returns what to look at; `say` notes that a hook was called. */
type Program = (part: Part, say: (text: string) => void) => (x: Tensor, call: number) => Tensor;

const plainly: Part = (fn, x) => fn(x);
const checkpointed: Part = (fn, x) => checkpoint(fn, x);
const nested: Part = (fn, x) => checkpoint((z: Tensor) => checkpoint(fn, z), x);

/** Every way but the plain one. */
const ways: Record<string, { part: Part; isCompiled: boolean }> = {
  "checkpoint": { part: checkpointed, isCompiled: false },
  "nested checkpoints": { part: nested, isCompiled: false },
  "compile": { part: plainly, isCompiled: true },
  "compile and checkpoint": { part: checkpointed, isCompiled: true },
};

const learned = (...values: number[]): Tensor => Tensor.fromHost(values, { requiresGrad: true });
const weights = (): Tensor => learned(1, 2, 3);

/** Clears the gradient, goes backward from the sum, and gives the gradient. */
function gradientOf(w: Tensor, y: () => Tensor): Tensor {
  w.grad = null;
  y().sum().backward();
  return w.grad!.mul(1);
}

const programs: Record<string, Program> = {
  "on a tensor that is made inside": (part, say) => {
    const w = weights();
    return (x, call) =>
      gradientOf(w, () =>
        part((v) => {
          const h = v.mul(w);
          h.registerHook((g) => (say(`${call}`), g.mul(call + 1)));
          return h.sin();
        }, w.mul(x)));
  },
  "on a result, inside and outside": (part, say) => {
    const w = weights();
    return (x) =>
      gradientOf(w, () => {
        const y = part((v) => {
          const h = v.mul(w);
          h.registerHook((g) => (say("inside"), g.clamp(-0.5, 0.5)));
          return h;
        }, w.mul(x));
        y.registerHook((g) => (say("outside"), g.mul(2)));
        return y.square();
      });
  },
  "on a result that another one is made of": (part, say) => {
    const w = weights();
    return (x) =>
      gradientOf(w, () => {
        const { a, b } = part((v) => {
          const a = v.mul(w);
          return { a, b: a.sin().mul(a) };
        }, w.mul(x));
        a.registerHook((g) => (say("a"), g.clamp(-0.7, 0.7)));
        b.registerHook((g) => g.mul(0.5));
        return a.add(b);
      });
  },
  "on a leaf, from outside": (part, say) => {
    const w = weights();
    w.registerHook((g) => (say("w"), g.clamp(-2, 2)));
    return (x) => gradientOf(w, () => part((v) => v.mul(w).mul(w), w.mul(x)));
  },
  "on an argument that is a leaf": (part, say) => {
    const w = weights();
    w.registerHook((g) => (say("w"), g.neg()));
    return (x) => gradientOf(w, () => part((v) => v.mul(x).exp().add(v), w));
  },
  "taken away before the next walk": (part, say) => {
    const w = weights();
    return (x, call) =>
      gradientOf(w, () => {
        const h = w.mul(x);
        {
          using _ = h.registerHook((g) => (say("gone"), g.mul(3)));
          part((v) => v.mul(w), h).sum().backward();
        }
        return part((v) => v.tanh(), h.detach().mul(w)).mul(call);
      });
  },
  "added and taken away between calls": (part, say) => {
    const w = weights();
    let hook: Disposable | null = null;
    return (x, call) =>
      gradientOf(w, () => {
        hook?.[Symbol.dispose]();
        hook = call % 2 === 0 ? null : w.registerHook((g) => (say("between"), g.mul(call)));
        return part((v) => v.mul(w), w.mul(x));
      });
  },
  "that collects gradients": (part) => {
    const w = weights();
    return (x, call) => {
      let seen: Tensor | null = null;
      const gradient = gradientOf(w, () =>
        part((v) => {
          const h = v.mul(w);
          h.registerHook((g) => void (seen = g));
          return h.tanh().mul(call);
        }, w.mul(x)));
      return gradient.add(seen!);
    };
  },
  "gradient reversal with a strength that changes": (part) => {
    const features = new nn.Linear(3, 3), domain = new nn.Linear(3, 1);
    const parameters = [...features.parameters(), ...domain.parameters()];
    const optimizer = new optim.SGD(parameters, { lr: 0.1 });
    return (x, call) => {
      optimizer.zeroGrad();
      const h = part((v) => features.forward(v), x.reshape([1, 3]));
      h.registerHook((g) => g.mul(-call));
      part((v) => domain.forward(v.tanh()), h).sum().backward();
      optimizer.step();
      return features.weight.mul(1);
    };
  },
  "gradients of gradients": (part, say) => {
    const w = weights();
    return (x) =>
      gradientOf(w, () => {
        const h = w.mul(x);
        h.registerHook((g) => (say("h"), g.mul(2)));
        const y = part((v) => {
          const q = v.mul(w);
          q.registerHook((g) => (say("q"), g.clamp(-1.5, 1.5).mul(g)));
          return q.sin();
        }, h);
        const [g] = grad([y.sum()], [w], { createGraph: true });
        return g!.square().add(y);
      });
  },
  "gradients with respect to a result": (part) => {
    const w = weights();
    return (x) => {
      const y = part((v) => v.mul(w), w.mul(x));
      y.registerHook((g) => g.mul(3));
      return grad([y.square().sum()], [y])[0]!;
    };
  },
  "accumulation over calls": (part) => {
    const w = weights();
    w.registerHook((g) => g.mul(0.5));
    return (x, call) => {
      if (call === 2) w.grad = null;
      part((v) => v.mul(w), w.mul(x)).sum().backward();
      return w.grad!.mul(1);
    };
  },
  "that throws, now and then": (part, say) => {
    const w = weights();
    return (x, call) => {
      w.grad = null;
      const h = w.mul(x);
      h.registerHook((g) => {
        if (call === 2) throw new RangeError("refused");
        return g.mul(2);
      });
      try {
        part((v) => v.mul(w), h).sum().backward();
      } catch (error) {
        say((error as Error).message);
        return x.mul(7);
      }
      return w.grad!.mul(1);
    };
  },
  "that goes backward itself": (part) => {
    const w = weights(), u = learned(1, 1, 1);
    return (x) =>
      gradientOf(w, () => {
        const h = w.mul(x);
        h.registerHook((g) => g.add(noGrad(() => u.mul(2))).mul(2));
        return part((v) => v.mul(w), h);
      });
  },
  "with dropout in train and eval": (part) => {
    const w = weights(), dropout = new nn.Dropout(0.5);
    return (x, call) => {
      dropout.train(call !== 1);
      return gradientOf(w, () =>
        part((v) => {
          const q = dropout.forward(v);
          q.registerHook((g) => g.mul(call + 2));
          return q.mul(w);
        }, w.mul(x)));
    };
  },
  "under autocast": (part) => {
    const w = learned(1, 2, 3);
    return (x, call) =>
      gradientOf(w, () =>
        amp.autocast("bfloat16", () =>
          part((v) => {
            const q = v.reshape([3, 1]).matmul(w.reshape([1, 3]));
            q.registerHook((g) => g.mul(call + 1));
            return q.tanh();
          }, x)).cast("float32"));
  },
  "on a leaf that is made in the call": (part) => (x, call) => {
    const z = x.detach();
    z.requiresGrad = true;
    z.registerHook((g) => g.mul(call));
    part((v) => v.mul(v).mul(z), z.mul(2)).sum().backward();
    return z.grad!.mul(1);
  },
  "on a weight that is frozen now and then": (part) => {
    const w = weights(), v = weights();
    w.registerHook((g) => g.mul(0.5));
    return (x, call) => {
      w.requiresGrad = call !== 2;
      w.grad = null;
      gradientOf(v, () => part((z) => z.mul(w), v.mul(x)));
      return (call === 2 ? v : w).grad!.mul(1);
    };
  },
};

/** Programs of other functions that `backward` calls: gradients of the program's own, second runs. */
Object.assign(
  programs,
  {
    "or a gradient of the program's own, whose strength changes": (part, say) => {
      const w = weights();
      let strength = 1;
      const scaled = customGradient((v: Tensor) => v.mul(2), (g, [v], y) => {
        say("gradient");
        return [g.mul(v!).add(y).mul(-strength)];
      });
      return (x, call) => {
        strength = call;
        return gradientOf(w, () =>
          part((v) => {
            const h = scaled(v.mul(w));
            h.registerHook((g) => (say("h"), g.clamp(-2, 2)));
            return scaled(h.sin()).cos();
          }, w.mul(x)));
      };
    },
    "or a gradient of the program's own, for some inputs in some calls": (part) => {
      const w = weights(), u = weights();
      let call = 1;
      const product = customGradient(
        (a: Tensor, b: Tensor) => a.mul(b),
        (g, [a, b]) => [g.mul(b!).mul(call), call === 2 ? null : g.mul(a!)],
      );
      return (x, now) => {
        call = now;
        u.grad = null;
        const gradient = gradientOf(w, () => part((v) => product(w.mul(v), u.mul(v)), x));
        return gradient.add(u.grad ?? 0);
      };
    },
    "or a gradient of the program's own, which throws now and then": (part, say) => {
      const w = weights();
      let call = 1;
      const refusing = customGradient((v: Tensor) => v.mul(2), (g) => {
        if (call === 2) throw new RangeError("refused");
        return [g.mul(call)];
      });
      return (x, now) => {
        call = now;
        try {
          return gradientOf(w, () => part((v) => refusing(v.mul(w)), x));
        } catch (error) {
          say((error as Error).message);
          return x.mul(7);
        }
      };
    },
    "or numbers of the host": (part) => {
      const w = weights(), table = new nn.Embedding(4, 3);
      return (x, call) =>
        gradientOf(w, () =>
          part((v) => {
            using labels = Tensor.fromHost(Int32Array.from([call]));
            const rows = table.forward(labels).mul(Tensor.fromHost([call, 1, 2]));
            return part((z) => z.mul(Tensor.fromHost([1, call, 1])).mul(w), rows.mul(v));
          }, w.mul(x)));
    },
  } satisfies Record<string, Program>,
);

const CALLS = [1, 2, 3, 1, 2, 2, 3, 1];

/** Results of a program in calls that differ in a number, or in their shape, too. */
async function outcome(make: Program, part: Part, isCompiled: boolean, isScaled: boolean) {
  manualSeed(5);
  const said: string[] = [], values: number[][] = [];
  const step = make(part, (text) => void said.push(text));
  const run = isCompiled ? compile(step) : step;
  for (const call of CALLS) {
    manualSeed(call);
    const x = Tensor.fromHost([0.5, 0.25, 1]).mul(isScaled ? call : 1).realize();
    values.push(await run(x, isScaled ? 1 : call).toNumbers());
  }
  return { values: values.flat(), said };
}

type Outcome = Awaited<ReturnType<typeof outcome>>;

/** Ways to fuse differ in the last digits. */
function assertSame(found: Outcome, plain: Outcome, what: string): void {
  assertEquals(found.said, plain.said, what);
  assertNumbers(found.values, plain.values, 1e-4, what);
}

testOnBackends("a hook acts once, whatever runs its program", async (backend) => {
  // Where kernels are compiled one by one, some of them.
  const names = Object.keys(programs).filter((_, k) => backend === "cpu" || k % 6 === 0);
  for (const name of names) {
    const plain = await outcome(programs[name]!, plainly, false, false);
    for (const [way, { part, isCompiled }] of Object.entries(ways)) {
      const found = await outcome(programs[name]!, part, isCompiled, false);
      assertSame(found, plain, `${way}: a hook ${name}`);
    }
  }
});

testOnCPU("hooks run in every call that is replayed", () => {
  if (isEager()) return;
  const w = weights(), calls: number[] = [];
  let call = 0;
  w.registerHook(() => void calls.push(call));
  const step = compile((x: Tensor) => gradientOf(w, () => w.mul(x)));
  const x = Tensor.ones([3]).realize();
  const outcomes = outcomesOf(() => {
    for (call = 0; call < 4; call++) step(x).dispose();
  });
  assertEquals(calls, [0, 1, 2, 3]);
  assertEquals(outcomes, ["recorded", "followed", "followed", "followed"]);
});

testOnCPU("a hook within a compiled function cannot read values", () => {
  const w = weights();
  w.registerHook((g) => void g.toHostSync());
  const step = compile((x: Tensor) => gradientOf(w, () => w.mul(x)));
  assertThrows(() => step(Tensor.ones([3])), Error, "Cannot read a value inside a compiled");
});

testOnCPU("a hook must return a tensor, or nothing", () => {
  const w = weights();
  w.registerHook((() => 3) as never);
  assertThrows(() => w.sum().backward(), TypeError, "from a hook, or nothing");
});

testOnCPU("what a hook gives is differentiated again", async () => {
  const x = learned(2);
  const y = x.mul(1);
  // 3 x^2 becomes 3 x^2 g, whose derivative the second walk hooks again.
  y.registerHook((g) => g.mul(10));
  const [first] = grad([y.pow(3).sum()], [x], { createGraph: true });
  assertEquals(await first!.toNumbers(), [120]);
  const [second] = grad([first!.sum()], [x]);
  assertEquals(await second!.toNumbers(), [1200]);
});

// ---- random graphs

const unaries = [
  (x: Tensor) => x.sin(),
  (x: Tensor) => x.mul(0.5),
  (x: Tensor) => x.tanh(),
  (x: Tensor) => x.square().mul(0.1),
];
const binaries = [
  (a: Tensor, b: Tensor) => a.add(b),
  (a: Tensor, b: Tensor) => a.mul(b).tanh(),
  (a: Tensor, b: Tensor) => a.sub(b),
];
const hooks = [
  (g: Tensor) => g.neg(),
  (g: Tensor) => g.clamp(-0.2, 0.2),
  (g: Tensor) => g.mul(g),
  () => undefined,
];

/** An operation on earlier tensors, and the hook on its result, if any. */
interface Operation {
  readonly of: readonly number[];
  readonly op: number;
  readonly hook: number | null;
}

const operation: fc.Arbitrary<Operation> = fc.record({
  of: fc.tuple(fc.nat(20), fc.nat(20)),
  op: fc.nat(unaries.length + binaries.length - 1),
  hook: fc.option(fc.nat(hooks.length - 1)),
});
const parts = fc.array(operation, { minLength: 1, maxLength: 4 });
const graphs = fc.array(parts, { minLength: 1, maxLength: 3 });

/** The results of operations on tensors, and on each other. */
function results(
  tensors: readonly Tensor[],
  operations: readonly Operation[],
  call: number,
  say: (text: string) => void,
): Tensor[] {
  const all = [...tensors], pick = (k: number): Tensor => all[k % all.length]!;
  for (const [k, { of: [a, b], op, hook }] of operations.entries()) {
    const unary = unaries[op], binary = binaries[op - unaries.length];
    const y = unary ? unary(pick(a!)) : binary!(pick(a!), pick(b!));
    if (hook !== null) y.registerHook((g) => (say(`${k}`), hooks[hook]!(g)?.mul(call)));
    all.push(y);
  }
  return all.slice(tensors.length);
}

/** The gradient of a leaf through a graph in parts, each of which sees what those before gave. */
function throughParts(graph: readonly (readonly Operation[])[]): Program {
  return (part, say) => {
    const w = weights();
    w.registerHook((g) => (say("w"), g.mul(0.5)));
    return (x, call) =>
      gradientOf(w, () => {
        const tensors = [w.mul(x)];
        for (const operations of graph) {
          const before = [...tensors];
          const run = (z: Tensor) => results([...before, z.add(w)], operations, call, say);
          tensors.push(...part(run, before[0]!));
        }
        return tensors.reduce((a, b) => a.add(b));
      });
  };
}

testOnCPU("random graphs with hooks: plain, checkpointed and compiled are one", () => {
  return fc.assert(
    fc.asyncProperty(graphs, fc.boolean(), async (graph, isScaled) => {
      const program = throughParts(graph);
      const plain = await outcome(program, plainly, false, isScaled);
      const sorted = { ...plain, said: plain.said.toSorted() };
      for (const [way, { part, isCompiled }] of Object.entries(ways)) {
        const found = await outcome(program, part, isCompiled, isScaled);
        // Tensors that do not depend on each other may come in another order.
        assertSame({ ...found, said: found.said.toSorted() }, sorted, way);
      }
    }),
    { numRuns: 40, seed: 11 },
  );
});
