"""Writes programs.bin.gz: small random programs on tensors, with the values that PyTorch gives them.

    python make_fixtures.py [COUNT] [SEED]

The file, gzipped: the length of the JSON text (uint32, little-endian), the text, padding to 8 bytes, then
all numbers as float64. The text is a list of programs: {"dtype", "leaves": [[shape, dtype, offset]],
"steps": [[op, inputs, parameters]], "values": [[step, shape, dtype, offset]], "gradients":
[[leaf, offset]], "special": with NaN and infinities}. Inputs count from 0: the leaves, then the steps. Gradients are those of the sum of the last
value times weights (k * 7 % 5 - 2) / 4 in row-major order.
"""
import gzip
import json
import random
import struct
import sys

import torch

TYPES = {
    "float32": torch.float32, "float64": torch.float64, "float16": torch.float16,
    "bfloat16": torch.bfloat16, "int32": torch.int32, "int64": torch.int64,
    "uint8": torch.uint8, "bool": torch.bool,
}
NAMES = {t: name for name, t in TYPES.items()}
MOST = 256  # elements of a value


def axis_of(rng, t):
    return rng.randrange(-t.ndim, t.ndim)


def axes_of(rng, t):
    return sorted(rng.sample(range(t.ndim), rng.randint(0, t.ndim)))


def nonempty(t):
    if t.numel() == 0:
        raise ValueError


UNARY = {
    "neg": torch.neg, "abs": torch.abs, "sign": torch.sign, "exp": lambda x: torch.exp(x),
    "expm1": torch.expm1, "log1p": lambda x: torch.log1p(x), "sqrt": torch.sqrt, "sin": torch.sin,
    "cos": torch.cos, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "relu": torch.relu,
    "erf": torch.erf, "atan": torch.atan, "floor": torch.floor, "ceil": torch.ceil,
    "round": torch.round, "trunc": torch.trunc, "square": torch.square,
    "reciprocal": torch.reciprocal, "rsqrt": torch.rsqrt, "log": torch.log,
    "isNaN": torch.isnan, "isInf": torch.isinf, "isFinite": torch.isfinite,
    "logicalNot": torch.logical_not, "frac": torch.frac,
    "silu": torch.nn.functional.silu, "gelu": torch.nn.functional.gelu,
    "softplus": torch.nn.functional.softplus, "elu": torch.nn.functional.elu,
    "leakyRelu": torch.nn.functional.leaky_relu,
}
BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div,
    "maximum": torch.maximum, "minimum": torch.minimum, "atan2": torch.atan2,
    "remainder": torch.remainder, "eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le,
    "gt": torch.gt, "ge": torch.ge, "logicalAnd": torch.logical_and, "logicalOr": torch.logical_or,
    "logicalXor": torch.logical_xor,
    "floorDivide": lambda a, b: torch.floor_divide(a.detach(), b.detach()),
}


def unary(rng, x):
    op = rng.choice(list(UNARY))
    if op == "gelu" and not bool(torch.isfinite(x).all()):
        raise ValueError  # PyTorch's depends on the vector length: infinity or NaN
    if op == "sign" and x.dtype == torch.bool:
        raise ValueError  # netcl refuses it
    return op, [], lambda a: UNARY[op](a)


def binary(rng, x, y):
    op = rng.choice(list(BINARY))
    return op, [], lambda a, b: BINARY[op](a, b)


def scalar(rng, x):
    op, n = rng.choice(["add", "sub", "mul", "div", "maximum", "remainder"]), rng.choice([2, 3, -2, 5])
    if op == "maximum":
        return "clamp", [n, n + 4], lambda a: torch.clamp(a, n, n + 4)
    return op + "Number", [n], lambda a: BINARY[op](a, n)


def power(rng, x):
    n = rng.choice([2, 3, 0])
    return "powNumber", [n], lambda a: torch.pow(a, n)


def where(rng, x, y):
    return "where", [], lambda a, b: torch.where(a > 0, a, b)


def cast(rng, x):
    to = rng.choice(["float32", "float64", "int32", "int64", "bool"])
    if not x.dtype.is_floating_point:
        to = rng.choice(list(TYPES))
    if x.dtype.is_floating_point and to.startswith("int") and not bool(torch.isfinite(x).all()):
        raise ValueError
    if to == "uint8" and bool(((x < 0) | (x > 255)).any()):
        raise ValueError
    return "cast", [to], lambda a: a.to(TYPES[to])


