"""Strategies as Fleet 1.x writes them; each becomes a ``DistributedStrategy``."""

from __future__ import annotations

from typing import ClassVar

from flota import checks
from flota.errors import InvalidArgument
from flota.strategy.distributed import (
    MIN_BLOCK_SIZE,
    SPLITS_ALWAYS,
    Checks,
    DistributedStrategy,
    Options,
    SplitMethod,
    check_block_size,
    check_split_method,
)
from flota.strategy.modes import Async, Geo, Sync


def _check_runtime_split(name: str, value: object) -> bool:
    if checks.flag(name, value):
        raise InvalidArgument(f"{name}=True has no effect: {SPLITS_ALWAYS}")
    return False


def _check_wait_port(name: str, value: object) -> bool:
    if not checks.flag(name, value):
        raise InvalidArgument(f"{name}=False has no effect: init_worker always waits for its servers, up to a deadline")
    return True


class DistributeTranspilerConfig(Options):
    """The settings of 1.x: ``sync_mode`` is ``Sync()`` or ``Async()``, the rest is as in ``DistributedStrategy``.

    ``runtime_split_send_recv`` and ``wait_port`` are there with what they always are: False as 1.x has it, and True.
    """

    sync_mode: bool
    split_method: SplitMethod
    slice_var_up: bool
    min_block_size: int
    runtime_split_send_recv: bool
    wait_port: bool

    _checks: ClassVar[Checks] = {
        "sync_mode": checks.flag,
        "split_method": check_split_method,
        "slice_var_up": checks.flag,
        "min_block_size": check_block_size,
        "runtime_split_send_recv": _check_runtime_split,
        "wait_port": _check_wait_port,
    }

    def __init__(self) -> None:
        self.sync_mode = True
        self.split_method = "RoundRobin"
        self.slice_var_up = True
        self.min_block_size = MIN_BLOCK_SIZE
        self.runtime_split_send_recv = False
        self.wait_port = True

    def as_strategy(self) -> DistributedStrategy:
        return DistributedStrategy(
            Sync() if self.sync_mode else Async(),
            split_method=self.split_method,
            slice_var_up=self.slice_var_up,
            min_block_size=self.min_block_size,
        )

    def __repr__(self) -> str:
        return f"DistributeTranspilerConfig({', '.join(f'{name}={getattr(self, name)!r}' for name in self._checks)})"


class StrategyFactory:
    """The factory of 1.7 and 1.8."""

    @staticmethod
    def create_sync_strategy() -> DistributedStrategy:
        return DistributedStrategy(Sync())

    @staticmethod
    def create_async_strategy() -> DistributedStrategy:
        return DistributedStrategy(Async())

    @staticmethod
    def create_half_async_strategy() -> DistributedStrategy:
        """Gradients are applied as they arrive, not averaged, and yet no worker runs ahead of another: in Fleet workers
        meet after each batch. That is ``Async`` without staleness."""
        return DistributedStrategy(Async(max_staleness=0))

    @staticmethod
    def create_geo_strategy(update_frequency: int = 100) -> DistributedStrategy:
        return DistributedStrategy(Geo(k_steps=update_frequency))
