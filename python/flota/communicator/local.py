"""Training in one process: rows in tables of its own, everything else as torch does it."""

from __future__ import annotations

from collections.abc import Callable

from flota import _core
from flota.communicator.optimizer import DistributedOptimizer
from flota.communicator.rows import step_here, train_rows
from flota.communicator.stores import LocalStore
from flota.nn.table import TableParameter
from flota.rules import Rule


class LocalCommunicator:
    """Tables in this process; the wrapped optimizer steps the dense parameters itself.

    ``any_optimizer``: also one that no server rule stands for, as in Geo mode.
    """

    def __init__(self, optimizer: DistributedOptimizer, any_optimizer: bool = False) -> None:
        self._rows = {
            handle.options.name: train_rows(
                handle.options, optimizer.wrapped, group, any_optimizer, _table_maker(handle)
            )
            for handle, group in optimizer.tables()
        }

    def step(self, optimizer: DistributedOptimizer) -> None:
        step_here(optimizer, self._rows)

    def pause(self) -> None:
        """There is nobody to wait for."""

    def resume(self) -> None:
        """Nor has anybody changed anything."""

    def settle(self) -> None:
        """Steps are applied when they return."""

    def loaded(self, optimizer: DistributedOptimizer) -> None:
        """The tables are this process's own, and the optimizer counts the steps."""


def _table_maker(handle: TableParameter) -> Callable[[Rule], _core.SparseTable]:
    def make(rule: Rule) -> _core.SparseTable:
        store = LocalStore(handle.options, rule)
        handle.store = store
        return store.table

    return make
