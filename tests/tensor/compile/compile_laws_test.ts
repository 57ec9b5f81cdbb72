/**
 * A compiled function means what the function means, whatever has changed since it was recorded: each
 * program is run as it is written and compiled, and gives the same numbers.
 * The file is long because it is one list of such programs.
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import {
  amp,
  checkpoint,
  compile,
  grad,
  manualSeed,
  memory,
  nn,
  noGrad,
  optim,
  Tensor,
} from "../../../mod.ts";
import { isEager } from "../../../backend/internal.ts";
import { outcomesOf, stored, type Wrap } from "./outcomes.ts";
import { testOnBackends, testOnCPU } from "../../opencl.ts";
import { assertNumbers, leaf, numbersOf as numbers } from "../numbers.ts";
import { kernelsOf, learn } from "../training.ts";

const CALLS = 12;

/** A linear model with a loss, and how it learns. */
function trainer(make = (p: Tensor[]): optim.Optimizer => new optim.SGD(p, { lr: 0.1 })) {
  const model = new nn.Sequential(new nn.Linear(3, 4), new nn.Tanh(), new nn.Linear(4, 1));
  const optimizer = make(model.parameters());
  const x = Tensor.rand([5, 3]).realize();
  const state = (): number[] => numbers(...model.parameters());
  const lossOf = (x: Tensor): Tensor => model.forward(x).square().mean();
  const step = (x: Tensor): Tensor => learn(optimizer, lossOf(x));
  return { model, optimizer, x, state, step, lossOf };
}

/** Goes backward from a loss, and gives it. */
function backwardFrom(lossOf: (x: Tensor) => Tensor): (x: Tensor) => Tensor {
  return (x) => {
    const loss = lossOf(x);
    loss.backward();
    return loss;
  };
}

