"""The settings of Fleet 1.x; they become a ``DistributedStrategy``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from flota import checks
from flota.errors import InvalidArgument
from flota.strategy.distributed import (
    MIN_BLOCK_SIZE,
    Checks,
    DistributedStrategy,
    Options,
    SplitMethod,
    check_block_size,
    check_split_method,
)
from flota.strategy.modes import Async, Geo, Mode, Sync

GEO_STEPS = 100
_COLLECTIVE = "flota trains with parameter servers; use torch DDP for collectives"


def _only(default: object, reason: str) -> Callable[[str, object], object]:
    """The check of a setting that can have no other value than its default."""

    def check(name: str, value: object) -> object:
        if value != default or isinstance(value, bool) is not isinstance(default, bool):
            raise InvalidArgument(f"{name}={value!r} has no effect: {reason}")
        return value

    return check


def _check_steps(name: str, value: object) -> int:
    return checks.whole(name, value, 1, (1 << 31) - 1)


# Settings of 1.x that mean nothing here, with the values that pass.
_FIXED: Mapping[str, tuple[object, str]] = {
    "wait_port": (True, "init_worker always waits for its servers, up to a deadline"),
    "enable_dc_asgd": (False, "gradients are not corrected for their delay; bound it: Async(max_staleness=…)"),
    "mode": ("pserver", _COLLECTIVE),
    "print_log": (False, "worker 0 prints what is in effect in any case"),
    "nccl_comm_num": (1, _COLLECTIVE),
    "use_hierarchical_allreduce": (False, _COLLECTIVE),
    "hierarchical_allreduce_inter_nranks": (0, _COLLECTIVE),
    "collective_mode": (None, _COLLECTIVE),
}


class DistributeTranspilerConfig(Options):
    """The settings of 1.x. How a job trains is said by several flags, which become one mode:

    - ``sync_mode``, or ``completely_not_async``: ``Sync()``;
    - ``geo_sgd_mode``: ``Geo(geo_sgd_need_push_nums)``;
    - ``half_async``: ``Async(max_staleness=0)``;
    - none of them: ``Async()``.

    ``sync_mode`` is True unless it is set, and goes with none of the others. ``runtime_split_send_recv=True`` is what
    always happens, and as in 1.x not together with ``sync_mode``. The rest is as in ``DistributedStrategy``.
    """

    sync_mode: bool
    half_async: bool
    completely_not_async: bool
    geo_sgd_mode: bool
    geo_sgd_need_push_nums: int
    split_method: SplitMethod
    slice_var_up: bool
    min_block_size: int
    runtime_split_send_recv: bool

    _checks: ClassVar[Checks] = {
        "sync_mode": checks.flag,
        "half_async": checks.flag,
        "completely_not_async": checks.flag,
        "geo_sgd_mode": checks.flag,
        "geo_sgd_need_push_nums": _check_steps,
        "split_method": check_split_method,
        "slice_var_up": checks.flag,
        "min_block_size": check_block_size,
        "runtime_split_send_recv": checks.flag,
        **{name: _only(default, reason) for name, (default, reason) in _FIXED.items()},
    }

    def __init__(self) -> None:
        self.sync_mode = True
        self.half_async = False
        self.completely_not_async = False
        self.geo_sgd_mode = False
        self.geo_sgd_need_push_nums = GEO_STEPS
        self.split_method = "RoundRobin"
        self.slice_var_up = True
        self.min_block_size = MIN_BLOCK_SIZE
        self.runtime_split_send_recv = False
        for name, (default, _) in _FIXED.items():
            setattr(self, name, default)

    @property
    def training(self) -> Mode:
        """The mode that the flags mean together. Not looked at before they are used: scripts set them one by one."""
        others = ("half_async", "completely_not_async", "geo_sgd_mode", "runtime_split_send_recv")
        said = [name for name in others if getattr(self, name)]
        if self.sync_mode and said:
            raise InvalidArgument(f"{said[0]}=True contradicts sync_mode=True: set sync_mode = False as well")
        if self.geo_sgd_mode and (self.half_async or self.completely_not_async):
            raise InvalidArgument("geo_sgd_mode=True contradicts half_async and completely_not_async: set one of them")
        if not self.geo_sgd_mode and self.geo_sgd_need_push_nums != GEO_STEPS:
            raise InvalidArgument(
                f"geo_sgd_need_push_nums={self.geo_sgd_need_push_nums} has no effect without geo_sgd_mode = True"
            )
        if self.sync_mode or self.completely_not_async:
            return Sync()
        if self.geo_sgd_mode:
            return Geo(k_steps=self.geo_sgd_need_push_nums)
        return Async(max_staleness=0) if self.half_async else Async()

    def as_strategy(self) -> DistributedStrategy:
        """The same settings in the form of 2.x."""
        return DistributedStrategy(
            self.training,
            split_method=self.split_method,
            slice_var_up=self.slice_var_up,
            min_block_size=self.min_block_size,
        )

    def __repr__(self) -> str:
        shown = (name for name in self._checks if name not in _FIXED)
        return f"DistributeTranspilerConfig({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"