REDUCE = {
    "sum": lambda a, d, k: a.sum(d, keepdim=k), "mean": lambda a, d, k: a.mean(d, keepdim=k),
    "max": lambda a, d, k: a.amax(d, keepdim=k), "min": lambda a, d, k: a.amin(d, keepdim=k),
    "any": lambda a, d, k: a.ne(0).any(d, keepdim=k) if d else a.ne(0),
    "all": lambda a, d, k: a.ne(0).all(d, keepdim=k) if d else a.ne(0),
    "logSumExp": lambda a, d, k: a.logsumexp(d, keepdim=k),
    "norm": lambda a, d, k: torch.linalg.vector_norm(a, 2, d, keepdim=k),
    "variance": lambda a, d, k: a.var(d, correction=0, keepdim=k),
}


def reduce(rng, x):
    op, axes, keep = rng.choice(list(REDUCE)), axes_of(rng, x), rng.random() < 0.5
    if not axes:
        axes = list(range(x.ndim))
    if op != "sum":
        nonempty(x)
    if op == "logSumExp" and not x.dtype.is_floating_point:
        raise ValueError  # netcl refuses it
    if op in ("any", "all", "max", "min") and x.ndim == 0:
        raise ValueError
    return op, [axes, keep], lambda a: REDUCE[op](a, axes, keep)


def prod(rng, x):
    d = axis_of(rng, x)
    return "prod", [d], lambda a: a.prod(d)


def arg(rng, x):
    op, d = rng.choice(["argmax", "argmin"]), axis_of(rng, x)
    nonempty(x)
    return op, [d], lambda a: getattr(a, op)(d).to(torch.int32)


def along(rng, x):
    op, d = rng.choice(["softmax", "logSoftmax", "cumsum"]), axis_of(rng, x)
    nonempty(x)
    fn = {"softmax": torch.softmax, "logSoftmax": torch.log_softmax, "cumsum": torch.cumsum}[op]
    return op, [d], lambda a: fn(a, d)


