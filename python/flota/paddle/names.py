"""Public names of a module, looked up on first use: a data generator's process must not pay for importing torch. A name
that is not there is an error that says what is near."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

# Below it, words have letters in common rather than a meaning.
_LIKE = 0.82


def public(
    module: str, shown: str, homes: Mapping[str, str], more: Callable[[], Mapping[str, Any]] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a module that scripts know as ``shown``. ``homes``: the module of each name,
    "module:other" where it is called otherwise there, "module:*" for the module itself. ``more``: names that are only
    known once others are imported, or that change. What the module defines itself is there anyway."""

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
        raise AttributeError(not_there(shown, name, names()))

    def names() -> list[str]:
        return sorted({*homes, *(more() if more is not None else ()), *_own(sys.modules[module])})

    return look_up, names


def not_there(shown: str, name: str, known: Iterable[str]) -> str:
    """What an error says about a name that the module ``shown`` does not have, but ``known`` ones."""
    near = nearest(name, known)
    if near is None:
        return f"flota's {shown} has no {name!r}: it is no part of this front end (docs/paddle.md says what is)"
    return f"flota's {shown} has no {name!r}: did you mean {shown}.{near}?"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that a misspelt one means, if there is one."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=_LIKE)), None)


def _own(module: ModuleType) -> list[str]:
    """What a script may want of the names in the module itself: not those that it imports for its own use."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return list(listed)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def _is_module(package: str, name: str) -> bool:
    return bool(getattr(sys.modules[package], "__path__", None)) and find_spec(f"{package}.{name}") is not None


def _find(home: str, name: str) -> Any:
    where, _, other = home.partition(":")
    if other == "*":
        return import_module(where)
    return getattr(import_module(where), other or name)
