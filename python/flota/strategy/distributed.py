"""``DistributedStrategy``: a mode, and how dense parameters are spread; typed, or by Fleet 2.x's names."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Any, ClassVar, Literal, get_args

from flota import checks
from flota.errors import InvalidArgument
from flota.strategy.modes import Async, Geo, Mode, Sync

SplitMethod = Literal["RoundRobin", "HashName"]
DenseDtype = Literal["float32", "bfloat16", "float16"]
Checks = Mapping[str, Callable[[str, object], object]]

MIN_BLOCK_SIZE = 8192
_MOST_STEPS = (1 << 31) - 1

# Fleet's settings and their defaults. -1 steps mean there that nobody has said; like 0, they are no Geo.
A_SYNC_DEFAULTS: Mapping[str, int | str] = {
    "k_steps": -1,
    "max_merge_var_num": 1,
    "send_queue_size": 16,
    "independent_recv_thread": False,
    "min_send_grad_num_before_recv": 1,
    "thread_pool_size": 1,
    "send_wait_times": 1,
    "runtime_split_send_recv": False,
    "launch_barrier": True,
    "heter_worker_device_guard": "cpu",
    "lr_decay_steps": 10,
    "use_ps_gpu": 0,
    "use_gpu_graph": 0,
}

_NO_HETER = "there are no heterogeneous workers here; put the model on a device with model.to(…)"
_NO_GPU_TABLES = "tables live in the servers' memory; workers on GPUs need no setting but model.to('cuda')"

# Settings that no mode carries: k_steps says which mode it is, and gradients are always split when they are sent.
_ALWAYS = ("k_steps", "runtime_split_send_recv")

# Settings that mean nothing in any mode: their defaults pass, as what Fleet would have them be anyway.
_MEANINGLESS = {
    "heter_worker_device_guard": _NO_HETER,
    "lr_decay_steps": "learning rates travel with each push; use a torch.optim.lr_scheduler",
    "use_ps_gpu": _NO_GPU_TABLES,
    "use_gpu_graph": _NO_GPU_TABLES,
}

_MODE_REASONS: Mapping[type[Mode], str] = {
    Sync: "a synchronous step sends and receives everything before it ends",
    Geo: "Geo trains locally and sends the difference of k_steps steps at once",
}


class Options:
    """Attributes that are checked when they are set; a name that is not among them is refused."""

    _checks: ClassVar[Checks]

    def __setattr__(self, name: str, value: object) -> None:
        if check := self._checks.get(name):
            value = check(name, value)
        elif not name.startswith("_") and name not in self._names():
            raise checks.unknown(type(self).__name__, name, self._names())
        after = {**vars(self), name: value}
        if after.get("slice_var_up") is False and after.get("min_block_size", MIN_BLOCK_SIZE) != MIN_BLOCK_SIZE:
            raise InvalidArgument(
                f"min_block_size={after['min_block_size']} has no effect with slice_var_up=False, which leaves every "
                "parameter whole; set one of them only"
            )
        object.__setattr__(self, name, value)

    @classmethod
    def _names(cls) -> set[str]:
        return {*cls._checks, *(name for name in dir(cls) if isinstance(getattr(cls, name), property))}


def check_split_method(name: str, value: object) -> SplitMethod:
    return checks.one_of(name, value, get_args(SplitMethod))


def check_block_size(name: str, value: object) -> int:
    return checks.whole(name, value, 1, 1 << 40)


class DistributedStrategy(Options):
    """How a job trains, and how its dense parameters are spread and sent.

    Without a mode, or anything set, training is asynchronous: Fleet's ``a_sync`` is True until it is set.

    - ``split_method``: which server gets a block: each in turn (``"RoundRobin"``) or by a hash of the block's
      name (``"HashName"``).
    - ``slice_var_up``: parameters are cut into blocks of at least ``min_block_size`` elements; False leaves them whole.
    - ``dense_dtype``: the precision in which dense parameters travel. Servers compute in float32 whatever it is.
    """

    split_method: SplitMethod
    slice_var_up: bool
    min_block_size: int
    dense_dtype: DenseDtype

    _checks: ClassVar[Checks] = {
        "split_method": check_split_method,
        "slice_var_up": checks.flag,
        "min_block_size": check_block_size,
        "dense_dtype": lambda name, value: checks.one_of(name, value, get_args(DenseDtype)),
    }

    def __init__(
        self,
        mode: Mode | None = None,
        *,
        split_method: SplitMethod = "RoundRobin",
        slice_var_up: bool = True,
        min_block_size: int = MIN_BLOCK_SIZE,
        dense_dtype: DenseDtype = "float32",
    ) -> None:
        self._mode: Mode = Async()
        self._configs: Mapping[str, int | str] = A_SYNC_DEFAULTS
        if mode is not None:
            self.mode = mode
        self.split_method = split_method
        self.slice_var_up = slice_var_up
        self.min_block_size = min_block_size
        self.dense_dtype = dense_dtype

    @property
    def mode(self) -> Mode:
        """How this job trains, as ``Sync``, ``Async`` or ``Geo``."""
        return self._mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        if not isinstance(mode, Mode):
            raise InvalidArgument(f"the mode must be Sync(…), Async(…) or Geo(…), not {mode!r}")
        self._mode = mode
        given = {field.name: getattr(mode, field.name) for field in fields(mode)}
        self._configs = {**A_SYNC_DEFAULTS, "k_steps": 0, **_fleets(given)}

    @property
    def a_sync(self) -> bool:
        """False: ``Sync``. True: ``Async``, or ``Geo`` if ``k_steps`` is set after it; setting this sets that to 0."""
        return not isinstance(self._mode, Sync)

    @a_sync.setter
    def a_sync(self, value: bool) -> None:
        checks.flag("a_sync", value)
        if isinstance(self._mode, Geo):
            # Fleet does the same without a word, and a script that meant Geo trains otherwise.
            warnings.warn(
                f"setting a_sync sets k_steps back from {self._mode.k_steps} to 0, so training is no longer Geo; set "
                "a_sync first and a_sync_configs after it",
                stacklevel=3,
            )
        self._settle(value, {**self._configs, "k_steps": 0})

    @property
    def a_sync_configs(self) -> Mapping[str, int | str]:
        """Fleet's settings, all of them. Assigning a dictionary changes those it names."""
        return self._shown()

    @a_sync_configs.setter
    def a_sync_configs(self, given: Mapping[str, int | str]) -> None:
        if not isinstance(given, Mapping):
            raise InvalidArgument(f"a_sync_configs must be a dictionary such as {{'k_steps': 100}}, not {given!r}")
        for name, value in given.items():
            _check_setting(name, value)
        self._settle(self.a_sync, {**self._configs, **given})

    def describe(self) -> list[tuple[str, str]]:
        """The effective configuration, to be printed."""
        mode = [(field.name, str(getattr(self._mode, field.name))) for field in fields(self._mode)]
        return [("mode", self._mode.name), *mode, *((name, str(getattr(self, name))) for name in self._checks)]

    def __repr__(self) -> str:
        options = (f"{name}={getattr(self, name)!r}" for name in self._checks)
        return f"DistributedStrategy({', '.join([repr(self._mode), *options])})"

    def _settle(self, a_sync: bool, configs: Mapping[str, Any]) -> None:
        """The mode that these settings mean; those that mean nothing in it must have their defaults."""
        k_steps = configs["k_steps"]
        if k_steps > 0 and not a_sync:
            raise InvalidArgument(f"k_steps={k_steps} is Geo, which is asynchronous: set a_sync = True before it")
        kind: type[Mode] = Sync if not a_sync else Geo if k_steps > 0 else Async
        settings = {**configs, "max_staleness": getattr(self._mode, "max_staleness", None)}
        acting = {field.name for field in fields(kind)}
        for name, value in settings.items():
            if name not in acting and name not in _ALWAYS and value != A_SYNC_DEFAULTS.get(name):
                self._without_effect(
                    name, f"{name}={value!r} has no effect in {kind.name} mode: {_MODE_REASONS[kind]}; leave it out"
                )
        self._mode = kind(**{name: settings[name] for name in acting})
        self._configs = configs

    def _without_effect(self, name: str, why: str) -> None:
        """What becomes of a setting that the mode does not carry."""
        raise InvalidArgument(why)

    def _shown(self) -> Mapping[str, int | str]:
        """What ``a_sync_configs`` gives to read."""
        return _Shown(self._configs)


