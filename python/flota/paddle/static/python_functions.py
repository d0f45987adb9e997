"""``paddle.static.py_func``: a function of the script's as an operation of a program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from flota.errors import InvalidArgument
from flota.paddle.graph.program import default_main_program
from flota.paddle.graph.variable import Variable
from flota.paddle.jagged import Jagged
from flota.paddle.ops.registry import operation
from flota.paddle.tensor import Tensor


@dataclass(frozen=True)
class _Call:
    """What is called forward and backward. ``kinds``: types of the results. ``shown``: places of those among inputs and
    results that the backward function is given, before the gradients of the results."""

    forward: Callable[..., Any]
    backward: Callable[..., Any] | None
    kinds: tuple[torch.dtype, ...]
    shown: tuple[int, ...]

    def run(self, inputs: Sequence[torch.Tensor | Jagged]) -> tuple[torch.Tensor, ...]:
        with torch.no_grad():
            found = _listed(self.forward(*map(Tensor, inputs)))
        if len(found) != len(self.kinds):
            raise InvalidArgument(
                f"py_func: {self.forward!r} returned {len(found)} values for {len(self.kinds)} in out"
            )
        return tuple(_tensor(value).to(kind) for value, kind in zip(found, self.kinds, strict=True))


class _Differentiable(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, call: _Call, *inputs: torch.Tensor) -> Any:
        results = call.run(inputs)
        ctx.call = call
        ctx.save_for_backward(*inputs, *results)
        ctx.set_materialize_grads(True)
        return results

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        call: _Call = ctx.call
        shown = [ctx.saved_tensors[place] for place in call.shown]
        inputs = ctx.saved_tensors[: len(ctx.saved_tensors) - len(call.kinds)]
        assert call.backward is not None
        found = _listed(call.backward(*map(Tensor, [*shown, *gradients])))
        if len(found) != len(inputs):
            raise InvalidArgument(f"py_func: {call.backward!r} returned {len(found)} gradients for {len(inputs)} in x")
        made = (None if each is None else _tensor(each) for each in found)
        return None, *(None if each is None else each.to(x.dtype) for each, x in zip(made, inputs, strict=True))


@operation(known_as="py_func", sequences=True, effect=True)
def _py_func(call: _Call, x: Sequence[torch.Tensor | Jagged]) -> list[torch.Tensor]:
    if call.backward is None:
        return list(call.run(x))
    return list(_Differentiable.apply(call, *x))  # type: ignore[no-untyped-call]


def py_func(
    func: Callable[..., Any],
    x: Any,
    out: Any,
    backward_func: Callable[..., Any] | None = None,
    skip_vars_in_backward_input: Any = None,
) -> Any:
    """Calls ``func`` with the values of ``x`` in each run, as tensors; what it returns goes to the variables ``out``,
    made by ``create_var``. ``backward_func`` is given ``x``, ``out`` but for the skipped ones, and the gradients of
    ``out``, and returns those of ``x``. Without it no gradient flows."""
    for each in (func, backward_func):
        if each is not None and not callable(each):
            raise InvalidArgument(f"py_func: {each!r} is no function")
    inputs, results, skipped = _listed(x), _listed(out), _listed(skip_vars_in_backward_input)
    if not all(isinstance(each, Variable) for each in [*inputs, *results, *skipped]):
        raise InvalidArgument("py_func: x, out and skip_vars_in_backward_input are variables, or lists of them")
    if skipped and backward_func is None:
        raise InvalidArgument("py_func: skip_vars_in_backward_input without backward_func would have no effect")
    if backward_func is not None and any(each.lod_level for each in [*inputs, *results]):
        raise InvalidArgument("py_func: backward_func takes no sequences: pool them before")
    everything = [each.name for each in [*inputs, *results]]
    if strange := [each.name for each in skipped if each.name not in everything]:
        raise InvalidArgument(f"py_func: skipped {', '.join(strange)} is neither in x nor in out")
    names = {each.name for each in skipped}
    shown = tuple(place for place, name in enumerate(everything) if name not in names)
    call = _Call(func, backward_func, tuple(each.dtype for each in results), shown)
    default_main_program().record_into("py_func", {"call": call, "x": inputs}, results)
    return out


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _tensor(value: Any) -> torch.Tensor:
    return value.value if isinstance(value, Tensor) else torch.as_tensor(np.asarray(value))
