"""Normalisation, and the statistics that go with it."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from flota.errors import InvalidArgument
from flota.paddle.ops.making import sides
from flota.paddle.ops.registry import operation


@operation
def batch_norm(
    x: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-5,
    data_format: str = "NCHW",
    use_global_stats: bool | None = None,
) -> Any:
    """The result, and the new running mean and variance, which keep ``momentum`` of the old ones. The variance is that
    of the batch itself (over n, where torch's is over n - 1)."""
    if data_format not in ("NC", "NCL", "NCHW", "NCDHW", "NLC", "NHWC", "NDHWC"):
        raise InvalidArgument(f"batch_norm: there is no data_format {data_format!r}")
    last = data_format in ("NLC", "NHWC", "NDHWC") and x.dim() > 2
    x = x.movedim(-1, 1) if last else x
    if use_global_stats or (use_global_stats is None and not training):
        y = F.batch_norm(x, running_mean, running_var, weight, bias, False, 0.0, epsilon)
        return (y.movedim(1, -1) if last else y), running_mean, running_var
    y = torch.native_batch_norm(x, weight, bias, None, None, True, 0.0, epsilon)[0]
    with torch.no_grad():
        variance, mean = torch.var_mean(x, [side for side in range(x.dim()) if side != 1], correction=0)
        mean = running_mean * momentum + mean * (1 - momentum)
        variance = running_var * momentum + variance * (1 - momentum)
    return (y.movedim(1, -1) if last else y), mean, variance


@operation
def layer_norm(x: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, epsilon: float = 1e-5) -> Any:
    shape = sides(normalized_shape)
    # Scripts of 1.x keep scale and shift flat.
    weight, bias = (None if each is None else each.reshape(shape) for each in (weight, bias))
    return F.layer_norm(x, shape, weight, bias, epsilon)


class _ShowsAndClicks(torch.autograd.Function):
    """The first two columns stand for how often an item was shown and clicked. What is sent back for them are the
    counts of this batch, with which a table adds them up."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, cvm: torch.Tensor, use_cvm: bool) -> torch.Tensor:
        ctx.save_for_backward(cvm)
        ctx.use_cvm = use_cvm
        if not use_cvm:
            return x[:, 2:].clone()
        shows = torch.log(x[:, :1] + 1)
        return torch.cat([shows, torch.log(x[:, 1:2] + 1) - shows, x[:, 2:]], 1)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (cvm,) = ctx.saved_tensors
        rest = gradients[0][:, 2:] if ctx.use_cvm else gradients[0]
        return torch.cat([cvm.to(rest.dtype).expand(len(rest), 2), rest], 1), None, None


@operation
def continuous_value_model(input: Any, cvm: Any, use_cvm: bool = True) -> Any:
    """``input``: rows whose first two columns are shows and clicks; ``cvm``: those of this batch, [rows, 2]. With
    ``use_cvm`` they become logarithms, without it they are left out."""
    return _ShowsAndClicks.apply(input, cvm, use_cvm)  # type: ignore[no-untyped-call]
