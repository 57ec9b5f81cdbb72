"""NumPy, with whichever BLAS it was built on."""

import numpy as np
from serve import serve

random = np.random.default_rng(0)
f32 = np.float32


def uniform(*shape):
    return random.random(shape, dtype=f32) - f32(0.5)


def matmul(n):
    a, b, out = uniform(n, n), uniform(n, n), np.empty((n, n), f32)
    return lambda: np.matmul(a, b, out=out)


def chain(n):
    a, b, c, d, e = (uniform(n) for _ in range(5))

    def run():
        y = a * b
        y += c
        np.maximum(y, 0, out=y)
        y *= d
        y -= e
        return y

    return run


def gelu(n):
    x = uniform(n)
    return lambda: f32(0.5) * x * (1 + np.tanh(f32(0.7978845608) * (x + f32(0.044715) * x * x * x)))


def total(n):
    x = uniform(n)
    return lambda: x.sum()


def softmax(n):
    x = uniform(n, n)

    def run():
        e = np.exp(x - x.max(1, keepdims=True))
        e /= e.sum(1, keepdims=True)
        return e

    return run


def layernorm(n):
    x, gain, bias = uniform(n, n), uniform(n), uniform(n)

    def run():
        y = x - x.mean(1, keepdims=True)
        return y / np.sqrt((y * y).mean(1, keepdims=True) + f32(1e-5)) * gain + bias

    return run


def update(parameters, means, squares, gradients, step):
    """Adam."""
    rate, correction = f32(1e-3 / (1 - 0.9**step)), f32(1 - 0.999**step)
    for p, m, v, g in zip(parameters, means, squares, gradients):
        m *= f32(0.9)
        m += f32(0.1) * g
        v *= f32(0.999)
        v += f32(0.001) * g * g
        p -= rate * m / (np.sqrt(v / correction) + f32(1e-8))


def mlp(batch):
    inputs = uniform(16, batch, 784)
    labels = np.eye(10, dtype=f32)[random.integers(0, 10, (16, batch))]
    parameters = []
    for i, o in ((784, 256), (256, 128), (128, 10)):
        parameters += [uniform(i, o) * f32(2 / np.sqrt(i)), np.zeros(o, f32)]
    means = [np.zeros_like(p) for p in parameters]
    squares = [np.zeros_like(p) for p in parameters]
    state = {"step": 0}

    def run():
        x, y = inputs[state["step"] % 16], labels[state["step"] % 16]
        state["step"] += 1
        w1, b1, w2, b2, w3, b3 = parameters
        h1 = x @ w1 + b1
        a1 = np.maximum(h1, 0)
        h2 = a1 @ w2 + b2
        a2 = np.maximum(h2, 0)
        z = a2 @ w3 + b3
        e = np.exp(z - z.max(1, keepdims=True))
        p = e / e.sum(1, keepdims=True)
        state["loss"] = -(y * np.log(p + f32(1e-12))).sum() / batch
        dz = (p - y) / f32(batch)
        d2 = (dz @ w3.T) * (h2 > 0)
        d1 = (d2 @ w2.T) * (h1 > 0)
        gradients = (x.T @ d1, d1.sum(0), a1.T @ d2, d2.sum(0), a2.T @ dz, dz.sum(0))
        update(parameters, means, squares, gradients, state["step"])

    return run


def adds(times):
    y = uniform(64)

    def run():
        x = y
        for _ in range(times):
            x = x + y
        return x

    return run


def definite(n):
    a = uniform(n, n)
    return a @ a.T / n + np.eye(n, dtype=f32)


def of(fn, *makers):
    """A work of a function of inputs that are made of a size."""

    def make(n):
        inputs = [maker(n) for maker in makers]
        return lambda: fn(*inputs)

    return make


def square(n):
    return uniform(n, n)


def systems(n):
    return uniform(n, 16, 16) + 8 * np.eye(16, dtype=f32)


numbers = {
    "fft": of(np.fft.fft, uniform),
    "fft2": of(np.fft.fft2, square),
    "cholesky": of(np.linalg.cholesky, definite),
    "solve": of(np.linalg.solve, definite, lambda n: uniform(n, 1)),
    "qr": of(np.linalg.qr, square),
    "svd": of(np.linalg.svd, square),
    "eigh": of(np.linalg.eigh, definite),
    "solve-16": of(np.linalg.solve, systems, lambda n: uniform(n, 16, 1)),
}

serve(
    f"NumPy {np.__version__}",
    {
        "matmul": matmul,
        "chain": chain,
        "gelu": gelu,
        "sum": total,
        "softmax": softmax,
        "layernorm": layernorm,
        "mlp": mlp,
        "adds": adds,
        **numbers,
    },
)
