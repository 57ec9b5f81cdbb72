/**
 * A value stays while anything may need it: programs that dispose of nothing that they use afterwards.
 * Each runs on both backends, and gives what it gives when every value is stored as soon as it is made.
 */
import { assert, assertEquals } from "@std/assert";
import { manualSeed, nn, noGrad, optim, Tensor } from "../../../mod.ts";
import { testOnBackends } from "../../opencl.ts";
import { assertNumbers, leaf, numbersOf } from "../numbers.ts";
import { learn } from "../training.ts";

/** Keeps values as they are made, where a program is run for its expected numbers. */
type Keep = (tensor: Tensor) => Tensor;

const STEPS = 6;

function learner(make?: (parameters: Tensor[]) => optim.Optimizer) {
  const net = new nn.Linear(4, 4), x = Tensor.fromHost([[1, 2, 3, 4], [0.5, -1, 2, 0]]);
  const optimizer = make?.(net.parameters()) ?? new optim.SGD(net.parameters(), { lr: 0.1 });
  return { net, x, optimizer, learn: (loss: Tensor): Tensor => learn(optimizer, loss) };
}

/** Results of steps, one after the other. */
function steps(step: (k: number) => Tensor | Tensor[], count = STEPS): Tensor[] {
  return Array.from({ length: count }, (_, k) => step(k)).flat();
}

