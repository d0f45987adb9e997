"""How a job trains: a ``DistributedStrategy``, in flota's typed form or in Fleet's.

    DistributedStrategy(Geo(k_steps=100))              # the type checker sees a typo

    strategy = DistributedStrategy()                   # the assignment sees it
    strategy.a_sync = True
    strategy.a_sync_configs = {"k_steps": 100}

Every option acts or is refused with a reason. ``DistributeTranspilerConfig`` and ``StrategyFactory`` are Fleet 1.x's.
"""

from __future__ import annotations

from flota.errors import InvalidArgument
from flota.strategy.distributed import A_SYNC_DEFAULTS, DistributedStrategy
from flota.strategy.factory import StrategyFactory
from flota.strategy.modes import Async, Geo, Mode, Sync
from flota.strategy.transpiler import DistributeTranspilerConfig

__all__ = [
    "A_SYNC_DEFAULTS",
    "Async",
    "DistributeTranspilerConfig",
    "DistributedStrategy",
    "Geo",
    "Mode",
    "StrategyFactory",
    "Sync",
    "as_strategy",
]


def as_strategy(value: DistributedStrategy | Mode | DistributeTranspilerConfig | None) -> DistributedStrategy:
    """A strategy from whatever stands for one; None is a ``DistributedStrategy()`` with nothing set."""
    if isinstance(value, DistributedStrategy):
        return value
    if isinstance(value, DistributeTranspilerConfig):
        return value.as_strategy()
    if value is None or isinstance(value, Mode):
        return DistributedStrategy(value)
    raise InvalidArgument(f"a strategy must be a DistributedStrategy, Sync(…), Async(…) or Geo(…), not {value!r}")
