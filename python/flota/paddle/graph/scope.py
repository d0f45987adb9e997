"""Scopes: where the values of a program's parameters live between its runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from flota.errors import InvalidArgument
from flota.nn.table import TableParameter

Held = torch.Tensor | TableParameter


class Scope:
    """Values by variable. A tensor keeps its identity when it is set, for optimizers know it."""

    def __init__(self) -> None:
        self.values: dict[str, Held] = {}
        self.trainers: dict[Any, Any] = {}  # by what they train
        self.given: set[str] = set()  # what has its first value
        self.served: set[str] = set()  # what servers hold: its first value is not this process's to give

    def initialised(self, variables: Iterable[Any]) -> bool:
        """Whether all of these were given their first value."""
        return all(variable.name in self.given or variable.attributes.table for variable in variables)

    def find_var(self, name: str) -> ScopeVariable | None:
        return ScopeVariable(self, name) if name in self.values else None

    def var(self, name: str) -> ScopeVariable:
        """The same; made if it is not there."""
        if name not in self.values:
            self.values[name] = torch.empty(0)
        return ScopeVariable(self, name)

    def local_var_names(self) -> list[str]:
        return sorted(self.values)

    def drop_kids(self) -> None:
        """There are none."""

    def set(self, name: str, value: torch.Tensor) -> None:
        held = self.values.get(name)
        if isinstance(held, TableParameter):
            rows = torch.arange(len(value))
            held.bound().assign(rows, value)  # type: ignore[attr-defined]
        elif held is not None and held.shape == value.shape and held.dtype == value.dtype:
            with torch.no_grad():
                held.copy_(value)
        elif isinstance(held, torch.nn.Parameter) and held.shape != value.shape:
            raise InvalidArgument(f"{name!r} has the shape {list(held.shape)}, not {list(value.shape)}")
        else:
            self.values[name] = value.detach().clone()


class ScopeVariable:
    """One of a scope's variables."""

    def __init__(self, scope: Scope, name: str) -> None:
        self._scope = scope
        self.name = name

    def get_tensor(self) -> ScopeTensor:
        return ScopeTensor(self._scope, self.name)

    def set(self, value: Any, place: Any = None) -> None:
        self.get_tensor().set(value, place)


class ScopeTensor:
    """Reads and sets a variable's value as an array."""

    def __init__(self, scope: Scope, name: str) -> None:
        self._scope = scope
        self._name = name

    def set(self, value: Any, place: Any = None) -> None:
        self._scope.set(self._name, torch.as_tensor(np.asarray(value)))

    def _held(self) -> torch.Tensor:
        held = self._scope.values[self._name]
        if isinstance(held, TableParameter):
            raise InvalidArgument(f"{self._name!r} is a table: read its rows by flota.nn")
        return held

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array: np.ndarray = self._held().detach().cpu().numpy().copy()
        return array if dtype is None else array.astype(dtype)

    def numpy(self) -> np.ndarray:
        return self.__array__()

    def shape(self) -> list[int]:
        return list(self._held().shape)

    def lod(self) -> list[list[int]]:
        return []

    def __str__(self) -> str:
        return str(self.__array__())


class _Current:
    scope = Scope()


def global_scope() -> Scope:
    return _Current.scope


@contextmanager
def scope_guard(scope: Scope) -> Iterator[None]:
    """Inside, this is the scope that programs run in."""
    before, _Current.scope = _Current.scope, scope
    try:
        yield
    finally:
        _Current.scope = before
