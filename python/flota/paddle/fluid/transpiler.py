"""``fluid.transpiler``: the strategy of 1.x."""

from flota.strategy.transpiler import DistributeTranspilerConfig, StrategyFactory

__all__ = ["DistributeTranspilerConfig", "StrategyFactory"]