class _Shown(Mapping[str, "int | str"]):
    """Settings to look at. Fleet hands out a copy and loses what is written to it; this refuses to be written to."""

    def __init__(self, settings: Mapping[str, int | str]) -> None:
        self._settings = settings

    def __getitem__(self, name: str) -> int | str:
        return self._settings[name]

    def __setitem__(self, name: str, value: object) -> None:
        raise InvalidArgument(f"assign a dictionary: strategy.a_sync_configs = {{{name!r}: {value!r}}}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._settings)

    def __len__(self) -> int:
        return len(self._settings)

    def __repr__(self) -> str:
        return repr(dict(self._settings))


def _fleets(settings: Mapping[str, Any]) -> dict[str, int | str]:
    return {name: value for name, value in settings.items() if name in A_SYNC_DEFAULTS}


def _check_setting(name: str, value: Any) -> None:
    """Refuses a setting that makes no sense in any mode."""
    if name == "max_staleness":
        raise InvalidArgument(f"max_staleness is not Fleet's: use DistributedStrategy(Async(max_staleness={value!r}))")
    if name not in A_SYNC_DEFAULTS:
        raise checks.unknown("a_sync_configs", name, A_SYNC_DEFAULTS)
    if name == "runtime_split_send_recv":
        checks.flag(name, value)  # True is what always happens; False, the default, is what scripts leave it at
    elif name in _MEANINGLESS:
        if value != A_SYNC_DEFAULTS[name]:
            raise InvalidArgument(f"a_sync_configs: {name}={value!r} has no effect: {_MEANINGLESS[name]}")
    elif name == "k_steps":
        checks.whole(name, value, -1, _MOST_STEPS)
    else:
        Async(**{name: value})
