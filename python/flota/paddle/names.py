"""Public names of a module, looked up on first use: a data generator's process must not pay for importing torch. A name
that is not there is an error that says what is near."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def public(
    module: str, shown: str, homes: Mapping[str, str], more: Callable[[], Mapping[str, Any]] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a module that scripts know as ``shown``. ``homes``: the module of each name,
    "module:other" where it is called otherwise there, "module:*" for the module itself. ``more``: names that are only
    known once others are imported, or that change."""

    def look_up(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in homes:
            value = _find(homes[name], name)
            setattr(sys.modules[module], name, value)
            return value
        if _is_module(module, name):
            return import_module(f"{module}.{name}")
        if more is not None and name in (found := more()):
            return found[name]
        near = difflib.get_close_matches(name, names(), n=1)
        hint = f": did you mean {shown}.{near[0]}?" if near else ""
        raise AttributeError(f"flota's {shown} has no {name!r}{hint}")

    def names() -> list[str]:
        return sorted({*homes, *(more() if more is not None else ())})

    return look_up, names


def _is_module(package: str, name: str) -> bool:
    return bool(getattr(sys.modules[package], "__path__", None)) and find_spec(f"{package}.{name}") is not None


def _find(home: str, name: str) -> Any:
    where, _, other = home.partition(":")
    if other == "*":
        return import_module(where)
    return getattr(import_module(where), other or name)
