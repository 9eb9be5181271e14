"""`buddy bench accuracy`: how far a bundle's logits are from exact ones, beside its peers'.

All read the text of text.py, token after token; each token's logits count.

buddy: the bundle, one token a call.
buddy prefill: the bundle, prefixes of the text in one call each, of which the last logits count.
eager: Hugging Face in the bundle's float type, on the weights as the bundle holds them.
llama.cpp: on its file, all tokens in one call.

perplexity: exp of the mean negative log-likelihood of the next token.
error, cosine: of an implementation's logits with exact ones, as means over the tokens of
    |x - exact| / |exact| and of the cosine of the angle.  Exact are those of Hugging Face in
    float64 on MODEL's weights (a GGUF file's blocks stand for floats).
own error: the same with exact logits of the weights that the implementation holds, so without
    what rounding the weights alone costs.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from buddy.aot.blocks import FORMATS
from buddy.aot.errors import BundleError
from buddy.aot.library import BundleLibrary
from buddy.aot.source import open_source
from buddy.bench import harness
from buddy.bench.harness import OURS
from buddy.bench.llm import require_bundle, weight_dtype
from buddy.bench.ours import DTYPES
from buddy.bench.text import TEXT
from buddy.models.reference import to_hugging_face

_PREFIXES = 8


@dataclass(frozen=True)
class Logits:
    """What an implementation says after the tokens at `positions`: [positions, vocab]."""

    positions: torch.Tensor
    values: torch.Tensor


def bench(
    model: str, bundle: Path, gguf: Path | None, *, tokens: int | None, threads: int
) -> tuple[dict[str, Any], str]:
    """Return the fields of the report, and its lines.

    gguf: what llama.cpp runs, if it is to. tokens: how many of the text's; default all.
    """
    record = require_bundle(bundle)
    ids = _tokens(model)[:tokens]
    if len(ids) < 2:
        raise BundleError("--tokens: at least 2 are needed")
    harness.progress("exact logits")
    exact = _exact(open_source(model, "f32"), ids)
    held = _Held(open_source(model, "f32"), record)
    own = _exact(held, ids)
    dtype = weight_dtype(record)
    found: dict[str, dict[str, float]] = {}
    for name, logits in (
        (OURS, _ours(bundle, ids, threads)),
        (f"{OURS} prefill", _prefixes(bundle, ids, threads)),
        ("eager", _eager(held, ids, dtype)),
    ):
        found[name] = compare(logits, exact, own, ids)
    if gguf is not None:
        other = exact if gguf == Path(model) else _exact(open_source(str(gguf), "f32"), ids)
        found["llama.cpp"] = compare(_llama_cpp(gguf, ids, threads), exact, other, ids)
    harness.progress("")
    # Eager does not compute in blocks: beside quantised weights it is only the float reference.
    peers = [name for name in found if name == "llama.cpp" or (name == "eager" and not held.blocks)]
    ratios = {
        key: {name: found[name][key] / found[OURS][key] for name in peers}
        for key in ("error", "own_error")
    }
    more = {"model": model, "tokens": len(ids), "implementations": found, "ratio": ratios}
    return more, _text(more)


def compare(
    logits: Logits, exact: torch.Tensor, own: torch.Tensor, ids: list[int]
) -> dict[str, float]:
    """The figures of one implementation; `exact`, `own`: float64 [tokens, vocab]."""
    values = logits.values.double()
    figures = {}
    following = [(row, ids[at + 1]) for row, at in enumerate(logits.positions.tolist())
                 if at + 1 < len(ids)]  # fmt: skip
    if len(values) == len(ids):
        rows, next_ids = map(torch.tensor, zip(*following, strict=True))
        losses = torch.nn.functional.cross_entropy(values[rows], next_ids)
        figures["perplexity"] = float(losses.exp())
    for prefix, reference in (("", exact), ("own_", own)):
        right = reference[logits.positions]
        away = (values - right).norm(dim=-1) / right.norm(dim=-1)
        cosine = torch.nn.functional.cosine_similarity(values, right, dim=-1)
        figures[f"{prefix}error"] = float(away.mean())
        figures[f"{prefix}cosine"] = float(cosine.mean())
    return figures


def _text(more: dict[str, Any]) -> str:
    rows = [["", "perplexity", "error", "1 - cosine", "own error", "own 1 - cosine"]]
    for name, figures in more["implementations"].items():
        perplexity = f"{figures['perplexity']:.4f}" if "perplexity" in figures else "-"
        rows.append([
            name, perplexity, f"{figures['error']:.3g}", f"{1 - figures['cosine']:.3g}",
            f"{figures['own_error']:.3g}", f"{1 - figures['own_cosine']:.3g}",
        ])  # fmt: skip
    lines = [f"logits of {more['tokens']} tokens", *harness.columns(rows)]
    for key, ratios in more["ratio"].items():
        if not ratios:
            break
        text = ", ".join(f"{name}'s {value:.2f}" for name, value in ratios.items())
        lines.append(f"{key.replace('_', ' ')} by buddy's: {text} (> 1: buddy is closer)")
    return "\n".join(lines)


def _tokens(model: str) -> list[int]:
    """The text as the model's tokenizer reads it."""
    from transformers import AutoTokenizer

    path = Path(model)
    file = {"gguf_file": path.name} if path.is_file() else {}
    try:
        tokenizer = AutoTokenizer.from_pretrained(path.parent if file else path, **file)
    except (OSError, ValueError, KeyError, NotImplementedError) as error:
        raise BundleError(f"{model}: transformers cannot read its tokenizer: {error}") from None
    ids: list[int] = tokenizer(TEXT)["input_ids"]
    return ids