/** A change between two calls; a program returns what to look at after each. */
const programs: Record<string, (wrap: Wrap) => (call: number) => number[]> = {
  "train and eval": (wrap) => {
    const [linear, norm] = [new nn.Linear(3, 4), new nn.BatchNorm1d(4)];
    const model = new nn.Sequential(linear, new nn.Dropout(0.5), norm);
    const forward = wrap((x: Tensor) => model.forward(x)), x = Tensor.rand([6, 3]).realize();
    return (call) => {
      if (call % 3 === 2) model.train(call % 2 === 0);
      return numbers(forward(x));
    };
  },
  "a pending tensor is given twice": (wrap) => {
    const run = wrap((x: Tensor, y: Tensor) => x.mul(y).add(x));
    return (call) => {
      const x = Tensor.arange(3).add(call);
      return numbers(call % 2 === 0 ? run(x, x) : run(x, x.detach()));
    };
  },
  "a buffer is given beside what it holds, pending": (wrap) => {
    const run = wrap((x: Tensor, y: Tensor) => x.mul(y).add(x));
    const held = nn.buffer(Tensor.ones([3]));
    return (call) => {
      held.assign(held.add(call));
      return numbers(run(held.detach(), held));
    };
  },
  "a parameter is frozen, and learns again": (wrap) => {
    const { model, x, state, step } = trainer(), run = wrap(step);
    return (call) => {
      if (call === 4) model.parameters()[0]!.requiresGrad = false;
      if (call === 8) model.parameters()[0]!.requiresGrad = true;
      return [...numbers(run(x)), ...state()];
    };
  },
  "a variable holds another tensor": (wrap) => {
    let w = stored(1, 2);
    const f = wrap((x: Tensor) => x.mul(w)), x = stored(3, 4);
    return (call) => {
      if (call > 3) w = stored(call, -call);
      if (call === 9) w = stored(7);
      return numbers(f(x));
    };
  },
  "a variable holds another model": (wrap) => {
    const models = [new nn.Linear(2, 2), new nn.Linear(2, 2), new nn.Linear(2, 3)];
    let model = models[0]!;
    const f = wrap((x: Tensor) => model.forward(x)), x = stored(3, 4).reshape([1, 2]).realize();
    return (call) => {
      model = models[(call >> 1) % 3]!;
      return numbers(f(x));
    };
  },
  "a number from outside": (wrap) => {
    let factor = 2;
    const f = wrap((x: Tensor) => x.mul(factor).pow(factor > 2 ? 2 : 1)), x = stored(3, 4);
    return (call) => {
      factor = 2 + (call >> 2);
      return numbers(f(x));
    };
  },
  "a parameter of a module is another one": (wrap) => {
    const model = new nn.Linear(2, 1), x = stored(3, 4).reshape([1, 2]).realize();
    const f = wrap((x: Tensor) => model.forward(x));
    return (call) => {
      if (call === 5) model.weight = nn.parameter(Tensor.full([1, 2], 0.5));
      return numbers(f(x));
    };
  },
  "a scheduler steps inside": (wrap) => {
    const { optimizer, x, state, step } = trainer();
    const scheduler = new optim.ExponentialLR(optimizer, { gamma: 0.7 });
    const run = wrap((x: Tensor) => {
      const loss = step(x);
      scheduler.step();
      return loss;
    });
    return () => [...numbers(run(x)), ...state(), optimizer.lr];
  },
  "a scheduler steps between two optimizers' steps": (wrap) => {
    const { optimizer, model, x, state, step } = trainer();
    const scheduler = new optim.ExponentialLR(optimizer, { gamma: 0.7 });
    const run = wrap((x: Tensor) => {
      step(x);
      scheduler.step();
      return step(x).add(model.forward(x).mean().detach());
    });
    return () => [...numbers(run(x)), ...state()];
  },
  "the rate is set inside, before the step": (wrap) => {
    const { optimizer, x, state, step } = trainer();
    let rate = 0.1;
    const run = wrap((x: Tensor) => {
      optimizer.lr = rate;
      return step(x);
    });
    return () => {
      rate *= 0.8;
      return [...numbers(run(x)), ...state()];
    };
  },
  "an option of the optimizer": (wrap) => {
    const { optimizer, x, state, step } = trainer((p) => new optim.AdamW(p, { lr: 0.05 }));
    const run = wrap(step);
    return (call) => {
      const { options } = optimizer.groups[0] as optim.ParameterGroup<optim.AdamOptions>;
      if (call === 4) options.weightDecay = 0.5;
      if (call === 8) options.beta1 = 0.2;
      return [...numbers(run(x)), ...state()];
    };
  },
  "an optimizer of the user's own": (wrap) => {
    let sharpness = 1;
    class Own extends optim.SGD {
      protected override update(u: optim.Update<optim.SGDOptions>, assign: optim.Assign): void {
        assign(u.parameter, u.parameter.sub(u.gradient.mul(0.1 * sharpness)));
      }
    }
    const { x, state, step } = trainer((p) => new Own(p)), run = wrap(step);
    return (call) => {
      sharpness = 1 + (call >> 2);
      return [...numbers(run(x)), ...state()];
    };
  },
  "a state is loaded": (wrap) => {
    const { model, optimizer, x, state, step } = trainer((p) => new optim.Adam(p, { lr: 0.05 }));
    const run = wrap(step);
    const copyOf = (state: Record<string, Tensor>) =>
      Object.fromEntries(Object.entries(state).map(([k, t]) => [k, t.mul(1).realize()]));
    const start = copyOf(model.stateDict());
    return (call) => {
      if (call % 5 === 4) {
        model.loadStateDict(copyOf(start));
        optimizer.loadStateDict(copyOf(optimizer.stateDict()));
      }
      return [...numbers(run(x)), ...state()];
    };
  },
  "the seed": (wrap) => {
    const f = wrap((x: Tensor) => x.add(Tensor.rand([2])).mul(Tensor.randn([2]))), x = stored(3, 4);
    return (call) => {
      if (call % 4 === 3) manualSeed(call);
      return numbers(f(x));
    };
  },
  "the seed is set inside": (wrap) => {
    let seed = 0;
    const f = wrap((x: Tensor) => {
      const before = x.add(Tensor.rand([2]));
      manualSeed(seed);
      return before.add(Tensor.rand([2]));
    });
    const x = stored(3, 4);
    return () => (seed += 1, numbers(f(x)));
  },
  "recording for backward": (wrap) => {
    const w = leaf(stored(2, 3)), x = stored(4, 5);
    const f = wrap((x: Tensor) => {
      const y = x.mul(w);
      return y.requiresGrad ? y.add(1) : y.sub(1);
    });
    return (call) => numbers(call % 3 === 1 ? noGrad(() => f(x)) : f(x));
  },
  "autocast around": (wrap) => {
    const a = Tensor.rand([4, 4]).realize(), f = wrap((x: Tensor) => x.matmul(a));
    const x = Tensor.rand([4, 4]).realize();
    return (call) => {
      const y = call % 3 === 2 ? amp.autocast("float16", () => f(x)) : f(x);
      return [...numbers(y), y.dtype === "float16" ? 1 : 0];
    };
  },
  "the type, shape and nesting of arguments": (wrap) => {
    const f = wrap((args: { x: Tensor; more: Tensor[] }) =>
      args.more.reduce((sum, t) => sum.add(t), args.x.mul(2))
    );
    const kinds = [
      () => ({ x: stored(1, 2), more: [stored(3, 4)] }),
      () => ({ x: stored(1, 2), more: [stored(3)] }),
      () => ({ x: Tensor.fromHost(Int32Array.of(1, 2)), more: [stored(3, 4)] }),
      () => ({ x: stored(1, 2), more: [stored(3, 4), stored(5, 6)] }),
      () => ({ x: stored(1, 2), more: [] }),
    ];
    return (call) => numbers(f(kinds[call % kinds.length]!()));
  },
  "another this": (wrap) => {
    class Scale {
      constructor(readonly w: Tensor, readonly by: number) {}
      apply = wrapped;
    }
    function scaled(this: unknown, x: Tensor): Tensor {
      return x.mul((this as Scale).w).add((this as Scale).by);
    }
    const wrapped = wrap(scaled as (x: Tensor) => Tensor);
    const same = [stored(1, 2), stored(3, 4)].map((w) => new Scale(w, 0));
    const scales = [...same, new Scale(stored(5), 1)];
    const x = stored(3, 4);
    return (call) => numbers(scales[(call >> 1) % 3]!.apply(x));
  },
  "what the function does beside": (wrap) => {
    let calls = 0;
    const sums: Tensor[] = [];
    const f = wrap((x: Tensor) => {
      calls++;
      return { y: x.add(1), calls, sums: [x.sum()] };
    });
    return (call) => {
      const { y, calls: seen, sums: [sum] } = f(stored(call, 1));
      sums.push(sum!);
      return [...numbers(y), seen, calls, ...numbers(...sums)];
    };
  },
  "branches taken in turn": (wrap) => {
    const f = wrap((x: Tensor, which: number) => {
      const y = x.mul(2);
      if (which === 0) return y;
      const z = y.add(which);
      return which === 1 ? z.neg() : z.sub(y);
    });
    return (call) => numbers(f(stored(call, 1), (call * 7) % 3));
  },
  "data of the host inside": (wrap) => {
    let k = 0;
    const f = wrap((x: Tensor) => x.mul(Tensor.fromHost([k, 2 * k])).add(Tensor.full([2], 1)));
    return (call) => (k = call, numbers(f(stored(1, 2))));
  },
  "a leaf made inside": (wrap) => {
    const { model, optimizer, x, state } = trainer((p) => new optim.Adam(p));
    const run = wrap((x: Tensor) => {
      const z = leaf(x.detach());
      const u = model.forward(z), [g] = grad([u.sum()], [z], { createGraph: true });
      return learn(optimizer, g!.square().mean().add(u.square().mean()));
    });
    return () => [...numbers(run(x)), ...state()];
  },
  "an argument that requires a gradient": (wrap) => {
    const { model, x, lossOf } = trainer(), run = wrap(backwardFrom(lossOf));
    return (call) => {
      x.requiresGrad = call % 4 !== 3;
      model.zeroGrad();
      if (call % 3 === 0) x.grad = null;
      return [...numbers(run(x)), ...(x.grad ? numbers(x.grad) : [])];
    };
  },
  "gradients that add up": (wrap) => {
    const { model, optimizer, x, state, lossOf } = trainer(), run = wrap(backwardFrom(lossOf));
    return (call) => {
      const loss = numbers(run(x)), g = numbers(...model.parameters().map(({ grad }) => grad!));
      if (call % 4 === 3) {
        optimizer.step();
        optimizer.zeroGrad();
      }
      return [...loss, ...g, ...state()];
    };
  },
  "gradients that are changed inside": (wrap) => {
    const { model, optimizer, x, state } = trainer();
    let limit = 1;
    const run = wrap((x: Tensor) => {
      optimizer.zeroGrad();
      const loss = model.forward(x).square().mean();
      loss.backward();
      for (const p of model.parameters()) p.grad = p.grad!.mul(0.5);
      const norm = optim.clipGradNorm(model.parameters(), limit);
      optimizer.step();
      return [loss, norm];
    });
    return (call) => {
      if (call === 6) limit = 0.01;
      return [...numbers(...run(x)), ...state()];
    };
  },
  "a scaler": (wrap) => {
    const { model, optimizer, x, state } = trainer();
    const scaler = new amp.GradScaler({ initScale: 64, growthInterval: 3 });
    const run = wrap((x: Tensor) => {
      const loss = amp.autocast("float16", () => model.forward(x).square().mean());
      optimizer.zeroGrad();
      scaler.scale(loss).backward();
      scaler.unscale(optimizer);
      optim.clipGradNorm(model.parameters(), 1);
      scaler.step(optimizer);
      scaler.update();
      return loss;
    });
    return () => [...numbers(run(x)), ...state(), ...numbers(scaler.stateDict().scale!)];
  },
  "two captured tensors that shared their memory": (wrap) => {
    const a = stored(1, 2), b = a.detach().realize(), f = wrap((x: Tensor) => x.mul(a).sub(b));
    return (call) => {
      if (call === 4) a.assign(stored(5, 6));
      if (call === 8) b.assign(stored(-1, -2));
      return numbers(f(stored(3, 4)));
    };
  },
  "assigned twice, and read between": (wrap) => {
    const s = stored(1, 2);
    const f = wrap((x: Tensor) => {
      s.assign(s.add(x));
      const between = s.mul(10);
      s.assign(s.mul(0.5));
      return between.add(s);
    });
    return () => [...numbers(f(stored(1, 1))), ...numbers(s)];
  },
  "a checkpoint inside": (wrap) => {
    const { model, optimizer, x, state } = trainer();
    let factor = 1;
    const run = wrap((x: Tensor) => {
      const y = checkpoint((x: Tensor) => model.forward(x).mul(factor), x);
      return learn(optimizer, y.square().mean());
    });
    return (call) => (factor = 1 + (call >> 2), [...numbers(run(x)), ...state()]);
  },
  "a checkpoint of what a leaf made inside gives": (wrap) => {
    let factor = 1;
    const norm = new nn.BatchNorm1d(3);
    const run = wrap((x: Tensor) => {
      const z = leaf(x.detach());
      const part = (v: Tensor) => norm.forward(v.sin().mul(factor).reshape([1, 3]).expand([2, 3]));
      checkpoint(part, z.mul(1.5)).square().sum().backward();
      return z.grad!;
    });
    return (call) => {
      factor = 1 + (call % 3);
      norm.train(call % 4 === 3);
      return numbers(run(stored(1, 2, 4)));
    };
  },
  "a compiled function within one": (wrap) => {
    let k = 1;
    const inner = wrap((x: Tensor) => x.mul(k));
    const f = wrap((x: Tensor) => inner(x).add(inner(x).sum()));
    return (call) => (k = 1 + (call >> 2), numbers(f(stored(call, 2))));
  },
  "a step that sometimes throws after it stepped": (wrap) => {
    const { x, state, step } = trainer();
    let isBad = false;
    const run = wrap((x: Tensor) => {
      const loss = step(x);
      if (isBad) throw new RangeError("bad");
      return loss;
    });
    return (call) => {
      isBad = call % 3 === 2;
      if (isBad) assertThrows(() => run(x), RangeError, "bad");
      return [...(isBad ? [] : numbers(run(x))), ...state()];
    };
  },
  "a cache that fills while it is called": (wrap) => {
    const cache = new Map<number, Tensor>();
    const f = wrap((x: Tensor, n: number) => {
      let mask = cache.get(n);
      if (!mask) cache.set(n, mask = Tensor.fromHost([n, 1]));
      return x.mul(mask);
    });
    return (call) => numbers(f(stored(3, 4), call % 3));
  },
  "parameters that rest at times": (wrap) => {
    const { model, optimizer, x, state } = trainer((p) => new optim.Adam(p));
    let all = true;
    const run = wrap((x: Tensor) => {
      const hidden = model.forward(x);
      const y = all ? hidden : hidden.detach().add(model.parameters()[3]!);
      return learn(optimizer, y.square().mean());
    });
    return (call) => (all = call % 4 < 2, [...numbers(run(x)), ...state()]);
  },
};

