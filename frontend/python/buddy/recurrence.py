"""`torch.ops.buddy.recurrence`: one layer and direction of an LSTM, GRU or plain RNN, whole.

PyTorch takes these layers apart step by step, into a graph as long as the sequence, whose length it
then fixes. The importer makes a loop of this operator, for a length that the call knows.
"""

from __future__ import annotations

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
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """All steps over time, from the first, or from the last if `reverse`.

    x: [T, B, G * H], what each step's input gives to the gates, in PyTorch's order of them; G is
    GATES[kind]. h: [B, P] and c: [B, H] are the state before the first step, c that of an LSTM.
    weight: [G * H, P] and bias: [G * H] make gates of the state. projection: [P, H], of what an
    LSTM gives; without it P is H.
    Returns the outputs [T, B, P], and h and c after the last step; c is [0] for other cells.
    """
    outputs: list[torch.Tensor] = []
    for gates in x.flip(0) if reverse else x:
        h, c = _step(kind, gates, h, c, weight, bias)
        if projection is not None:
            h = F.linear(h, projection)
        outputs.append(h)
    if not outputs:
        raise RuntimeError(EMPTY)
    result = torch.stack(outputs[::-1] if reverse else outputs)
    return result, h.clone(), x.new_empty((0,)) if c is None else c.clone()


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
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch._check(kind in GATES, lambda: f"buddy.recurrence: kind={kind!r}, not in {list(GATES)}")
    torch._check((c is not None) == (kind == "lstm"), lambda: "buddy.recurrence: c is an LSTM's")
    torch._check(
        x.shape[-1] == weight.shape[0] and weight.shape[1] == h.shape[-1],
        lambda: f"buddy.recurrence: gates {x.shape} and state {h.shape}, weight {weight.shape}",
    )
    state = x.new_empty((0,)) if c is None else c.new_empty(c.shape)
    return x.new_empty((*x.shape[:-1], h.shape[-1])), h.new_empty(h.shape), state
