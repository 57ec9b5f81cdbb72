/** TensorFlow.js on its WebAssembly backend. */
import { randomNumbers, type Runnable, serve } from "./serve.ts";

// Imported by a name that is no literal, so that a check of this package does not load them.
const version = "4.22.0";
const [core, wasm] = ["tfjs", "tfjs-backend-wasm"];
await import(`npm:@tensorflow/${wasm}@${version}`);
// deno-lint-ignore no-explicit-any -- their types are not loaded, see above
const tf: any = await import(`npm:@tensorflow/${core}@${version}`);
// deno-lint-ignore no-explicit-any
type Tensor = any;

await tf.setBackend("wasm");

function random(...shape: number[]): Tensor {
  return tf.tensor(randomNumbers(shape.reduce((a, b) => a * b)), shape);
}

function expression(shapes: number[][], fn: (...inputs: Tensor[]) => Tensor): Runnable {
  const inputs = shapes.map((shape) => random(...shape));
  return {
    run: () => void tf.tidy(() => fn(...inputs)).dispose(),
    close: () => tf.dispose(inputs),
  };
}

function gelu(x: Tensor): Tensor {
  const u = tf.mul(tf.add(x, tf.mul(tf.mul(tf.mul(x, x), x), 0.044715)), 0.7978845608);
  return tf.mul(tf.mul(x, 0.5), tf.add(tf.tanh(u), 1));
}

function layerNorm(x: Tensor, gain: Tensor, bias: Tensor): Tensor {
  const { mean, variance } = tf.moments(x, 1, true);
  return tf.add(tf.mul(tf.div(tf.sub(x, mean), tf.sqrt(tf.add(variance, 1e-5))), gain), bias);
}

function weights(...shape: number[]): Tensor {
  const inputs = shape.slice(0, -1).reduce((a, b) => a * b, 1);
  return tf.variable(tf.mul(random(...shape), 2 / Math.sqrt(inputs)));
}

function training(forward: (x: Tensor) => Tensor, shape: number[]): Runnable {
  const inputs = Array.from({ length: 16 }, () => random(...shape));
  const classes = Int32Array.from({ length: shape[0]! }, (_, i) => (7 * i) % 10);
  const labels = tf.oneHot(tf.tensor1d(classes, "int32"), 10);
  const optimizer = tf.train.adam(1e-3);
  let made = 0;
  const loss = () => tf.losses.softmaxCrossEntropy(labels, forward(inputs[made++ % 16]));
  const close = () => tf.disposeVariables();
  return { run: () => void optimizer.minimize(loss), close };
}

function mlp(batch: number): Runnable {
  const sizes = [784, 256, 128, 10];
  const layers = sizes.slice(1).map((size, i) => [weights(sizes[i]!, size), weights(size)]);
  const forward = (x: Tensor) =>
    layers.reduce((h, [w, b], i) => {
      const y = tf.add(tf.matMul(h, w), b);
      return i < 2 ? tf.relu(y) : y;
    }, x);
  return training(forward, [batch, 784]);
}

function adds(times: number): Runnable {
  const y = random(64);
  const sum = () => {
    let x = y;
    for (let i = 0; i < times; i++) x = tf.add(x, y);
    return x;
  };
  return { run: () => void tf.tidy(sum).dispose() };
}

// Its WebAssembly backend has no gradient of a convolution by the filter: no cnn.
await serve(`TensorFlow.js ${tf.version.tfjs}, ${tf.getBackend()}`, {
  matmul: (n) => expression([[n, n], [n, n]], tf.matMul),
  chain: (n) =>
    expression(
      Array(5).fill([n]),
      (a, b, c, d, e) => tf.sub(tf.mul(tf.relu(tf.add(tf.mul(a, b), c)), d), e),
    ),
  gelu: (n) => expression([[n]], gelu),
  sum: (n) => expression([[n]], (x) => tf.sum(x)),
  softmax: (n) => expression([[n, n]], (x) => tf.softmax(x)),
  layernorm: (n) => expression([[n, n], [n], [n]], layerNorm),
  conv2d: (batch) =>
    expression([[batch, 28, 28, 16], [3, 3, 16, 32]], (x, w) => tf.conv2d(x, w, 1, "same")),
  mlp,
  adds,
});
