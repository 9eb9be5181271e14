"""`llama_cpp_start.py GGUF CONTEXT THREADS IDS`: time llama.cpp from loading to the first token.

Run as a script by start.py; prints `first token: SECONDS`.
"""

import sys
import time

import llama_cpp
import numpy

path, context, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
ids = [int(part) for part in sys.argv[4].split(",")]
start = time.perf_counter()
llm = llama_cpp.Llama(
    path, n_ctx=context, n_batch=512, n_ubatch=512, n_threads=threads, n_threads_batch=threads,
    logits_all=False, verbose=False,
)  # fmt: skip
llm.eval(ids)
pointer = llama_cpp.llama_get_logits_ith(llm._ctx.ctx, -1)
int(numpy.ctypeslib.as_array(pointer, shape=(llm.n_vocab(),)).argmax())
print(f"first token: {time.perf_counter() - start}")
