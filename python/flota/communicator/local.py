"""Training in one process: rows in tables of its own, everything else as torch does it."""

from __future__ import annotations

from contextlib import ExitStack

from flota.communicator.optimizer import DistributedOptimizer
from flota.communicator.stores import LocalStore
from flota.optim import rule_of


class LocalCommunicator:
    """Tables in this process; the wrapped optimizer steps the dense parameters itself."""

    def __init__(self, optimizer: DistributedOptimizer) -> None:
        self._stores: dict[str, LocalStore] = {}
        for handle, group in optimizer.tables():
            options = handle.options
            rule = options.rule or rule_of(optimizer.wrapped, group)
            handle.store = self._stores[options.name] = LocalStore(options, rule)

    def step(self, optimizer: DistributedOptimizer) -> None:
        with ExitStack() as hidden:
            for handle, group in optimizer.tables():
                gradient = handle.gradient()
                if gradient is not None:
                    lr = group["lr"] if handle.options.rule is None else handle.options.rule.lr
                    self._stores[handle.options.name].push(gradient, float(lr), optimizer.steps + 1)
                hidden.enter_context(handle.hidden())
            optimizer.wrapped.step()

    def pause(self) -> None:
        """There is nobody to wait for."""
