"""`torch.ops.buddy.bag_sums`: sums of runs of rows that indices choose.

The rows are added where they lie: as a gather and an addition by index they would be written out.
"""

from __future__ import annotations

import torch


@torch.library.custom_op("buddy::bag_sums", mutates_args=(), device_types="cpu")
def bag_sums(
    weight: torch.Tensor,
    indices: torch.Tensor,
    starts: torch.Tensor,
    scales: torch.Tensor | None,
    padding: int,
    dtype: torch.dtype,
) -> torch.Tensor:
    """Return [B, D]: for each bag i the sum of weight[j] for j in indices[starts[i]:starts[i + 1]].

    weight: [V, D]. indices: [N], in [0, V), of which those equal to `padding` are left out. starts:
    [B + 1], the bags' first places, ascending, and N. scales: [N], factors of the rows. The sums
    are computed and returned in the dtype.
    """
    rows = weight[indices].to(dtype)
    if scales is not None:
        rows = rows * scales.to(dtype).unsqueeze(1)
    rows = rows.masked_fill((indices == padding).unsqueeze(1), 0)
    sums = [rows[begin:end].sum(0) for begin, end in zip(starts[:-1], starts[1:], strict=True)]
    return torch.stack(sums) if sums else rows.new_empty((0, rows.shape[1]))


@bag_sums.register_fake
def _bag_sums_fake(
    weight: torch.Tensor,
    indices: torch.Tensor,
    starts: torch.Tensor,
    scales: torch.Tensor | None,
    padding: int,
    dtype: torch.dtype,
) -> torch.Tensor:
    return weight.new_empty((starts.shape[0] - 1, weight.shape[1]), dtype=dtype)
