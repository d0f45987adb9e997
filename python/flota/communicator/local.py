"""Training in one process: rows in tables of its own, everything else as torch does it."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from flota import _core
from flota.communicator.optimizer import DistributedOptimizer
from flota.communicator.rows import TrainedRows, step_here, train_rows
from flota.communicator.stores import LocalStore
from flota.nn.table import TableOptions
from flota.rules import Rule
from flota.workers import Epoch, GoesOn, Where


class LocalCommunicator:
    """Tables in this process; the wrapped optimizer steps the dense parameters itself.

    ``any_optimizer``: also one that no server rule stands for, as in Geo mode.
    """

    steps_wrapped: ClassVar[bool] = True

    def __init__(self, optimizer: DistributedOptimizer, any_optimizer: bool = False) -> None:
        self._rows: dict[str, TrainedRows] = {}
        stores: dict[str, LocalStore] = {}

        def make(options: TableOptions) -> Callable[[Rule], _core.SparseTable]:
            def table(rule: Rule) -> _core.SparseTable:
                stores[options.name] = LocalStore(options, rule)
                return stores[options.name].table

            return table

        # Handles of one name, such as those of a copied model, share one table.
        for handle, group in optimizer.tables():
            options = handle.options
            if options.name not in stores:
                self._rows[options.name] = train_rows(options, optimizer, group, any_optimizer, make(options))
            handle.store = stores[options.name]

    def step(self, optimizer: DistributedOptimizer) -> None:
        step_here(optimizer, self._rows)

    returning = False

    def skip(self) -> None:
        """What this process had is gone with it."""

    def begin_epoch(self, epoch: Epoch) -> GoesOn | bool:
        return True

    def end_epoch(self, epoch: Epoch) -> None:
        """Nobody asks."""

    def where(self) -> Where | None:
        return None

    def saved(self, place: str) -> None:
        """What this process had is gone with it."""

    def stepped(self) -> None:
        """The one worker of its job does not leave."""

    def pause(self) -> None:
        """There is nobody to wait for."""

    def resume(self) -> None:
        """Nor has anybody changed anything."""

    def idle(self) -> None:
        """There is nobody to wait for."""

    def applied(self, steps: int) -> int:
        return steps

    def settle(self) -> None:
        """Steps are applied when they return."""

    def check_whole(self) -> None:
        """The tables are this process's own."""

    def loaded(self, optimizer: DistributedOptimizer) -> None:
        """The tables are this process's own, and the optimizer counts the steps."""
