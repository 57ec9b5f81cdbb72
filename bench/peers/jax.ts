/** jax-js on its WebAssembly backend, compiled by its jit where that helps. */
import { randomNumbers, type Runnable, serve } from "./serve.ts";

// Imported by a name that is no literal, so that a check of this package does not load it.
const name = "@jax-js/jax@0.1.25";
// deno-lint-ignore no-explicit-any -- its types are not loaded, see above
const jax: any = await import(`npm:${name}`);
// deno-lint-ignore no-explicit-any
type Value = any;
const { blockUntilReady, jit, nn, numpy: np, tree } = jax;

await jax.init("wasm");
jax.defaultDevice("wasm");

function random(...shape: number[]): Value {
  return np.array(randomNumbers(shape.reduce((a, b) => a * b))).reshape(shape);
}

/** Every call waits for its result: the library computes lazily. */
async function expression(
  shapes: number[][],
  fn: (...inputs: Value[]) => Value,
): Promise<Runnable> {
  const inputs = shapes.map((shape) => random(...shape));
  await blockUntilReady(inputs);
  const run = async () => {
    const result = fn(...inputs.map((input) => input.ref));
    await blockUntilReady(result);
    tree.dispose(result);
  };
  return { run, close: () => inputs.forEach((input) => input.dispose()) };
}

function loss(parameters: Value[], x: Value, y: Value): Value {
  const [w1, b1, w2, b2, w3, b3] = parameters;
  const h1 = nn.relu(np.dot(x, w1).add(b1));
  const h2 = nn.relu(np.dot(h1, w2).add(b2));
  const scores = np.dot(h2, w3).add(b3);
  return nn.logSoftmax(scores).mul(y).sum().mul(-1 / scores.shape[0]);
}

/** Adam, with the bias corrections as arguments. */
const step = jit(
  (
    parameters: Value[],
    means: Value[],
    squares: Value[],
    x: Value,
    y: Value,
    c1: Value,
    c2: Value,
  ) => {
    const [value, gradients] = jax.valueAndGrad(loss)(tree.ref(parameters), x, y);
    const m = means.map((m, i) => m.mul(0.9).add(gradients[i].ref.mul(0.1)));
    const v = squares.map((v, i) => v.mul(0.999).add(np.square(gradients[i]).mul(0.001)));
    const next = parameters.map((p, i) =>
      p.sub(m[i].ref.mul(c1.ref).div(np.sqrt(v[i].ref.mul(c2.ref)).add(1e-8)))
    );
    c1.dispose();
    c2.dispose();
    return [value, next, m, v];
  },
);

function mlp(batch: number): Runnable {
  const shapes = [[784, 256], [256], [256, 128], [128], [128, 10], [10]];
  let parameters: Value[] = shapes.map((shape) => random(...shape).mul(0.1));
  let means: Value[] = shapes.map((shape) => np.zeros(shape));
  let squares: Value[] = shapes.map((shape) => np.zeros(shape));
  const inputs = Array.from({ length: 16 }, () => random(batch, 784));
  const classes = Int32Array.from({ length: batch }, (_, i) => (7 * i) % 10);
  const labels = nn.oneHot(np.array(classes), 10);
  let made = 0;
  const run = async () => {
    const x = inputs[made++ % 16].ref;
    const c1 = np.array(1e-3 / (1 - 0.9 ** made)), c2 = np.array(1 / (1 - 0.999 ** made));
    let value: Value;
    [value, parameters, means, squares] = step(
      parameters,
      means,
      squares,
      x,
      labels.ref,
      c1,
      c2,
    );
    await blockUntilReady(parameters);
    value.dispose();
  };
  return { run };
}

function adds(times: number): Runnable {
  const y = random(64);
  const run = async () => {
    let x = y.ref;
    for (let i = 0; i < times; i++) {
      x = x.add(y.ref);
      await blockUntilReady(x);
    }
    x.dispose();
  };
  return { run };
}

const chain = jit((a: Value, b: Value, c: Value, d: Value, e: Value) =>
  nn.relu(a.mul(b).add(c)).mul(d).sub(e)
);
const gelu = jit((x: Value) => nn.gelu(x, { approximate: true }));
const softmax = jit((x: Value) => nn.softmax(x, -1));
const layerNorm = jit((x: Value, gain: Value, bias: Value) =>
  nn.standardize(x, -1).mul(gain).add(bias)
);

await serve("jax-js 0.1.25, wasm", {
  matmul: (n) => expression([[n, n], [n, n]], (a, b) => np.matmul(a, b)),
  chain: (n) => expression(Array(5).fill([n]), chain),
  gelu: (n) => expression([[n]], gelu),
  sum: (n) => expression([[n]], (x) => np.sum(x)),
  softmax: (n) => expression([[n, n]], softmax),
  layernorm: (n) => expression([[n, n], [n], [n]], layerNorm),
  mlp,
  adds,
});