for (const [name, program] of Object.entries(programs)) {
  testOnBackends(`compiled and not, the same happens: ${name}`, () => {
    const follow = (wrap: Wrap): number[][] => {
      manualSeed(3);
      const call = program(wrap);
      return Array.from({ length: CALLS }, (_, k) => call(k));
    };
    const plain = follow((fn) => fn), compiled = follow(compile);
    plain.forEach((wanted, k) => assertNumbers(compiled[k]!, wanted, 2e-5, `call ${k}`));
  });
}

testOnBackends("thousands of compiled calls keep nothing", () => {
  const { optimizer, model, x } = trainer((p) => new optim.Adam(p));
  const step = compile((x: Tensor) => {
    return learn(optimizer, model.forward(leaf(x.detach())).square().mean());
  });
  const run = (calls: number): number => {
    for (let k = 0; k < calls; k++) step(x).dispose();
    return memory.stats().requestedBytes;
  };
  const before = run(20);
  assertEquals(run(isEager() ? 100 : 2_000), before);
});

testOnBackends("calls of which each is another one keep little", () => {
  let k = 0;
  const f = compile((x: Tensor) => x.mul(k++).exp().sum());
  const run = (calls: number): number => {
    for (let i = 0; i < calls; i++) f(x).dispose();
    return memory.stats().requestedBytes;
  };
  const x = stored(...Array(100).keys()), before = run(300);
  assert(run(600) <= before + 64 * 1024, "programs pile up");
});

