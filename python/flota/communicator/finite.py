"""A step with a NaN is stopped before any of it is applied, in every mode, and says where it came from."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

import torch

from flota import _core
from flota.communicator.loss import last_loss
from flota.errors import NonFiniteValues
from flota.nn.table import TableParameter

if TYPE_CHECKING:
    from flota.communicator.optimizer import DistributedOptimizer


def check_gradients(optimizer: DistributedOptimizer, loss: float | torch.Tensor | None) -> None:
    """Raises ``NonFiniteValues`` with worker, step and parameter if a gradient holds a NaN or an infinity.

    The servers refuse such a push by themselves, but in async mode some steps later; and without servers nobody would.
    """
    gradients = [
        (number, place, parameter.grad)
        for number, group in enumerate(optimizer.param_groups)
        for place, parameter in enumerate(group["params"])
        if parameter.grad is not None
    ]
    plain: list[tuple[int, int]] = []
    # One number from each device, which is NaN or infinite if any gradient's is: a look at each would cost a wait each.
    sums: dict[torch.device, list[torch.Tensor]] = defaultdict(list)
    for _, _, gradient in gradients:
        if gradient.is_cpu and gradient.dtype == torch.float32 and not gradient.is_sparse and gradient.is_contiguous():
            plain.append((gradient.data_ptr(), gradient.numel()))
        else:
            sums[gradient.device].append(gradient.detach().sum(dtype=torch.float32))
    if _core.all_finite(plain) and all(math.isfinite(torch.stack(parts).sum().item()) for parts in sums.values()):
        return
    for number, place, gradient in gradients:
        values = gradient.detach().coalesce().values() if gradient.is_sparse else gradient.detach()
        if not bool(torch.isfinite(values).all()):
            known = last_loss() if loss is None else loss
            told = "" if known is None else f" (the loss is {float(known)})"
            raise NonFiniteValues(
                f"worker {optimizer.worker}, step {optimizer.steps + 1}: the gradient of "
                f"{_name(optimizer, number, place)} holds a NaN or an infinity{told}; nothing of this step was applied"
            )


def _name(optimizer: DistributedOptimizer, number: int, place: int) -> str:
    group = optimizer.param_groups[number]
    parameter = group["params"][place]
    if isinstance(parameter, TableParameter):
        return f"table {parameter.options.name!r}"
    if names := group.get("param_names"):
        return f"parameter {names[place]!r}"
    return f"parameter {place} of group {number} (shape {list(parameter.shape)})"
