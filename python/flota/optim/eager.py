"""torch's optimizers without torch's compiler, in processes that compile nothing.

An optimizer of torch imports ``torch._dynamo`` when it is made and when it steps, only to tell it where not to trace:
830 modules, a second of computing and 70 MB for each process of a job. Here that is left out, until somebody imports
the compiler; then all is as torch has made it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from types import CodeType
from typing import Any, Protocol, TypeGuard, runtime_checkable

import torch

_COMPILER = "torch._dynamo"
# Where torch keeps what the compiler made of such a method. Of another torch, which looks elsewhere, nothing changes.
_KEPT = "__dynamo_disable"


@runtime_checkable
class _Wrapper(Protocol):
    __wrapped__: Callable[..., Any]
    __globals__: dict[str, Any]
    __code__: CodeType

    def __call__(self, *arguments: Any, **named: Any) -> Any: ...


def leave_out_the_compiler() -> None:
    """From here on, unless the process has it already. What is computed stays the same."""
    if _COMPILER in sys.modules:
        return
    undo: list[Callable[[], None]] = []
    for method in vars(torch.optim.Optimizer).values():
        if _is_made_in(method, "torch._compile", "inner") and not hasattr(method.__wrapped__, _KEPT):
            setattr(method.__wrapped__, _KEPT, method.__wrapped__)
            undo.append(functools.partial(delattr, method.__wrapped__, _KEPT))
    for kind in vars(torch.optim).values():
        if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer):
            step = vars(kind).get("step")
            if _is_made_in(step, "torch.optim.optimizer", "_use_grad"):
                kind.step = _step(step)  # type: ignore[method-assign]
                undo.append(functools.partial(_put_back, kind, step))
    sys.meta_path.insert(0, _Watch(undo))


class _Watch(MetaPathFinder):
    """Finds no module; it is told of each that is looked for, and so of the compiler before that is there."""

    def __init__(self, undo: list[Callable[[], None]]) -> None:
        self._undo = undo

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        if name == _COMPILER:
            while self._undo:
                self._undo.pop()()


def _is_made_in(method: object, module: str, name: str) -> TypeGuard[_Wrapper]:
    """Whether it is the function of this name that a decorator of the module returns."""
    return isinstance(method, _Wrapper) and method.__globals__["__name__"] == module and method.__code__.co_name == name


def _step(step: _Wrapper) -> Callable[..., Any]:
    """What ``_use_grad_for_differentiable`` of torch makes of a step, but for breaks in a graph that is not there."""
    within = step.__wrapped__

    @functools.wraps(step)
    def step_in_order(self: torch.optim.Optimizer, *arguments: Any, **named: Any) -> Any:
        if _COMPILER in sys.modules:  # of a subclass, which has taken this one with it
            return step(self, *arguments, **named)
        with torch.set_grad_enabled(self.defaults["differentiable"]):
            return within(self, *arguments, **named)

    return step_in_order


def _put_back(kind: type[torch.optim.Optimizer], step: Callable[..., Any]) -> None:
    """Where an optimizer of this kind has been made, torch has wrapped the step for hooks, once for all of its kind."""
    hooked = getattr(kind.step, "hooked", False)
    kind.step = kind.profile_hook_step(step) if hooked else step  # type: ignore[assignment]
    if hooked:
        kind.step.hooked = True  # type: ignore[attr-defined]