/** Reads results of programs at their end: one after the other, then once more. */
const programs: Record<string, (keep: Keep) => Tensor[]> = {
  "gradients add up where nobody clears them": (keep) => {
    const { net, x, optimizer } = learner();
    for (let k = 0; k < STEPS; k++) {
      keep(net.forward(x)).square().mean().backward();
      for (const p of net.parameters()) keep(p.grad!);
      optimizer.step();
    }
    return [...net.parameters(), ...net.parameters().map((p) => p.grad!)];
  },
  "gradients add up over assignments by hand": (keep) => {
    const w = Tensor.fromHost([1, 2], { requiresGrad: true }), x = Tensor.fromHost([1, 2]);
    for (let k = 0; k < STEPS; k++) {
      w.mul(x).square().sum().backward();
      keep(w.grad!);
      w.assign(w.sub(w.grad!.mul(0.01))).realize();
    }
    return [w, w.grad!];
  },
  "several steps of one backward": (keep) => {
    const { net, x, optimizer } = learner((p) => new optim.Adam(p, { lr: 0.05 }));
    keep(net.forward(x)).square().mean().backward();
    for (const p of net.parameters()) keep(p.grad!);
    for (let k = 0; k < STEPS; k++) optimizer.step();
    return [...net.parameters()];
  },
  "backpropagation through time, truncated by detach": (keep) => {
    const { net, x, learn } = learner();
    let state = Tensor.zeros([2, 4]);
    const losses = steps(() => {
      state = keep(net.forward(x.add(state.detach())).tanh());
      return keep(learn(keep(state.square().sum())).detach());
    });
    return [state, ...losses];
  },
  "the log-probabilities of an old policy": (keep) => {
    const { net, x, learn } = learner();
    return steps(() => {
      const old = keep(noGrad(() => net.forward(x).logSoftmax(-1)));
      return steps(() => {
        const ratio = net.forward(x).logSoftmax(-1).sub(old).exp();
        const loss = learn(ratio.clamp(0.8, 1.2).minimum(ratio).mean().neg());
        return [keep(loss.detach()), old];
      }, 3);
    }, 3);
  },
  "a queue of detached features": (keep) => {
    const { net, x, learn } = learner();
    let bank = Tensor.zeros([6, 4]);
    for (let k = 0; k < STEPS; k++) {
      const out = net.forward(x);
      keep(out);
      learn(out.matmul(bank.transpose()).logSumExp(-1).sum());
      bank = keep(Tensor.concat([bank.slice([2, null]), out.detach()]));
    }
    return [bank];
  },
  "hits of an epoch, counted after each step": (keep) => {
    const { net, x, learn } = learner();
    const labels = Tensor.fromHost(Int32Array.of(1, 2));
    let hits = Tensor.zeros([]);
    for (let k = 0; k < STEPS; k++) {
      const out = keep(net.forward(x));
      learn(out.crossEntropy(labels));
      hits = keep(hits.add(out.argmax(1).eq(labels).sum()));
    }
    return [hits];
  },
  "an anchor of the first weights, and a teacher": (keep) => {
    const { net, x, learn } = learner();
    const anchor = keep(net.weight.detach().mul(1)), teacher = keep(net.weight.detach());
    const losses = steps(() => {
      const apart = net.forward(x).sub(x.matmul(teacher.transpose())).square().mean();
      return learn(keep(apart.add(net.weight.sub(anchor).square().sum()).add(net.bias!.sum())));
    });
    return [anchor, teacher, ...losses];
  },
  "an inner step that is differentiated": (keep) => {
    const { net, x, learn } = learner();
    const losses = steps(() => {
      keep(net.forward(x)).square().mean().backward(undefined, { createGraph: true });
      const fast = keep(net.weight.sub(net.weight.grad!.mul(0.1)));
      return learn(keep(x.matmul(fast.transpose()).square().mean()));
    });
    return [net.weight, ...losses];
  },
  "an average of the weights by lerp": (keep) => {
    const { net, x, learn } = learner();
    let average = net.weight.detach();
    const assigned = Tensor.zeros([4, 4]);
    for (let k = 0; k < STEPS; k++) {
      learn(net.forward(x).square().mean());
      average = keep(noGrad(() => average.mul(0.9).add(net.weight.mul(0.1))));
      assigned.assign(assigned.mul(0.9).add(net.weight.mul(0.1)));
      if (k % 3 === 2) assigned.realize();
    }
    return [average, assigned];
  },
  "schedules of the learning rate": (keep) => {
    const { net, x, optimizer, learn } = learner();
    const schedule = new optim.StepLR(optimizer, { stepSize: 2, gamma: 0.5 });
    return steps(() => {
      const out = keep(net.forward(x));
      learn(out.square().mean());
      schedule.step();
      return keep(out.sum());
    });
  },
  "two optimizers that share a parameter": (keep) => {
    const { net, x, learn } = learner();
    const other = new optim.Adam([net.weight], { lr: 0.01 });
    const losses = steps(() => {
      const loss = learn(keep(net.forward(x).square().mean()));
      other.step();
      return loss.detach();
    });
    return [net.weight, ...losses];
  },
  "two players, of which one sees the other's detached work": (keep) => {
    const maker = learner(), judge = learner();
    return steps(() => {
      const made = keep(maker.net.forward(maker.x).tanh());
      const [right, wrong] = [maker.x, made.detach()].map((x) => judge.net.forward(x).mean());
      const judged = judge.learn(keep(right!.sub(wrong!).square()));
      const fooled = maker.learn(keep(judge.net.forward(made).mean().neg()));
      return [judged, fooled, keep(made.abs().sum())];
    });
  },
  "a penalty on gradients": (keep) => {
    const { net, x, learn } = learner();
    return steps(() => {
      const point = leaf(x.detach().mul(1));
      keep(net.forward(point).tanh()).sum().backward(undefined, { createGraph: true });
      return learn(keep(point.grad!.square().sum().sub(1).square()));
    });
  },
  "activations read after the step": (keep) => {
    const { net, x, learn } = learner();
    const sums: number[] = [];
    for (let k = 0; k < STEPS; k++) {
      const hidden = keep(net.forward(x)), out = keep(hidden.tanh());
      learn(out.square().mean());
      sums.push(hidden.sum().itemSync(), out.sum().itemSync());
    }
    return [Tensor.fromHost(sums)];
  },
  "swapped values": () => {
    const a = Tensor.fromHost([1, 2]).realize(), b = Tensor.fromHost([3, 5]).realize();
    const sum = a.add(b.mul(10));
    for (let k = 0; k < 3; k++) {
      const former = a.detach();
      a.assign(b);
      b.assign(former);
    }
    return [a, b, sum];
  },
  "assignments in a loop, read now and then": () => {
    const a = Tensor.fromHost([1, 2]).realize(), seen: Tensor[] = [];
    for (let k = 0; k < 40; k++) {
      seen.push(a.mul(2));
      a.assign(a.add(1));
      if (k % 7 === 0) a.toHostSync();
    }
    return [a, ...seen];
  },
  "a state that many steps pass on": (keep) => {
    const { net, x, learn } = learner();
    let state = Tensor.zeros([2, 4]);
    for (let k = 0; k < 30; k++) {
      const out = net.forward(x);
      keep(out);
      learn(out.square().mean());
      state = keep(state.mul(0.9).add(out.detach()));
    }
    return [state];
  },
  "a graph that backward goes through later": (keep) => {
    const { net, x, learn } = learner(), other = Tensor.fromHost([2, 3], { requiresGrad: true });
    const weight = keep(net.weight.detach().sum());
    const loss = other.mul(weight).square().sum();
    for (let k = 0; k < 3; k++) learn(net.forward(x).square().mean());
    loss.backward();
    return [other.grad!, loss];
  },
  "a metric that is consumed and read much later": (keep) => {
    const { net, x, learn } = learner();
    return steps(() => {
      const weight = keep(noGrad(() => net.weight.mul(2)));
      noGrad(() => weight.sum()).itemSync();
      learn(net.forward(x).square().mean());
      return weight;
    });
  },
};

for (const [name, program] of Object.entries(programs)) {
  testOnBackends(`nobody disposes of anything: ${name}`, () => {
    const run = (keep: Keep): number[] => {
      manualSeed(3);
      const results = program(keep), numbers = numbersOf(...results);
      assertEquals(numbersOf(...results), numbers, "read again");
      return numbers;
    };
    const lazily = run((t) => t);
    assert(lazily.every(Number.isFinite), `${lazily}`);
    assertNumbers(lazily, run((t) => t.realize()), 2e-4);
  });
}