class _Held:
    """A source's weights as a bundle holds them: rounded, or in blocks; as float32."""

    def __init__(self, source: Any, record: dict[str, Any]) -> None:
        self.config, self.model, self._source = source.config, source.model, source
        arguments = record["entries"][0]["arguments"]
        self._stored = {a["name"]: a for a in arguments if a["kind"] == "weight"}
        self.blocks = any(self._format(name) in FORMATS for name in self._stored)

    def _format(self, name: str) -> str:
        return str(self._stored[name].get("packing", {}).get("format"))

    def load(self, name: str) -> torch.Tensor:
        stored = self._stored[name]
        format = self._format(name)
        if format in FORMATS:
            return torch.from_numpy(self._source.load_blocks(name, format).dequantize())
        value: torch.Tensor = self._source.load(name)
        return value.to(DTYPES.get(stored["dtype"], value.dtype)).float()


def _exact(source: Any, ids: list[int]) -> torch.Tensor:
    """Float64 [tokens, vocab]; rotary angles are float32's, as the model defines them."""
    model = to_hugging_face(source).double()
    for module in model.modules():
        if type(module).__name__ == "LlamaRMSNorm":  # which computes in float32
            module.forward = functools.partial(_rms_norm, module)
    return _all_logits(model, ids)


def _rms_norm(module: Any, x: torch.Tensor) -> torch.Tensor:
    mean = x.pow(2).mean(-1, keepdim=True)
    scaled: torch.Tensor = module.weight * x * torch.rsqrt(mean + module.variance_epsilon)
    return scaled


def _all_logits(model: Any, ids: list[int]) -> torch.Tensor:
    with torch.no_grad():
        logits: torch.Tensor = model(torch.tensor([ids]), use_cache=False).logits[0]
    return logits


def _eager(source: Any, ids: list[int], dtype: str) -> Logits:
    harness.progress("eager")
    logits = _all_logits(to_hugging_face(source).to(DTYPES[dtype]), ids)
    return Logits(torch.arange(len(ids)), logits)


def _ours(bundle: Path, ids: list[int], threads: int) -> Logits:
    library = BundleLibrary(bundle, threads)
    state, rows = library.llama_state(len(ids)), []
    for position, token in enumerate(ids):
        harness.progress(f"{OURS} {position + 1}/{len(ids)}")
        rows.append(library.llama_forward(torch.tensor([token]), position, state)[0])
    return Logits(torch.arange(len(ids)), torch.stack(rows))


def _prefixes(bundle: Path, ids: list[int], threads: int) -> Logits:
    library = BundleLibrary(bundle, threads)
    count = min(_PREFIXES, len(ids))
    # Lengths of all kinds, not multiples of one number.
    lengths = [len(ids) * (i + 1) // count for i in range(count)]
    rows = []
    for length in lengths:
        harness.progress(f"{OURS} prefill of {length}")
        state = library.llama_state(length)
        rows.append(library.llama_forward(torch.tensor(ids[:length]), 0, state)[0])
    return Logits(torch.tensor(lengths) - 1, torch.stack(rows))


def _llama_cpp(path: Path, ids: list[int], threads: int) -> Logits:
    import llama_cpp

    harness.progress("llama.cpp")
    llm = llama_cpp.Llama(
        str(path), n_ctx=len(ids), n_batch=512, n_ubatch=512, n_threads=threads,
        n_threads_batch=threads, logits_all=True, verbose=False,
    )  # fmt: skip
    llm.eval(ids)
    return Logits(torch.arange(len(ids)), torch.from_numpy(llm.scores[: len(ids)].copy()))
