"""Scopes: where the values of a program's parameters live between its runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from flota.communicator.contents import all_rows, assign, begin_anew, first_rows, spec_of
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
        self.device = torch.device("cpu")
        self.table_rows: dict[str, int] = {}  # of tables whose ids have an end

    def move_to(self, device: torch.device) -> None:
        """What it has is there from now on, and so is what is added."""
        if device == self.device:
            return
        for name, value in self.values.items():
            if isinstance(value, torch.nn.Parameter):
                value.data = value.data.to(device)
            else:
                self.values[name] = value.to(device)
        self.device = device

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
        self.given.add(name)
        if isinstance(held, TableParameter):
            self._set_rows(name, held, value)
        elif held is not None and held.shape == value.shape and held.dtype == value.dtype:
            with torch.no_grad():
                held.copy_(value)
        elif isinstance(held, torch.nn.Parameter) and held.shape != value.shape:
            raise InvalidArgument(f"{name!r} has the shape {list(held.shape)}, not {list(value.shape)}")
        else:
            self.values[name] = value.detach().clone().to(self.device)

    def _set_rows(self, name: str, table: TableParameter, rows: torch.Tensor) -> None:
        if name in self.served:
            raise InvalidArgument(
                f"{name!r} is a table on the servers, which other workers train: set it before fleet.init_worker(), or "
                "bring a saved one by fleet.load_model"
            )
        count = self.table_rows.get(name, len(rows))
        if rows.dim() != 2 or rows.shape[0] > count or rows.shape[1] != table.options.dim:
            raise InvalidArgument(
                f"{name!r} is a table of {count} rows of {table.options.dim}, and cannot be set to {list(rows.shape)}"
            )
        values = rows.to(torch.float32).numpy()
        begin_anew(table.bound())
        # Rows that follow from their ids take up no space.
        keys = np.nonzero((values != first_rows(spec_of(table.bound()), np.arange(len(values)))).any(axis=1))[0]
        assign(table.bound(), keys, values[keys])

    def read(self, name: str) -> torch.Tensor:
        """The value; of a table, all rows that it has or would begin with."""
        held = self.values[name]
        if not isinstance(held, TableParameter):
            return held.detach()
        if name not in self.table_rows:
            raise InvalidArgument(
                f"{name!r} is a table whose ids are any numbers, and has no end: look rows up by a program, or save it"
            )
        store = held.bound()
        rows = first_rows(spec_of(store), np.arange(self.table_rows[name]))
        keys, trained = all_rows(store)
        rows[keys] = trained
        return torch.from_numpy(rows)


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

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array: np.ndarray = self._scope.read(self._name).cpu().numpy().copy()
        return array if dtype is None else array.astype(dtype)

    def numpy(self) -> np.ndarray:
        return self.__array__()

    def shape(self) -> list[int]:
        return list(self._scope.read(self._name).shape)

    _get_dims = shape

    def _dtype(self) -> torch.dtype:
        held = self._scope.values[self._name]
        return torch.float32 if isinstance(held, TableParameter) else held.dtype

    def _is_initialized(self) -> bool:
        held = self._scope.values[self._name]
        return isinstance(held, TableParameter) or self._name in self._scope.given or held.numel() > 0

    def lod(self) -> list[list[int]]:
        return []

    def recursive_sequence_lengths(self) -> list[list[int]]:
        return []

    def set_lod(self, lod: Any) -> None:
        """What stays from run to run is no sequence."""
        if lod:
            raise InvalidArgument(f"{self._name!r} cannot hold sequences: feed them, as (values, offsets)")

    set_recursive_sequence_lengths = set_lod

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
