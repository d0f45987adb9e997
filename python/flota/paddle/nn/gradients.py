"""``paddle.grad`` and ``paddle.no_grad``."""

from __future__ import annotations

from typing import Any

import torch

from flota.errors import InvalidArgument
from flota.paddle.tensor import Tensor

# A context and a decorator. Recording a program takes no notice of it: its variables have ``stop_gradient``.
no_grad = torch.no_grad


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool = False,
    no_grad_vars: Any = None,
) -> list[Tensor | None]:
    """The gradients of the sum of ``outputs`` by each of ``inputs``; other tensors get none."""
    if not only_inputs:
        raise InvalidArgument("grad: only_inputs=False is not known; loss.backward() gives all tensors gradients")
    if _listed(no_grad_vars):
        raise InvalidArgument("grad: no_grad_vars is not known here; detach() those tensors where they are used")
    results, sources = _listed(outputs), _listed(inputs)
    given = _listed(grad_outputs) or [None] * len(results)
    if len(given) != len(results):
        raise InvalidArgument(f"grad: there are {len(results)} outputs and {len(given)} grad_outputs")
    if not all(isinstance(each, Tensor) for each in [*results, *sources]):
        raise InvalidArgument("grad takes eager tensors; of a program, optimizers know the gradients")
    starts = [
        torch.ones_like(result.value) if start is None else start.value
        for result, start in zip(results, given, strict=True)
    ]
    try:
        found = torch.autograd.grad(
            [each.value for each in results],
            [each.value for each in sources],
            starts,
            retain_graph=create_graph if retain_graph is None else retain_graph,
            create_graph=create_graph,
            allow_unused=allow_unused,
        )
    except RuntimeError as error:
        raise InvalidArgument(f"grad: {error}") from error
    gradients: list[torch.Tensor | None] = list(found)
    return [None if each is None else Tensor(each) for each in gradients]


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple, set)) else [value]
