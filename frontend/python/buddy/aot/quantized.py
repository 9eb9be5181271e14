"""Which weights a build quantises, by `--dtype` and by what the program does with them."""

from __future__ import annotations

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from buddy.aot.blocks import BLOCK

KEEP = "keep"
_FINE = "q8_0"  # for tables whose rows are themselves the model's first activations


def block_formats(program: ExportedProgram, dtype: str) -> dict[str, str]:
    """The format of each weight that `dtype`, one of `FORMATS`, quantises.

    These are float matrices whose rows are whole blocks; what an embedding looks up is kept at 8
    bits. Whether a weight can be packed in the end the compiler decides.
    """
    fakes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    formats: dict[str, str] = {}
    for spec in program.graph_signature.input_specs:
        node = fakes.get(spec.arg.name)
        value = node.meta.get("val") if node is not None else None
        if spec.kind is not InputKind.PARAMETER or not spec.target or node is None:
            continue
        if not isinstance(value, torch.Tensor) or value.dim() != 2 or value.shape[1] % BLOCK:
            continue
        if not value.is_floating_point() or value.shape[0] < 2:
            continue
        looked_up = any(user.target is torch.ops.aten.embedding.default for user in node.users)
        formats[spec.target] = _FINE if looked_up else dtype
    return formats
