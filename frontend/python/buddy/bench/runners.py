"""The implementations that `buddy bench llm` compares."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import torch

from buddy.aot.errors import BundleError
from buddy.aot.library import BundleLibrary
from buddy.aot.source import open_source
from buddy.bench.llm import require_bundle
from buddy.bench.ours import DTYPES, first_line
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
        # Not torch's: it would wake a pool of threads of its own, which then spin on our cores.
        return int(logits.numpy().argmax())


class EagerRunner:
    """Hugging Face in PyTorch with a DynamicCache."""

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


class CompiledRunner:
    """Hugging Face compiled by a backend of torch.compile; prefill and decode with a StaticCache.

    Each of the two is one graph (`fullgraph`), so that nothing runs uncompiled, and is compiled for
    its own sizes at its first call.

    backend: `inductor`, or a function as Dynamo calls it.  freezing: inductor takes the weights as
    constants, which it may lay out anew; else they are inputs of the graphs.
    """

    def __init__(
        self,
        name: str,
        model: Any,
        capacity: int,
        *,
        backend: Any = "inductor",
        freezing: bool = False,
        **options: Any,
    ) -> None:
        from transformers import StaticCache

        self.name = name
        config = model.config
        self._freezing = freezing
        self._cache: Any = StaticCache(config=config, max_cache_len=capacity)
        self._cache.early_initialization(
            1, config.num_key_value_heads, config.head_dim, model.dtype, torch.device("cpu")
        )
        if freezing:
            # StaticCache marks its tensors as static addresses, and freezing makes constants of
            # such: wrong results, and an index out of bounds later.  Unmarked they are inputs.
            for layer in self._cache.layers:
                for value in vars(layer).values():
                    if hasattr(value, "_dynamo_static_input_type"):
                        del value._dynamo_static_input_type

        def forward(ids: torch.Tensor, positions: torch.Tensor, cache: Any) -> torch.Tensor:
            output = model(
                input_ids=ids, position_ids=positions, past_key_values=cache, use_cache=True,
                logits_to_keep=1,
            )  # fmt: skip
            return output.logits[:, -1].argmax(-1)

        compiled = torch.compile(forward, backend=backend, fullgraph=True, dynamic=False, **options)
        self._compiled = compiled
        self._seen: set[int] = set()
        self._position = 0

    def prefill(self, tokens: list[int]) -> int:
        self._cache.reset()
        self._position = 0
        return self._read(tokens)

    def decode(self, token: int) -> int:
        return self._read([token])

    def _read(self, tokens: list[int]) -> int:
        end = self._position + len(tokens)
        positions = torch.arange(self._position, end)[None]
        self._position = end
        return int(self.step(torch.tensor([tokens]), positions))

    def step(self, ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Read `ids` [1, T] after what the cache holds; return the likeliest next one, [1]."""
        with torch.no_grad():
            if ids.shape[1] not in self._seen:
                self._seen.add(ids.shape[1])
                return self._first(ids, positions)
            return self._compiled(ids, positions, self._cache)

    def _first(self, ids: torch.Tensor, positions: torch.Tensor) -> Any:
        """The call that compiles."""
        from torch._inductor import config

        # Only what compiles needs it, and setting it takes long.
        freezing = config.patch(freezing=True) if self._freezing else contextlib.nullcontext()
        try:
            with freezing:
                return self._compiled(ids, positions, self._cache)
        except Exception as error:  # whatever a compiler meets
            raise BundleError(
                f"{self.name} cannot compile the model: {first_line(error)}"
            ) from error

    def rewind(self, position: int) -> None:
        """Let the next call write the cache from `position` on."""
        self._position = position
        for layer in self._cache.layers:
            layer.cumulative_length.fill_(position)


def make_runners(
    model: str,
    bundle: Path,
    *,
    threads: int,
    capacity: int,
    dtype: str,
    gguf: Path | None,
    inductor: bool,
) -> list[Any]:
    """Ours first, then what is installed; `dtype` is PyTorch's."""
    runners: list[Any] = [BuddyRunner(bundle, threads, capacity)]
    reference = to_hugging_face(open_source(model, "f32")).to(DTYPES[dtype])
    runners.append(EagerRunner(reference))
    if inductor:
        runners.append(CompiledRunner("inductor", reference, capacity, freezing=True))
    if gguf is not None:
        runners.append(LlamaCppRunner(gguf, threads, capacity))
    return runners
