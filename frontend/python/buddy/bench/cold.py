"""`python -m buddy.bench.cold BACKEND MODEL DTYPE PROMPT THREADS`: compile a LLaMA once.

Run by compile_time.py in a new process, with the caches of both backends in a new folder.  Writes a
line of JSON for each step when it is done, {"step": …, "seconds": …}: `open` the model as Hugging
Face's, `prefill` of PROMPT tokens and `decode` of one after it, each compiled by torch.compile with
a StaticCache and called once.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

_T = TypeVar("_T")


def main(backend: str, model: str, dtype: str, prompt: int, threads: int) -> None:
    """Compile; `backend` is `buddy` or `inductor`."""
    import torch

    from buddy.aot.source import open_source
    from buddy.backend import buddy_backend
    from buddy.bench.ours import DTYPES
    from buddy.bench.runners import CompiledRunner
    from buddy.models.reference import to_hugging_face

    torch.set_num_threads(threads)
    reference = _step("open", lambda: to_hugging_face(open_source(model, "f32")).to(DTYPES[dtype]))
    more: dict[str, Any] = {}
    if backend == "buddy":
        more = {"backend": buddy_backend, "options": {"fallback": "error"}}
    runner = CompiledRunner(backend, reference, 2 * prompt, **more)
    token = _step("prefill", lambda: runner.prefill(list(range(3, 3 + prompt))))
    _step("decode", lambda: runner.decode(token))


def _step(name: str, function: Callable[[], _T]) -> _T:
    start = time.perf_counter()
    result = function()
    print(json.dumps({"step": name, "seconds": time.perf_counter() - start}), flush=True)
    return result


if __name__ == "__main__":
    _, backend, model, dtype, prompt, threads = sys.argv
    main(backend, model, dtype, int(prompt), int(threads))
