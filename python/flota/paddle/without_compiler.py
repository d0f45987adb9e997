"""Scripts begin a second earlier without torch's compiler, which some of torch's functions load when first called.

They do so only to be left out of what it compiles; programs are compiled by nobody but us. What is here leans on names
that torch keeps for itself, and does nothing where they are missing.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from functools import cache
from types import FunctionType
from typing import Any

import torch

# A function that has this attribute runs what it holds, and asks nobody.
_MARK = "__dynamo_disable"


@cache
def spare_shapes() -> None:
    """Shapes are found without the compiler. Called before operations on tensors without numbers."""
    if "torch._dynamo" not in sys.modules:
        _mark(_shape_functions())


@cache
def spare_optimizers() -> None:
    """Optimizers are made without the compiler."""
    if "torch._dynamo" not in sys.modules:
        _mark(iter((torch.optim.Optimizer.add_param_group, torch.optim.Optimizer.zero_grad)))


def step_of(optimizer: torch.optim.Optimizer) -> Callable[..., Any]:
    """The optimizer's step, without what torch wraps around it for its compiler, its profiler and hooks, none of which
    a script of this front end can reach."""
    plain = inspect.unwrap(type(optimizer).step)

    @torch.no_grad()
    def step(closure: Any = None) -> Any:
        return plain(optimizer, closure)

    return step


def _shape_functions() -> Iterator[Any]:
    """torch's functions that are written in Python, of which it has one for the shapes of most operations."""
    for table in getattr(sys.modules.get("torch._decomp"), "global_decomposition_table", {}).values():
        yield from list(table.values())
    for name, module in list(sys.modules.items()):
        if name.startswith(("torch._refs", "torch._prims")):
            yield from list(vars(module).values())


def _mark(functions: Iterator[Any]) -> None:
    """Marks them, and what they are wrapped around."""
    seen: set[int] = set()
    stack = list(functions)
    while stack:
        function = stack.pop()
        if not isinstance(function, FunctionType) or id(function) in seen:
            continue
        seen.add(id(function))
        function.__dict__.setdefault(_MARK, function)
        stack.append(getattr(function, "__wrapped__", None))
        for cell in function.__closure__ or ():
            try:
                stack.append(cell.cell_contents)
            except ValueError:  # nothing is in it yet
                continue
