"""`torch.ops.buddy.recurrence`: one layer and direction of an LSTM, GRU or plain RNN, whole.

PyTorch takes these layers apart step by step, into a graph as long as the sequence, whose length it
then fixes. The importer makes a loop of this operator, for a length that the call knows, and one of
`torch.ops.buddy.recurrence_backward`, which its gradient is made of.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

# The cell and how many gates it has, each of the hidden size.
GATES = {"lstm": 4, "gru": 3, "tanh": 1, "relu": 1}


def _step(
    kind: str,
    x: torch.Tensor,
    h: torch.Tensor,
    c: torch.Tensor | None,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    gates = F.linear(h, weight, bias)
    if kind == "lstm":
        assert c is not None
        i, f, g, o = (gates + x).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c
    if kind == "gru":
        (x_r, x_z, x_n), (h_r, h_z, h_n) = x.chunk(3, -1), gates.chunk(3, -1)
        z, n = (x_z + h_z).sigmoid(), (x_n + (x_r + h_r).sigmoid() * h_n).tanh()
        return (h - n) * z + n, None
    return (gates + x).tanh() if kind == "tanh" else (gates + x).relu(), None


@torch.library.custom_op("buddy::recurrence", mutates_args=(), device_types="cpu")
def recurrence(
    x: torch.Tensor,
    h: torch.Tensor,
    c: torch.Tensor | None,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    projection: torch.Tensor | None,
    kind: str,
    reverse: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """All steps over time, from the first, or from the last if `reverse`.

    x: [T, B, G * H], what each step's input gives to the gates, in PyTorch's order of them; G is
    GATES[kind]. h: [B, P] and c: [B, H] are the state before the first step, c that of an LSTM.
    weight: [G * H, P] and bias: [G * H] make gates of the state. projection: [P, H], of what an
    LSTM gives; without it P is H.
    Returns h [T, B, P] and an LSTM's c [T, B, H] after each step; [0] for the c of other cells.
    """
    outputs, cells = [], []
    for gates in x.flip(0) if reverse else x:
        h, c = _step(kind, gates, h, c, weight, bias)
        if projection is not None:
            h = F.linear(h, projection)
        outputs.append(h)
        cells.append(c)
    if not outputs:
        raise RuntimeError(EMPTY)

    def stack(states: list[Any]) -> torch.Tensor:
        return torch.stack(states[::-1] if reverse else states)

    return stack(outputs), x.new_empty((0,)) if c is None else stack(cells)


# Eager's words.
EMPTY = "Expected sequence length to be larger than 0 in RNN"


@recurrence.register_fake
def _recurrence_fake(
    x: torch.Tensor,
    h: torch.Tensor,
    c: torch.Tensor | None,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    projection: torch.Tensor | None,
    kind: str,
    reverse: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    torch._check(kind in GATES, lambda: f"buddy.recurrence: kind={kind!r}, not in {list(GATES)}")
    torch._check((c is not None) == (kind == "lstm"), lambda: "buddy.recurrence: c is an LSTM's")
    torch._check(
        x.shape[-1] == weight.shape[0] and weight.shape[1] == h.shape[-1],
        lambda: f"buddy.recurrence: gates {x.shape} and state {h.shape}, weight {weight.shape}",
    )
    cells = x.new_empty((0,)) if c is None else x.new_empty((x.shape[0], *c.shape))
    return x.new_empty((*x.shape[:-1], h.shape[-1])), cells


def _step_backward(
    kind: str,
    d_new: torch.Tensor,
    d_cell: torch.Tensor | None,
    x: list[torch.Tensor],
    y: list[torch.Tensor],
    old: torch.Tensor,
    new: torch.Tensor,
) -> tuple[list[torch.Tensor], list[torch.Tensor], torch.Tensor]:
    """The gradients of the gates' two parts, and of c (LSTM) or directly of h before the step."""
    if kind == "lstm":
        i, f, g, o = (a + b for a, b in zip(x, y, strict=True))
        i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
        shown = new.tanh()
        d_c = d_new * o * (1 - shown * shown)
        if d_cell is not None:
            d_c = d_c + d_cell
        gates = [
            d_c * g * (i * (1 - i)),
            d_c * old * (f * (1 - f)),
            d_c * i * (1 - g * g),
            d_new * shown * (o * (1 - o)),
        ]
        return gates, gates, d_c * f
    if kind == "gru":
        r, z = (x[0] + y[0]).sigmoid(), (x[1] + y[1]).sigmoid()
        n = (x[2] + r * y[2]).tanh()
        d_n = d_new * (1 - z) * (1 - n * n)
        d_r, d_z = d_n * y[2] * (r * (1 - r)), d_new * (old - n) * (z * (1 - z))
        return [d_r, d_z, d_n], [d_r, d_z, d_n * r], d_new * z
    gates = [d_new * (1 - new * new) if kind == "tanh" else d_new.masked_fill(new <= 0, 0)]
    return gates, gates, torch.zeros_like(d_new)


