"""What a peer in Python does; see serve.ts for the requests and the answers."""

import json
import sys
import time


def repeat(run, sync, calls):
    began = time.perf_counter()
    for _ in range(calls):
        run()
    sync()
    return (time.perf_counter() - began) / calls


def median_time(run, sync, samples, seconds):
    """The median seconds of a call over samples that each last at least so long."""
    best = repeat(run, sync, 1)
    warm = time.perf_counter() + 10 * seconds  # without what the first call makes
    while time.perf_counter() < warm:
        best = min(best, repeat(run, sync, 1))
    calls = max(1, min(100_000, int(seconds / best) + 1))
    return sorted(repeat(run, sync, calls) for _ in range(samples))[samples // 2]


def serve(peer, makers, sync=lambda: None):
    """Answers requests until there are no more; `makers` make a call by a size."""
    print(json.dumps({"peer": peer}), flush=True)
    ready, run = None, None
    for line in sys.stdin:
        kind, size, samples, milliseconds = line.split()[:4]
        answer = {"work": f"{kind} {size}"}
        try:
            if kind not in makers:
                raise LookupError("not offered")
            if ready != (kind, size):
                run = None  # frees what the last work held
                run, ready = makers[kind](int(float(size))), (kind, size)
            if getattr(run, "gives_seconds", False):
                value = run()
            else:
                value = median_time(run, sync, int(samples), float(milliseconds) / 1e3)
            answer |= {"value": value, "unit": "s"}
        except Exception as error:  # the answer carries it
            answer["error"] = str(error)
        print(json.dumps(answer), flush=True)
