"""The implementations that `buddy bench llm` compares."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import torch

from buddy.aot.library import BundleLibrary
from buddy.aot.source import open_source
from buddy.bench.llm import require_bundle
from buddy.models.reference import to_hugging_face


class BuddyRunner:
    """The bundle's library."""

    name = "buddy"

    def __init__(self, bundle: Path, threads: int, capacity: int) -> None:
        require_bundle(bundle)
        self._library = BundleLibrary(bundle, threads)
        self._state = self._library.llama_state(capacity)
        self.vocab = self._library.argument("logits")["shape"][1]
        self._position = 0

    def prefill(self, tokens: list[int]) -> int:
        self._position = 0
        return self._read(tokens)

    def decode(self, token: int) -> int:
        return self._read([token])

    def _read(self, tokens: list[int]) -> int:
        logits = self._library.llama_forward(torch.tensor(tokens), self._position, self._state)
        self._position += len(tokens)
        return int(logits.argmax())


class EagerRunner:
    """Hugging Face in PyTorch, float32, DynamicCache."""

    name = "eager"

    def __init__(self, model: Any) -> None:
        self._model = model
        self._cache: Any = None

    def prefill(self, tokens: list[int]) -> int:
        from transformers import DynamicCache

        self._cache = DynamicCache(config=self._model.config)
        return self._read(tokens)

    def decode(self, token: int) -> int:
        return self._read([token])

    def _read(self, tokens: list[int]) -> int:
        with torch.no_grad():
            output = self._model(
                torch.tensor([tokens]),
                past_key_values=self._cache,
                use_cache=True,
                logits_to_keep=1,
            )
        return int(output.logits[0, -1].argmax())


class LlamaCppRunner:
    """llama.cpp through llama-cpp-python, in the file's own type."""

    def __init__(self, path: Path, threads: int, capacity: int) -> None:
        import llama_cpp

        self.name = "llama.cpp"
        self._module = llama_cpp
        self._llm = llama_cpp.Llama(
            str(path), n_ctx=capacity, n_batch=512, n_ubatch=512, n_threads=threads,
            n_threads_batch=threads, logits_all=False, verbose=False,
        )  # fmt: skip

    def prefill(self, tokens: list[int]) -> int:
        self._llm.reset()
        self._llm._ctx.kv_cache_clear()
        return self._read(tokens)

    def decode(self, token: int) -> int:
        return self._read([token])

    def _read(self, tokens: list[int]) -> int:
        import numpy

        self._llm.eval(tokens)
        pointer = self._module.llama_get_logits_ith(self._llm._ctx.ctx, -1)
        return int(numpy.ctypeslib.as_array(pointer, shape=(self._llm.n_vocab(),)).argmax())


def make_runners(model: str, bundle: Path, threads: int, capacity: int) -> list[Any]:
    """Ours first, then what is installed."""
    runners: list[Any] = [BuddyRunner(bundle, threads, capacity)]
    runners.append(EagerRunner(to_hugging_face(open_source(model, "f32"))))
    if Path(model).is_file() and importlib.util.find_spec("llama_cpp"):
        runners.append(LlamaCppRunner(Path(model), threads, capacity))
    return runners