@torch.library.custom_op("buddy::recurrence_backward", mutates_args=(), device_types="cpu")
def recurrence_backward(
    d_outputs: torch.Tensor,
    d_cells: torch.Tensor | None,
    x: torch.Tensor,
    y: torch.Tensor,
    old: torch.Tensor,
    new: torch.Tensor,
    weight: torch.Tensor,
    kind: str,
    reverse: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """The steps of `recurrence` without a projection, back from the last one.

    d_outputs and d_cells: [T, B, H], gradients of what it returned, d_cells that of an LSTM.
    x, y: [T, B, G * H], what each step's input and the state before it gave to the gates.
    old: [T, B, H], c (LSTM) or h before each step. new: [T, B, H], c (LSTM) or h after it.
    weight: [G * H, H].
    Returns the gradients of x, of y (a GRU's; [0] for other cells, where it is that of x), of h
    before the first step by way of the gates, and of c (LSTM) or directly of h before it.
    """
    count = GATES[kind]
    d_h, d_old = torch.zeros_like(old[0]), torch.zeros_like(old[0])
    d_x, d_y = torch.empty_like(x), torch.empty_like(y)
    times = range(x.shape[0])
    for t in times if reverse else reversed(times):
        d_new, d_cell = d_outputs[t] + d_h, None
        if d_cells is not None:
            d_cell = d_cells[t] + d_old
        else:
            d_new = d_new + d_old
        x_parts, y_parts = (list(part[t].chunk(count, -1)) for part in (x, y))
        by_x, by_y, d_old = _step_backward(kind, d_new, d_cell, x_parts, y_parts, old[t], new[t])
        d_x[t], d_y[t] = torch.cat(by_x, -1), torch.cat(by_y, -1)
        d_h = d_y[t] @ weight
    return d_x, d_y if kind == "gru" else x.new_empty((0,)), d_h, d_old


@recurrence_backward.register_fake
def _recurrence_backward_fake(
    d_outputs: torch.Tensor,
    d_cells: torch.Tensor | None,
    x: torch.Tensor,
    y: torch.Tensor,
    old: torch.Tensor,
    new: torch.Tensor,
    weight: torch.Tensor,
    kind: str,
    reverse: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    lstm = kind == "lstm"
    torch._check((d_cells is not None) == lstm, lambda: "buddy.recurrence: c is an LSTM's")
    d_y = x.new_empty(y.shape if kind == "gru" else (0,))
    return x.new_empty(x.shape), d_y, old.new_empty(old.shape[1:]), old.new_empty(old.shape[1:])


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
    *tensors, projection, ctx.kind, ctx.reverse = inputs
    if projection is not None:
        raise NotImplementedError("buddy.recurrence: no gradient with a projection")
    ctx.save_for_backward(*tensors, *output)


def _before(first: torch.Tensor, after: torch.Tensor, reverse: bool) -> torch.Tensor:
    """The state before each step, [T, B, H]."""
    first = first.unsqueeze(0)
    return torch.cat([after[1:], first] if reverse else [first, after[:-1]])


def _backward(ctx: Any, d_outputs: torch.Tensor, d_cells: torch.Tensor) -> tuple[Any, ...]:
    x, h, c, weight, bias, outputs, cells = ctx.saved_tensors
    before = _before(h, outputs, ctx.reverse)
    y = F.linear(before, weight, bias)
    if c is None:
        old, new, d_c = before, outputs, None
    else:
        old, new, d_c = _before(c, cells, ctx.reverse), cells, d_cells
    d_x, d_y, d_h, d_old = recurrence_backward(
        d_outputs, d_c, x, y, old, new, weight, ctx.kind, ctx.reverse
    )
    d_y = d_y if ctx.kind == "gru" else d_x
    d_bias = None if bias is None else d_y.sum((0, 1))
    d_weight = d_y.flatten(0, 1).T @ before.flatten(0, 1)
    if c is None:
        return d_x, d_h + d_old, None, d_weight, d_bias, None, None, None
    return d_x, d_h, d_old, d_weight, d_bias, None, None, None


recurrence.register_autograd(_backward, setup_context=_setup_context)
