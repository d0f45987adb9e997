"""``fluid.transpiler``: the settings of 1.x."""

from __future__ import annotations

from typing import Any

from flota.errors import InvalidArgument
from flota.strategy import DistributeTranspilerConfig

__all__ = ["DistributeTranspiler", "DistributeTranspilerConfig", "HashName", "RoundRobin"]

# What config.split_method takes.
RoundRobin = "RoundRobin"
HashName = "HashName"


class DistributeTranspiler:
    """Cut a program into one for trainers and one for each pserver. No program is cut here: fleet does without."""

    def __init__(self, *_arguments: Any, **_settings: Any) -> None:
        raise InvalidArgument(
            "flota has no DistributeTranspiler: use fleet of "
            "paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler, whose "
            "fleet.distributed_optimizer(optimizer, config).minimize(loss) takes the same DistributeTranspilerConfig"
        )