def reshape(rng, x):
    nonempty(x)
    divisors = [d for d in (1, 2, 3, 4, 5, 6, 7, 8) if x.numel() % d == 0]
    a = rng.choice(divisors)
    shape = [a, x.numel() // a] if rng.random() < 0.7 else [x.numel()]
    return "reshape", [shape], lambda t: t.reshape(shape)


def permute(rng, x):
    order = rng.sample(range(x.ndim), x.ndim)
    return "permute", [order], lambda a: a.permute(order)


def expand(rng, x):
    shape = [rng.choice([1, 2, 3])] + [rng.choice([2, 3]) if n == 1 else n for n in x.shape]
    return "expand", [shape], lambda a: a.expand(shape)


def axis_changes(rng, x):
    if rng.random() < 0.5:
        d = rng.randint(0, x.ndim)
        return "unsqueeze", [d], lambda a: a.unsqueeze(d)
    d = rng.randrange(x.ndim)
    return "squeeze", [d], lambda a: a.squeeze(d)


def steps_of(rng, n):
    """Start, stop (exclusive) and step of a slice, none beyond the end; also backwards."""
    if n == 0:
        return [0, 0, 1]
    a, b = sorted([rng.randint(0, n), rng.randint(0, n)])
    return [a, b, rng.choice([1, 1, 2, 3])]


def slicing(rng, x):
    ranges = [steps_of(rng, n) for n in x.shape]
    back = [rng.random() < 0.2 for _ in ranges]

    def fn(a):
        a = a[tuple(slice(*r) for r in ranges)]
        return a.flip([k for k, b in enumerate(back) if b])
    return "slice", [ranges, back], fn


def assign(rng, x):
    ranges = [steps_of(rng, n) for n in x.shape]
    n = rng.choice([2, -3])

    def fn(a):
        a = a.clone()
        a[tuple(slice(*r) for r in ranges)] = n
        return a
    if x.dtype in (torch.bool, torch.uint8):
        raise ValueError
    return "sliceAssign", [ranges, n], fn


def flip(rng, x):
    axes = axes_of(rng, x)
    return "flip", [axes], lambda a: a.flip(axes)


def roll(rng, x):
    d, n = rng.randrange(x.ndim), rng.randint(-3, 3)
    return "roll", [n, d], lambda a: a.roll(n, d)


def pad(rng, x):
    widths, n = [[rng.randint(0, 2), rng.randint(0, 2)] for _ in x.shape], rng.choice([0, 0, 1, 3])
    flat = [w for pair in reversed(widths) for w in pair]
    if x.dtype == torch.bool:
        n = rng.choice([0, 1])
    return "pad", [widths, n], lambda a: torch.nn.functional.pad(a, flat, value=n)


def repeat(rng, x):
    times = [rng.choice([1, 1, 2, 3]) for _ in x.shape]
    return "repeat", [times], lambda a: a.repeat(times)


def concat(rng, x, y):
    d = rng.randrange(x.ndim)
    return "concat", [d], lambda a, b: torch.cat([a, b.to(a.dtype) if b.shape == a.shape else a], d)


def stack(rng, x):
    d = rng.randint(0, x.ndim)
    return "stack", [d], lambda a: torch.stack([a, a], d)


def triangle(rng, x):
    op, k = rng.choice(["tril", "triu"]), rng.randint(-2, 2)
    if x.ndim < 2:
        raise ValueError
    return op, [k], lambda a: getattr(a, op)(k)


def gather(rng, x):
    d = axis_of(rng, x)
    n, m = x.shape[d], rng.randint(1, 4)
    at = [rng.randrange(n) for _ in range(m)]
    return "indexSelect", [d, at], lambda a: a.index_select(d, torch.tensor(at))


def gather_all(rng, x):
    d = axis_of(rng, x)
    n, k = x.shape[d], rng.randint(1, 5)
    nonempty(x)
    at = (torch.arange(x.numel()) * k % n).reshape(x.shape)
    return "gather", [d, k], lambda a: a.gather(d, at)


def scatter(rng, x):
    d = axis_of(rng, x)
    n, k = x.shape[d], rng.randint(1, 5)
    nonempty(x)
    if x.dtype in (torch.bool, torch.float16, torch.bfloat16):
        raise ValueError
    at = (torch.arange(x.numel()) * k % n).reshape(x.shape)
    return "scatterAdd", [d, k], lambda a: a.scatter_add(d, at, a)


def sort(rng, x):
    d, down = axis_of(rng, x), rng.random() < 0.5
    nonempty(x)
    return "sort", [d, down], lambda a: a.sort(d, descending=down, stable=True).values


def matmul(rng, x, y):
    if x.dtype != y.dtype or x.dtype == torch.bool:
        raise ValueError
    return "matmul", [], lambda a, b: torch.matmul(a, b)


def product(rng, x):
    if x.ndim < 2 or x.dtype == torch.bool:
        raise ValueError
    return "gram", [], lambda a: torch.matmul(a, a.transpose(-1, -2))


def image(x):
    if x.ndim != 2 or not x.dtype.is_floating_point or min(x.shape) < 3:
        raise ValueError


def conv2d(rng, x):
    image(x)
    p, s = rng.randint(0, 2), rng.randint(1, 2)
    f = torch.nn.functional.conv2d
    return "conv2d", [p, s], lambda a: f(a[None, None], a[:2, :3][None, None], padding=p, stride=s)


def pool(rng, x):
    image(x)
    op, p, s = rng.choice(["maxPool2d", "avgPool2d"]), rng.randint(0, 1), rng.randint(1, 2)
    f = {"maxPool2d": torch.nn.functional.max_pool2d, "avgPool2d": torch.nn.functional.avg_pool2d}[op]
    return op, [p, s], lambda a: f(a[None, None], 2, s, p)


ONE = [unary, unary, unary, scalar, power, cast, reduce, reduce, prod, arg, along, along, reshape, permute,
       expand, axis_changes, slicing, slicing, assign, flip, roll, pad, repeat, stack, triangle, gather,
       gather_all, scatter, sort, product, conv2d, pool]
TWO = [binary, binary, binary, where, concat, matmul, matmul]

SHAPES = [[], [1], [4], [7], [0], [3, 4], [4, 4], [1, 5], [5, 1], [2, 3, 4], [3, 1, 2], [2, 0, 3], [6, 7],
          [2, 2, 3, 2], [33], [4, 17]]


def leaf(rng, dtype, special):
    shape, t = rng.choice(SHAPES), TYPES[dtype]
    count = 1
    for n in shape:
        count *= n
    if dtype == "bool":
        values = [rng.random() < 0.5 for _ in range(count)]
    elif t.is_floating_point:
        step = 8 if dtype in ("float16", "bfloat16") else 64
        values = [rng.randint(-3 * step, 3 * step) / step for _ in range(count)]
        if special:
            odd = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0]
            values = [rng.choice(odd) if rng.random() < 0.25 else v for v in values]
    else:
        values = [rng.randint(0 if dtype == "uint8" else -9, 9) for _ in range(count)]
    return torch.tensor(values, dtype=torch.float64).reshape(shape).to(t)


