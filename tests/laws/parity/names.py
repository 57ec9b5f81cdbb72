#!/usr/bin/env python3
"""Writes names.json: the public names of PyTorch that parity.ts accounts for.

    python3 tests/laws/parity/names.py

Documented names only; those that end in an underscore change a tensor in place, which no tensor here does.
"""
import inspect
import json
import os

import torch
import torch.nn.functional

HERE = os.path.dirname(os.path.abspath(__file__))


def public(space, is_wanted):
    names = [name for name in dir(space) if name[0] != "_" and name[-1] != "_"]
    return sorted(name for name in names if is_wanted(getattr(space, name)))


def documented(value):
    return callable(value) and isinstance(value.__doc__, str) and bool(value.__doc__.strip()) and not inspect.isclass(value)


def is_a(kind):
    return lambda value: inspect.isclass(value) and issubclass(value, kind)


def own(space):
    return lambda value: documented(value) and getattr(value, "__module__", "") in (space, "torch._C._nn", "torch", None)


names = {
    "torch": public(torch, documented),
    "Tensor": public(torch.Tensor, lambda v: documented(v) or isinstance(v, property) or inspect.isgetsetdescriptor(v)),
    "nn": public(torch.nn, is_a(torch.nn.Module)),
    "nn.functional": public(torch.nn.functional, own("torch.nn.functional")),
    # Initializers are named as what changes in place.
    "nn.init": sorted(n for n in dir(torch.nn.init) if n.endswith("_") and n[0] != "_"),
    "optim": public(torch.optim, is_a(torch.optim.Optimizer)),
    "optim.lr_scheduler": public(torch.optim.lr_scheduler, is_a(torch.optim.lr_scheduler.LRScheduler)),
    "linalg": public(torch.linalg, documented),
    "fft": public(torch.fft, documented),
    "special": public(torch.special, documented),
    "func": public(torch.func, documented),
    "distributions": public(torch.distributions, is_a(torch.distributions.Distribution)),
}
with open(os.path.join(HERE, "names.json"), "w") as f:
    release = torch.__version__.split("+")[0]
    json.dump({"release": release, "names": {k: " ".join(v) for k, v in names.items()}}, f, indent=2)
    f.write("\n")
print({k: len(v) for k, v in names.items()})
