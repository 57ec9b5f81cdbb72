"""PyTorch: `torch_peer.py gpu` takes the CUDA device, anything else the processor.

`torch_peer.py DEVICE compile` offers the models alone, compiled; `torch_peer.py gpu graphs` compiled in the mode
"reduce-overhead", which replays CUDA graphs. With `first KIND SIZE` behind it, prints the
seconds of a model's first step, and ends; with `peak KIND SIZE STEPS`, the bytes that were allocated on the GPU at
most in so many steps.
"""

import os
import subprocess
import sys
import tempfile
import time

import torch
import torch.nn.functional as F
import torch_models
from serve import serve
from torch import nn

gpu, graphs = sys.argv[1:2] == ["gpu"], "graphs" in sys.argv
compiled = graphs or "compile" in sys.argv
device = "cuda" if gpu else "cpu"
torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
# float32 is what netcl computes.
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False


def uniform(*shape):
    return torch.rand(*shape, device=device) - 0.5


def without_grad(run):
    def wrapped():
        with torch.no_grad():
            return run()

    return wrapped


def matmul(n):
    a, b, out = uniform(n, n), uniform(n, n), uniform(n, n)
    return lambda: torch.mm(a, b, out=out)


def chain(n):
    a, b, c, d, e = (uniform(n) for _ in range(5))
    return without_grad(lambda: torch.relu(a * b + c) * d - e)


def gelu(n):
    x = uniform(n)
    return lambda: F.gelu(x, approximate="tanh")


def total(n):
    x = uniform(n)
    return lambda: x.sum()


def softmax(n):
    x = uniform(n, n)
    return lambda: F.softmax(x, 1)


def layernorm(n):
    x, gain, bias = uniform(n, n), uniform(n), uniform(n)
    return lambda: F.layer_norm(x, (n,), gain, bias)


def conv2d(batch):
    x, w = uniform(batch, 16, 28, 28), uniform(32, 16, 3, 3)
    return without_grad(lambda: F.conv2d(x, w, padding=1))


def conv2d_backward(batch):
    x = uniform(batch, 16, 28, 28).requires_grad_()
    w = uniform(32, 16, 3, 3).requires_grad_()
    y = F.conv2d(x, w, padding=1)
    ones = torch.ones_like(y)
    return lambda: torch.autograd.grad(y, (x, w), ones, retain_graph=True)


def training(model, *shape):
    model = prepare(model.to(device))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=True)
    inputs = uniform(16, *shape)
    labels = torch.randint(0, 10, (16, shape[0]), device=device)
    made = [0]

    def run():
        batch = made[0] % 16
        made[0] += 1
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(inputs[batch]), labels[batch]).backward()
        optimizer.step()

    return run


def mlp(batch):
    layers = nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10)
    return training(nn.Sequential(*layers), batch, 784)


def cnn(batch):
    features = nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU()
    head = nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 14 * 14, 10)
    return training(nn.Sequential(*features, *head), batch, 1, 28, 28)


def adds(times):
    y = uniform(64)

    def run():
        x = y
        for _ in range(times):
            x = x + y
        return x

    return without_grad(run)


def upload(mebibytes):
    source = torch.empty(mebibytes << 18).fill_(1)
    source = source.pin_memory() if gpu else source
    target = torch.empty_like(source, device=device)
    return lambda: target.copy_(source, non_blocking=True)


def first_step(kind):
    """A model's first step in a process of its own, with nothing compiled on disk."""

    def make(size):
        def run():
            with tempfile.TemporaryDirectory() as caches:
                command = [sys.executable, *sys.argv, "first", kind, str(size)]
                env = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": caches}
                done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
            return float(done.stdout.split()[-1])

        run.gives_seconds = True
        return run

    return make


def wait():
    if gpu:
        torch.cuda.synchronize()




def prepare(model):
    """What is called in place of a module: itself, or its compiled form."""
    if not compiled:
        return model
    return torch.compile(model, mode="reduce-overhead") if graphs else torch.compile(model)


models = torch_models.makers(device, gpu, prepare)
if "first" in sys.argv:
    kind, size = sys.argv[-2:]
    start = time.perf_counter()
    models[kind](int(size))()
    wait()
    print(time.perf_counter() - start)
    sys.exit()
if "peak" in sys.argv:
    kind, size, steps = sys.argv[-3:]
    run = models[kind](int(size))
    for _ in range(20):
        run()
    wait()
    torch.cuda.reset_peak_memory_stats()
    for _ in range(int(steps)):
        run()
    wait()
    print(torch.cuda.max_memory_allocated())
    sys.exit()

def definite(n):
    a = uniform(n, n)
    return a @ a.T / n + torch.eye(n, device=device)


def of(fn, *makers):
    """A work of a function of inputs that are made of a size."""

    def make(n):
        inputs = [maker(n) for maker in makers]
        return without_grad(lambda: fn(*inputs))

    return make


def square(n):
    return uniform(n, n)


def systems(n):
    return uniform(n, 16, 16) + 8 * torch.eye(16, device=device)


L = torch.linalg
numbers = {
    "fft": of(torch.fft.fft, uniform),
    "fft2": of(torch.fft.fft2, square),
    "cholesky": of(L.cholesky, definite),
    "solve": of(L.solve, definite, lambda n: uniform(n, 1)),
    "qr": of(L.qr, square),
    "svd": of(L.svd, square),
    "eigh": of(L.eigh, definite),
    "solve-16": of(L.solve, systems, lambda n: uniform(n, 16, 1)),
}

works = {
    **numbers,
    "matmul": matmul,
    "chain": chain,
    "gelu": gelu,
    "sum": total,
    "softmax": softmax,
    "layernorm": layernorm,
    "conv2d": conv2d,
    "conv2d-backward": conv2d_backward,
    "mlp": mlp,
    "cnn": cnn,
    "adds": adds,
    "upload": upload,
}
serve(
    f"PyTorch {torch.__version__}{' with CUDA graphs' if graphs else ' compiled' if compiled else ''} on "
    + (torch.cuda.get_device_name() if gpu else "the processor"),
    {
        **({"mlp": mlp, "cnn": cnn} if compiled else works),
        **models,
        **{f"first-{kind}": first_step(kind) for kind in models},
    },
    wait,
)
