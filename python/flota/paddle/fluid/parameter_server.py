"""What 1.x imports from ``incubate.fleet.parameter_server``: its fleet, and its strategies."""

from flota.paddle.fluid import job as fleet
from flota.strategy import DistributeTranspilerConfig, StrategyFactory
from flota.strategy.factory import TrainerRuntimeConfig

__all__ = ["DistributeTranspilerConfig", "StrategyFactory", "TrainerRuntimeConfig", "fleet"]