def program(rng, numbers):
    dtype = rng.choice(["float32"] * 5 + ["float64"] * 3 + ["float16", "bfloat16", "int32", "int32",
                                                              "int64", "uint8", "bool"])
    special = TYPES[dtype].is_floating_point and rng.random() < 0.15
    half = dtype in ("float16", "bfloat16")
    leaves = [leaf(rng, dtype, special) for _ in range(rng.randint(1, 2))]
    floats = [x for x in leaves if x.dtype in (torch.float32, torch.float64)]
    learns = bool(floats) and not special and rng.random() < 0.6
    if learns:
        for x in floats:
            x.requires_grad_(True)
    values, steps = list(leaves), []
    wanted, tries = (1 if half else rng.randint(1, 4)), 0
    while len(steps) < wanted and tries < 60:
        tries += 1
        make = rng.choice(ONE + TWO)
        inputs = [len(values) - 1 - min(rng.choice([0, 0, 0, 1]), len(values) - 1)]
        if make in TWO:
            inputs.append(rng.randrange(len(values)))
        try:
            op, parameters, fn = make(rng, *[values[k] for k in inputs])
            out = fn(*[values[k] for k in inputs])
        except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError, ZeroDivisionError):
            continue
        if out.numel() > MOST or out.ndim > 5 or out.dtype not in NAMES:
            continue
        if not special and out.dtype.is_floating_point and bool((out.abs() > 1e4).any() | out.isnan().any()):
            continue
        # Integers beyond what float64 counts, and those that overflow, are no use as a reference.
        if not out.dtype.is_floating_point and out.numel() and int(out.to(torch.int64).abs().max()) > 2**24:
            continue
        values.append(out)
        steps.append([op, inputs, parameters])
    if not steps:
        return None

    start = len(numbers)

    def note(t):
        at = len(numbers)
        numbers.extend(t.detach().to(torch.float64).reshape(-1).tolist())
        return at

    spec = {"dtype": dtype, "leaves": [[list(x.shape), NAMES[x.dtype], note(x)] for x in leaves],
            "steps": steps, "values": [], "gradients": [], "special": special}
    for k, out in enumerate(values[len(leaves):]):
        spec["values"].append([k, list(out.shape), NAMES[out.dtype], note(out)])
    last = values[-1]
    if learns and last.requires_grad and last.numel() > 0:
        weights = ((torch.arange(last.numel()) * 7 % 5 - 2) / 4).reshape(last.shape).to(last.dtype)
        try:
            (last * weights).sum().backward()
        except (RuntimeError, NotImplementedError):
            del numbers[start:]
            return None
        for k, x in enumerate(leaves):
            if x.requires_grad and x.grad is not None:
                spec["gradients"].append([k, note(x.grad)])
    return spec


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 6000
    rng = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    numbers, programs = [], []
    while len(programs) < count:
        made = program(rng, numbers)
        if made:
            programs.append(made)
    text = json.dumps(programs, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 4) % 8)
    data = struct.pack("<I", len(text)) + text + struct.pack(f"<{len(numbers)}d", *numbers)
    with open("programs.bin.gz", "wb") as file:
        file.write(gzip.compress(data, 9, mtime=0))
    print(f"{len(programs)} programs, {len(numbers)} numbers, {len(data)} bytes")


main()
