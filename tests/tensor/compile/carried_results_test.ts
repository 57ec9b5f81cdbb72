/** Variables of its own in a compiled function, which serve later calls, as in a plain one. */
import { assertEquals, assertThrows } from "@std/assert";
import { compile, manualSeed, nn, noGrad, optim, Tensor } from "../../../mod.ts";
import { isEager } from "../../../backend/internal.ts";
import { testOnBackends, testOnCPU } from "../../opencl.ts";
import { assertNumbers } from "../numbers.ts";
import { outcomesOf, type Wrap } from "./outcomes.ts";

/** Makes a step; it gives what to look at. */
type Program = (wrap: Wrap) => (x: Tensor, call: number) => Tensor;

const programs: Record<string, Program> = {
  "a state that is not returned": (wrap) => {
    let h = Tensor.zeros([2]);
    return wrap((x: Tensor) => {
      h = h.mul(0.5).add(x);
      return h.sum();
    });
  },
  "a state that is returned, too": (wrap) => {
    let h = Tensor.zeros([2]);
    return wrap((x: Tensor) => h = h.mul(0.5).add(x));
  },
  "a state of two parts": (wrap) => {
    let state = { h: Tensor.zeros([2]), c: Tensor.ones([2]) };
    return wrap((x: Tensor) => {
      const { h, c } = state;
      state = { h: c.mul(0.5).add(x), c: h.add(c).mul(0.25) };
      return state.h.sum();
    });
  },
  "a state that the next call disposes of": (wrap) => {
    let h = Tensor.zeros([2]);
    return wrap((x: Tensor) => {
      const next = h.mul(0.5).add(x);
      h.dispose();
      return (h = next).sum();
    });
  },
  "a state that begins anew where the batch has another size": (wrap) => {
    let h = Tensor.zeros([2]);
    const step = wrap((x: Tensor) => {
      h = h.size === x.size ? h.mul(0.5).add(x) : x.mul(1);
      return h.sum();
    });
    return (x, call) => step([1, 3, 4].includes(call) ? x.slice([0, 1]) : x);
  },
  "a list of the last results": (wrap) => {
    const last: Tensor[] = [];
    return wrap((x: Tensor) => {
      last.push(x.mul(last.length + 1));
      if (last.length > 2) last.shift();
      return last.reduce((a, b) => a.add(b)).sum();
    });
  },
  "what is read outside": (wrap) => {
    let last: Tensor | null = null;
    const step = wrap((x: Tensor) => {
      last = x.mul(2);
      return last.sum();
    });
    return (x) => (step(x), last!.add(1));
  },
  "the state of a recurrent network that learns": (wrap) => {
    const w = Tensor.fromHost([0.5, 0.25], { requiresGrad: true });
    const optimizer = new optim.SGD([w], { lr: 0.1 });
    let h = Tensor.zeros([2]);
    return wrap((x: Tensor) => {
      optimizer.zeroGrad();
      const next = h.mul(w).add(x).tanh(), loss = next.square().sum();
      loss.backward();
      optimizer.step();
      h = next.detach();
      return loss;
    });
  },
  "a state with a graph that nobody goes through": (wrap) => {
    const w = Tensor.fromHost([0.5, 0.25], { requiresGrad: true });
    let h = Tensor.zeros([2]);
    return wrap((x: Tensor) => {
      h = h.mul(w).add(x).tanh();
      return h.sum();
    });
  },
  "calls that differ": (wrap) => {
    let h = Tensor.zeros([2]);
    const step = wrap((x: Tensor, factor: number) => {
      h = h.mul(factor).add(x.slice([0, 2]));
      return h.sum();
    });
    return (x, call) => step(call % 3 === 1 ? Tensor.ones([3]) : x, call % 4 === 2 ? 0.5 : 0.25);
  },
  "a mean in a module": (wrap) => {
    const layer = new nn.Linear(2, 2);
    noGrad(() => layer.weight.assign(Tensor.eye(2)));
    let mean: Tensor | null = null;
    return wrap((x: Tensor) => {
      const y = layer.forward(x.reshape([1, 2])).detach();
      mean = mean === null ? y : mean.lerp(y, 0.1);
      return y.sub(mean).square().sum();
    });
  },
  "gradients that a hook has seen": (wrap) => {
    const w = Tensor.fromHost([0.5, 0.25], { requiresGrad: true });
    let mean = Tensor.zeros([2]);
    w.registerHook((g) => void (mean = mean.mul(0.9).add(g)));
    return wrap((x: Tensor) => {
      w.grad = null;
      w.mul(x).square().sum().backward();
      return mean.sum();
    });
  },
};

const CALLS = 7;

async function outcome(program: Program, wrap: Wrap): Promise<number[]> {
  manualSeed(4);
  const step = program(wrap), found: number[] = [];
  for (let call = 0; call < CALLS; call++) {
    found.push(...await step(Tensor.fromHost([call % 3 + 1, 0.5]), call).toNumbers());
  }
  return found;
}

testOnBackends("results in variables are there in later calls", async () => {
  for (const [name, program] of Object.entries(programs)) {
    const plain = await outcome(program, (fn) => fn), found = await outcome(program, compile);
    assertNumbers(found, plain, 1e-4, name);
  }
});

testOnCPU("a call is recorded again once it is known what later calls use, then replayed", () => {
  if (isEager()) return;
  const step = programs["a state that is not returned"]!(compile), x = Tensor.ones([2]).realize();
  const outcomes = outcomesOf(() => {
    for (let call = 0; call < 5; call++) step(x, call).dispose();
  });
  assertEquals(outcomes, ["recorded", "recorded", "followed", "followed", "followed"]);
});

testOnBackends("going backward through a compiled result is refused in the first call", () => {
  const w = Tensor.ones([2], { requiresGrad: true });
  const step = compile((x: Tensor) => w.mul(x).sum());
  for (let call = 0; call < 3; call++) {
    assertThrows(() => step(Tensor.ones([2])).backward(), Error, "call backward() inside");
  }
});
