// Models of PyTorch: its state files load, and the same model gives the same outputs, gradients and
// running statistics, and learns along the same curve.
import { nn, noGrad, optim, Tensor } from "../../../mod.ts";
import { assertClose, fixture, part } from "../../fixtures/pytorch.ts";
import { testOnBackends } from "../../opencl.ts";
import { learn } from "../training.ts";

class Residual extends nn.Module {
  conv: nn.Conv2d;
  norm: nn.BatchNorm2d;

  constructor(channels: number) {
    super();
    this.conv = new nn.Conv2d(channels, channels, 3, { padding: 1, groups: 2, bias: false });
    this.norm = new nn.BatchNorm2d(channels);
  }

  forward(x: Tensor): Tensor {
    return x.add(this.norm.forward(this.conv.forward(x))).relu();
  }
}

function convnet(): nn.Module {
  return new nn.Sequential(
    new nn.Conv2d(2, 6, 3, { stride: 2, padding: 1 }),
    new nn.BatchNorm2d(6, { momentum: null }),
    new nn.ReLU(),
    new Residual(6),
    new nn.MaxPool2d(2),
    new nn.Conv2d(6, 4, 2, { dilation: 2 }),
    new nn.GELU(),
    new nn.AvgPool2d(2, { stride: 1 }),
    new nn.Flatten(),
    new nn.Dropout(0),
    new nn.Linear(4, 3),
  );
}

class Block extends nn.Module {
  norm1: nn.LayerNorm;
  attention: nn.MultiheadAttention;
  norm2: nn.LayerNorm;
  feed_forward: nn.Sequential;

  constructor(features: number, heads: number) {
    super();
    this.norm1 = new nn.LayerNorm(features);
    this.attention = new nn.MultiheadAttention(features, heads, { batchFirst: true });
    this.norm2 = new nn.LayerNorm([features], { eps: 1e-3 });
    this.feed_forward = new nn.Sequential(
      new nn.Linear(features, 2 * features),
      new nn.SiLU(),
      new nn.Linear(2 * features, features),
    );
  }

  forward(x: Tensor): Tensor {
    const normal = this.norm1.forward(x);
    const y = x.add(this.attention.forward(normal, normal, normal, { isCausal: true }));
    return y.add(this.feed_forward.forward(this.norm2.forward(y)));
  }
}

class Transformer extends nn.Module {
  words = new nn.Embedding(11, 8, { paddingIndex: 0 });
  blocks = [new Block(8, 2), new Block(8, 2)];
  norm = new nn.LayerNorm(8);
  head = new nn.Linear(8, 11, { bias: false });

  forward(ids: Tensor): Tensor {
    const x = this.blocks.reduce((x, block) => block.forward(x), this.words.forward(ids));
    return this.head.forward(this.norm.forward(x));
  }
}

type Loss = (output: Tensor, input: Tensor) => Tensor;

const models: Record<string, { make: () => nn.Module; loss: Loss }> = {
  convnet: {
    make: convnet,
    loss: (y) => y.crossEntropy(Tensor.fromHost(Int32Array.of(0, 1, 2, 1))),
  },
  transformer: {
    make: () => new Transformer(),
    loss: (logits, ids) =>
      logits.slice(null, [null, -1]).reshape([-1, 11]).crossEntropy(
        ids.slice(null, [1, null]).reshape([-1]),
        { ignoreIndex: 0, labelSmoothing: 0.1 },
      ),
  },
};

for (const [name, { make, loss: lossOf }] of Object.entries(models)) {
  testOnBackends(`${name}: outputs, gradients and statistics are PyTorch's`, async (backend) => {
    const model = make();
    model.loadStateDict(await fixture(name, backend));
    const run = await fixture(`${name}_run`, backend);
    const input = run.input!;
    const output = noGrad(() => model.eval().forward(input));
    await assertClose(output, run.eval_output!, 1e-5, "output in use");

    const trained = model.train().forward(input);
    const loss = lossOf(trained, input);
    loss.backward();
    await assertClose(trained, run.train_output!, 1e-5, "output in training");
    await assertClose(loss, run.loss!, 1e-5, "loss");
    const parameters = new Map(model.namedParameters());
    for (const [path, gradient] of part(run, "gradient")) {
      await assertClose(parameters.get(path)!.grad!, gradient, 1e-5, `gradient of ${path}`);
    }
    const buffers = new Map(model.namedBuffers());
    if (buffers.size > 0) {
      for (const [path, value] of part(run, "buffer")) {
        await assertClose(buffers.get(path)!, value, 1e-5, path);
      }
    }
    model.dispose();
  });

  testOnBackends(`${name}: the loss follows PyTorch's`, async (backend) => {
    const model = make();
    model.loadStateDict(await fixture(name, backend));
    const { input, losses } = await fixture(`${name}_run`, backend);
    // The fixture's model has seen its input once before.
    if (name === "convnet") noGrad(() => model.forward(input!)).realize();
    const optimizer = new optim.Adam(model.parameters(), { lr: 2e-3 });
    for (let step = 0; step < losses!.size; step++) {
      using loss = learn(optimizer, lossOf(model.forward(input!), input!));
      await assertClose(loss, losses!.slice(step), 1e-4, `loss of step ${step}`);
    }
    optimizer.dispose();
    model.dispose();
  });
}
