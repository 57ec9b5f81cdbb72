"""llama.cpp's side of run.ts: reads a prompt, writes tokens greedily, and answers with the seconds of both."""

import ctypes
import json
import sys
import time

import llama_cpp
import numpy


def without_extra_buffers():
    """No weights in the order of matrix units: some machines name these units, and do not run them."""
    defaults = llama_cpp.llama_cpp.llama_model_default_params

    def plain():
        params = defaults()
        params.use_extra_bufts = False
        return params

    llama_cpp.llama_cpp.llama_model_default_params = plain


def main(path, way, threads):
    if way == "plain":
        without_extra_buffers()
    model = llama_cpp.Llama(path, n_ctx=2048, n_batch=512, n_threads=int(threads),
                            n_threads_batch=int(threads), verbose=False)
    vocabulary = model.n_vocab()
    print(json.dumps({"title": f"llama.cpp of llama-cpp-python {llama_cpp.__version__}, {way}, threads {threads}"}), flush=True)

    def likeliest():
        logits = llama_cpp.llama_get_logits_ith(model.ctx, -1)
        array = ctypes.cast(logits, ctypes.POINTER(ctypes.c_float * vocabulary)).contents
        return int(numpy.argmax(numpy.ctypeslib.as_array(array)))

    for line in sys.stdin:
        prompt, tokens = map(int, line.split())
        ids = [(k * 7919 + 13) % min(vocabulary, 30_000) for k in range(prompt)]
        model.reset()
        model.eval(ids[:1])
        model.reset()
        began = time.perf_counter()
        model.eval(ids)
        chosen, times = [likeliest()], [time.perf_counter()]
        for _ in range(tokens - 1):
            model.eval(chosen[-1:])
            chosen.append(likeliest())
            times.append(time.perf_counter())
        steps = len(times) - 3
        token = (times[-1] - times[2]) / steps if steps > 0 else None
        print(json.dumps({"prompt": times[0] - began, "token": token, "ids": chosen[:16]}), flush=True)


main(*sys.argv[1:])