testOnBackends("a compiled step launches nothing but its kernels", () => {
  if (isEager()) return;
  const { x, step } = trainer((p) => new optim.Adam(p)), run = compile(step);
  for (let k = 0; k < 4; k++) run(x).dispose();
  const compiled = kernelsOf(() => run(x).dispose());
  assertEquals(compiled, kernelsOf(() => step(x).realize().dispose()));
});

testOnBackends("what a compiled function keeps to itself says so when it is used", () => {
  let kept: Tensor | null = null;
  const f = compile((x: Tensor) => {
    kept = x.mul(2);
    return kept.sum();
  });
  for (let k = 0; k < 3; k++) f(stored(3, 4));
  assertThrows(() => kept!.toHostSync(), Error, "did not return it; return it from the function");
});

testOnBackends("an asynchronous function cannot be compiled, and that is all", async () => {
  const x = stored(1, 2);
  const pending: Promise<number>[] = [];
  const keeping = (x: Tensor): Promise<number> => {
    const later = Promise.resolve(x).then((t) => t.sum().item());
    pending.push(later);
    return later;
  };
  const functions: ((x: Tensor) => Promise<number>)[] = [
    ...[async (x: Tensor) => await x.sum().item(), keeping],
    (x) => Promise.reject(new Error(`of ${x.shape}`)),
  ];
  for (const fn of functions) {
    const later = compile(fn);
    for (let k = 0; k < 3; k++) assertThrows(() => void later(x), TypeError, "asynchronous");
  }
  assertEquals(await Promise.all(pending), [3, 3, 3]);
});

