"""Paddle's flags, as scripts set and ask for them. They are about its memory and its kernels, which torch decides here:
what is set is given back, and changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from flota.errors import InvalidArgument

_flags: dict[str, Any] = {}


def set_flags(flags: Mapping[str, Any]) -> None:
    if not isinstance(flags, Mapping):
        raise InvalidArgument(f"set_flags takes values by names, not {flags!r}")
    for name in flags:
        _check(name)
    _flags.update(flags)


def get_flags(flags: str | Iterable[str]) -> dict[str, Any]:
    """What was set, by name: of one flag or of several."""
    names = [flags] if isinstance(flags, str) else list(flags)
    for name in names:
        _check(name)
        if name not in _flags:
            raise InvalidArgument(f"get_flags: {name} was not set in this process")
    return {name: _flags[name] for name in names}


def _check(name: Any) -> None:
    if not isinstance(name, str) or not name.startswith("FLAGS_"):
        raise InvalidArgument(f"a flag's name begins with FLAGS_: {name!r} is none")
