"""LSTM, GRU and plain RNN, layer by layer: each direction of one is a `buddy.recurrence`."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F

import buddy.recurrence  # noqa: F401  (defines torch.ops.buddy.recurrence)

from .table import decomposes

aten = torch.ops.aten

_LSTM = 2  # oneDNN's number of the cell


@decomposes(aten.mkldnn_rnn_layer.default)
def mkldnn_rnn_layer(
    x: torch.Tensor,
    w_input: torch.Tensor,
    w_hidden: torch.Tensor,
    b_input: torch.Tensor,
    b_hidden: torch.Tensor,
    hx: torch.Tensor,
    cx: torch.Tensor,
    reverse: bool,
    batch_sizes: list[int],
    mode: int,
    hidden_size: int,
    num_layers: int,
    has_biases: bool,
    bidirectional: bool,
    batch_first: bool,
    train: bool,
) -> Any:
    """One direction of one layer, [time, batch, size]; the last result is a training workspace."""
    if mode != _LSTM or batch_sizes or num_layers != 1 or bidirectional or batch_first or train:
        return NotImplemented
    h, c = hx.reshape(hx.shape[-2:]), cx.reshape(cx.shape[-2:])
    weights = [w_input, w_hidden, *([b_input, b_hidden] if has_biases else [])]
    out, h, c = _layer("lstm", x, h, c, weights, has_biases, reverse)
    return out, h.reshape(hx.shape), c.reshape(cx.shape), x.new_empty((0,), dtype=torch.uint8)


def _layer(
    kind: str,
    x: torch.Tensor,
    h: torch.Tensor,
    c: torch.Tensor | None,
    weights: Sequence[torch.Tensor],
    has_biases: bool,
    reverse: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """One direction: x [T, B, I], h [B, P], c [B, H]; the weights in PyTorch's order."""
    w_input, w_hidden, *rest = weights
    b_input, b_hidden = rest[:2] if has_biases else (None, None)
    projection = rest[-1] if len(rest) % 2 else None
    gates = F.linear(x, w_input, b_input)
    outputs, cells = torch.ops.buddy.recurrence(
        gates, h, c, w_hidden, b_hidden, projection, kind, reverse
    )
    last = 0 if reverse else -1
    return outputs, outputs[last], cells if c is None else cells[last]


def _layers(
    kind: str,
    x: torch.Tensor,
    h: torch.Tensor,
    c: torch.Tensor | None,
    params: Sequence[torch.Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    """All layers: the last one's outputs, and the states after the last steps."""
    x = x.transpose(0, 1) if batch_first else x
    directions = 2 if bidirectional else 1
    width = len(params) // (num_layers * directions)
    projected = width % 2 == 1
    operands = [x, h, *params, *([] if c is None else [c])]
    if projected and torch.is_grad_enabled() and any(o.requires_grad for o in operands):
        return NotImplemented
    states: list[tuple[torch.Tensor, torch.Tensor]] = []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            i = layer * directions + direction
            out, *state = _layer(
                kind,
                x,
                h[i],
                None if c is None else c[i],
                params[i * width : (i + 1) * width],
                has_biases,
                direction == 1,
            )
            outputs.append(out)
            states.append((state[0], state[1]))
        x = torch.cat(outputs, -1) if bidirectional else outputs[0]
        if train and dropout and layer < num_layers - 1:
            x = F.dropout(x, dropout)
    x = x.transpose(0, 1) if batch_first else x
    return x, *(torch.stack(state) for state in zip(*states, strict=True))


@decomposes(aten.lstm.input)
def lstm(
    x: torch.Tensor, hx: Sequence[torch.Tensor], params: Sequence[torch.Tensor], *settings: Any
) -> Any:
    """`settings`: has_biases, num_layers, dropout, train, bidirectional, batch_first."""
    return _layers("lstm", x, hx[0], hx[1], params, *settings)


def _without_cell_state(kind: str) -> Callable[..., Any]:
    def layers(
        x: torch.Tensor, hx: torch.Tensor, params: Sequence[torch.Tensor], *settings: Any
    ) -> Any:
        result = _layers(kind, x, hx, None, params, *settings)
        return result if result is NotImplemented else result[:2]

    return layers


_WHOLE: dict[Any, Callable[..., Any]] = {
    aten.lstm.input: lstm,
    aten.gru.input: decomposes(aten.gru.input)(_without_cell_state("gru")),
    aten.rnn_tanh.input: decomposes(aten.rnn_tanh.input)(_without_cell_state("tanh")),
    aten.rnn_relu.input: decomposes(aten.rnn_relu.input)(_without_cell_state("relu")),
}
_KEYS = (torch._C.DispatchKey.Autograd, torch._C.DispatchKey.CompositeImplicitAutograd)


@contextlib.contextmanager
def whole_recurrences() -> Iterator[None]:
    """Have these layers traced by the functions here, not step by step.

    They are composite, and PyTorch's Python kernels of them are asked before any table is. Where
    gradients through a projection are wanted those still serve.
    """
    before = {op: dict(op.py_kernels) for op in _WHOLE}
    whole_recurrences_if(lambda: True)
    try:
        yield
    finally:
        for op, kernels in before.items():
            op.py_kernels.clear()
            op.py_kernels.update(kernels)
            op._dispatch_cache.clear()


def whole_recurrences_if(wanted: Callable[[], bool]) -> None:
    """From now on, have these layers traced by the functions here wherever `wanted()` says so."""
    for op, function in _WHOLE.items():
        for key in _KEYS:
            op.py_kernels[key] = functools.partial(_try, wanted, function, op.py_kernels[key])
        op._dispatch_cache.clear()


def _try(
    wanted: Callable[[], bool],
    function: Callable[..., Any],
    otherwise: Callable[..., Any],
    *args: Any,
    **kwargs: Any,
) -> Any:
    result = NotImplemented if kwargs or not wanted() else function(*args)
    return otherwise(*args, **kwargs) if result is NotImplemented else result