testOnBackends("reading inside a compiled function is an error in every call", () => {
  let reads = false;
  const f = compile((x: Tensor) => reads ? x.mul(x.sum().itemSync()) : x.mul(2));
  const x = stored(1, 2);
  for (let k = 0; k < 6; k++) {
    reads = k % 2 === 1;
    if (reads) assertThrows(() => f(x), Error, "Cannot read a value inside a compiled function");
    else assertEquals(numbers(f(x)), [2, 4]);
  }
});

const layers: Record<string, [make: () => nn.AnyModule, shape: number[]]> = {
  AdaptiveAvgPool2d: [() => new nn.AdaptiveAvgPool2d(2), [2, 2, 8, 8]],
  AvgPool2d: [() => new nn.AvgPool2d(2), [2, 2, 8, 8]],
  MaxPool2d: [() => new nn.MaxPool2d(2), [2, 2, 8, 8]],
  BatchNorm1d: [() => new nn.BatchNorm1d(8), [2, 8]],
  BatchNorm2d: [() => new nn.BatchNorm2d(2), [2, 2, 8, 8]],
  Conv2d: [() => new nn.Conv2d(2, 3, 3), [2, 2, 8, 8]],
  Dropout: [() => new nn.Dropout(), [2, 8]],
  Flatten: [() => new nn.Flatten(), [2, 2, 8]],
  LayerNorm: [() => new nn.LayerNorm(8), [2, 8]],
  Linear: [() => new nn.Linear(8, 4), [2, 8]],
  MultiheadAttention: [() => new nn.MultiheadAttention(8, 2, { batchFirst: true }), [2, 4, 8]],
  GELU: [() => new nn.GELU(), [2, 8]],
  Softmax: [() => new nn.Softmax(), [2, 8]],
};

