"""The factory of 1.7 and 1.8, and the settings that its strategies hand out and take back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from flota import checks
from flota.errors import InvalidArgument
from flota.strategy.distributed import A_SYNC_DEFAULTS, DistributedStrategy
from flota.strategy.modes import Async, Geo, Mode, Sync
from flota.strategy.transpiler import DistributeTranspilerConfig

_PREFIX = "communicator_"
# 1.x calls the settings of sending so; the rest of the name is that of 2.x.
_SETTINGS = (
    "max_merge_var_num",
    "send_queue_size",
    "independent_recv_thread",
    "min_send_grad_num_before_recv",
    "thread_pool_size",
    "send_wait_times",
)
_REFUSED = {
    "communicator_is_sgd_optimizer": "servers apply the optimizer's own rule, whichever it is",
    "rpc_deadline": "set FLOTA_TIMEOUT to the seconds that a call may take",
    "rpc_retry_times": "calls are repeated until their deadline, FLOTA_TIMEOUT",
}


class TrainerRuntimeConfig:
    """How a trainer sends: ``runtime_configs`` is a dictionary that may be written to."""

    def __init__(self) -> None:
        self.runtime_configs: dict[str, Any] = {_PREFIX + name: A_SYNC_DEFAULTS[name] for name in _SETTINGS}

    def get_communicator_flags(self) -> dict[str, str]:
        return {name: str(int(value)) for name, value in self.runtime_configs.items()}

    def __repr__(self) -> str:
        return f"TrainerRuntimeConfig({self.runtime_configs})"


class FactoryStrategy(DistributedStrategy):
    """A strategy of 1.x: its mode is settled; how parameters are spread and how they are sent may be changed."""

    def get_program_config(self) -> DistributeTranspilerConfig:
        """What is in effect. Give it back by ``set_program_config`` after changes."""
        config = DistributeTranspilerConfig()
        mode = self.mode
        config.sync_mode = isinstance(mode, Sync)
        config.half_async = isinstance(mode, Async) and mode.max_staleness == 0
        if isinstance(mode, Geo):
            config.geo_sgd_mode = True
            config.geo_sgd_need_push_nums = mode.k_steps
        for name in ("split_method", "slice_var_up", "min_block_size"):
            setattr(config, name, getattr(self, name))
        return config

    def set_program_config(self, config: DistributeTranspilerConfig | Mapping[str, Any]) -> None:
        if not isinstance(config, DistributeTranspilerConfig):
            changes, config = _dictionary("set_program_config", config), self.get_program_config()
            for name, value in changes.items():
                setattr(config, name, value)
        mode = config.training
        if type(mode) is not type(self.mode) or _staleness(mode) != _staleness(self.mode):
            raise InvalidArgument(
                f"this strategy trains in {self.mode.name} mode, the configuration says {mode.name}: use another of "
                "StrategyFactory's strategies"
            )
        if isinstance(mode, Geo) and isinstance(self.mode, Geo):
            self.mode = replace(self.mode, k_steps=mode.k_steps)
        for name in ("split_method", "slice_var_up", "min_block_size"):
            setattr(self, name, getattr(config, name))

    def get_trainer_runtime_config(self) -> TrainerRuntimeConfig:
        """What is in effect. Give it back by ``set_trainer_runtime_config`` after changes."""
        config = TrainerRuntimeConfig()
        config.runtime_configs = {_PREFIX + name: getattr(self.mode, name, A_SYNC_DEFAULTS[name]) for name in _SETTINGS}
        return config

    def set_trainer_runtime_config(self, config: TrainerRuntimeConfig | Mapping[str, Any]) -> None:
        given = config.runtime_configs if isinstance(config, TrainerRuntimeConfig) else config
        acting = {field.name for field in fields(self.mode)}
        changes: dict[str, Any] = {}
        for key, value in _dictionary("set_trainer_runtime_config", given).items():
            name = key.removeprefix(_PREFIX)
            if key in _REFUSED:
                raise InvalidArgument(f"{key}={value!r} has no effect: {_REFUSED[key]}")
            if name not in _SETTINGS or name == key:
                raise checks.unknown("TrainerRuntimeConfig", key, [_PREFIX + known for known in _SETTINGS])
            number = _value(name, value)
            if name in acting:
                changes[name] = number
            elif number != A_SYNC_DEFAULTS[name]:
                raise InvalidArgument(f"{key}={value!r} has no effect in {self.mode.name} mode; leave it out")
        kept = {name: getattr(self.mode, name) for name in acting}
        self.mode = type(self.mode)(**{**kept, **changes})


def _staleness(mode: Mode) -> int | None:
    return mode.max_staleness if isinstance(mode, Async) else None


def _dictionary(name: str, given: object) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise InvalidArgument(f"{name} takes a dictionary or its configuration, not {given!r}")
    return dict(given)


def _value(name: str, value: object) -> int | bool:
    """1.x writes them as numbers or as text."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    if name == "independent_recv_thread":
        return checks.flag(name, bool(value) if value in (0, 1) else value)
    return checks.whole(name, value, 0, 1 << 20)


class StrategyFactory:
    """The factory of 1.7 and 1.8."""

    @staticmethod
    def create_sync_strategy() -> FactoryStrategy:
        return FactoryStrategy(Sync())

    @staticmethod
    def create_async_strategy() -> FactoryStrategy:
        return FactoryStrategy(Async())

    @staticmethod
    def create_half_async_strategy() -> FactoryStrategy:
        """Gradients are applied as they arrive, not averaged, and yet no worker runs ahead of another: in Fleet workers
        meet after each batch. That is ``Async`` without staleness."""
        return FactoryStrategy(Async(max_staleness=0))

    @staticmethod
    def create_geo_strategy(update_frequency: int = 100) -> FactoryStrategy:
        return FactoryStrategy(Geo(k_steps=update_frequency))