testOnCPU("the second call of a step is replayed, whatever layer is in it (cpu)", () => {
  for (const [name, [make, shape]] of Object.entries(layers)) {
    const layer = make(), scale = nn.parameter(Tensor.ones([1]));
    const optimizer = new optim.AdamW([scale, ...layer.parameters()]);
    const step = compile((x: Tensor) => {
      const given = x.mul(scale), isAttention = layer instanceof nn.MultiheadAttention;
      const out = isAttention
        ? layer.forward(given, given, given, { isCausal: true })
        : layer.forward(given) as Tensor;
      return learn(optimizer, out.square().mean());
    });
    const x = Tensor.rand(shape).realize();
    const outcomes = outcomesOf(() => [0, 1, 2].forEach(() => step(x).dispose()));
    assertEquals(outcomes, ["recorded", "followed", "followed"], name);
  }
});

testOnCPU("steps that a GradScaler may leave out have the values of plain calls (cpu)", () => {
  const run = (isCompiled: boolean): { outcomes: string[]; values: number[][] } => {
    manualSeed(4);
    const layer = new nn.Linear(3, 2), scaler = new amp.GradScaler({ growthInterval: 2 });
    const optimizer = new optim.SGD(layer.parameters(), { lr: 0.1, momentum: 0.9 });
    const train = (x: Tensor): Tensor => {
      const y = amp.autocast("float16", () => layer.forward(x));
      return learn(optimizer, y.square().mean(), scaler);
    };
    const step = isCompiled ? compile(train) : train, values: number[][] = [];
    // The third input overflows float16.
    const outcomes = outcomesOf(() =>
      [1, 2, 1e5, 1, 3].forEach((size) => {
        using x = Tensor.full([4, 3], size);
        step(x).dispose();
        values.push([...numbers(layer.weight), ...numbers(scaler.stateDict()["scale"]!)]);
      })
    );
    return { outcomes, values };
  };
  const plain = run(false), compiled = run(true);
  assertEquals(compiled.values, plain.values);
  assertEquals(plain.values[2]!.slice(0, -1), plain.values[1]!.slice(0, -1));
  assertEquals(compiled.outcomes, ["recorded", "followed", "followed", "followed", "followed"]);
});

testOnCPU("steps that a GradScaler leaves out are found with the step (cpu)", () => {
  const launched = (isCompiled: boolean): number => {
    const blocks = Array.from({ length: 20 }, () => [
      ...[new nn.Linear(3, 3), new nn.BatchNorm1d(3), new nn.ReLU()],
    ]);
    const model = new nn.Sequential(...blocks.flat()), scaler = new amp.GradScaler();
    const optimizer = new optim.SGD(model.parameters(), { lr: 0.1, momentum: 0.9 });
    const labels = Tensor.fromHost(new Int32Array([0, 1, 2, 1])).realize();
    const train = (x: Tensor): Tensor => {
      const y = amp.autocast("float16", () => model.forward(x).cast("float32"));
      return learn(optimizer, y.crossEntropy(labels), scaler);
    };
    const step = isCompiled ? compile(train) : train, x = Tensor.rand([4, 3]).realize();
    for (let k = 0; k < 3; k++) step(x).realize().dispose();
    return kernelsOf(() => step(x).realize().dispose());
  };
  const plain = launched(false), replayed = launched(true);
  assert(replayed <= plain, `${replayed} kernels for ${plain}`);
});

testOnCPU("a step whose calls all differ gives up recording, and its memory back", () => {
  let k = 0;
  const f = compile((x: Tensor) => x.mul(k++).softmax(0).cumsum(0).softmax(0).sum());
  const x = Tensor.rand([10_000]).realize(), before = memory.stats().requestedBytes;
  const outcomes = outcomesOf(() => {
    for (let i = 0; i < 50; i++) f(x).dispose();
  });
  assertEquals(outcomes.length < 10, true, `${outcomes.length} calls were recorded`);
  assertEquals(memory.stats().requestedBytes - before, 0);
});

testOnBackends("a tensor from outside that nobody has computed takes no assignment away", () => {
  const sums = (wrap: Wrap): number[][] => {
    const total = Tensor.zeros([2]).realize(), x = Tensor.ones([2]).realize();
    const factor = Tensor.fromHost([3]), later = Tensor.ones([2]).mul(5);
    const f = wrap((x: Tensor) => {
      total.assign(total.add(x));
      return factor.mul(2).add(later);
    });
    return Array.from({ length: 5 }, () => [...numbers(f(x)), ...numbers(total)]);
  };
  assertEquals(sums(compile), sums((fn) => fn));
});
