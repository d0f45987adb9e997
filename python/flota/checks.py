"""Checks of what callers pass: each gives the value back, or says what it must be.

They know neither torch nor the core, so that a process that only wants to know who it is need not load them.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from numbers import Integral, Real
from typing import TypeVar

from flota.errors import InvalidArgument

Text = TypeVar("Text", bound=str)


def whole(name: str, value: object, low: int, high: int) -> int:
    """A whole number within these bounds, both included."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not low <= int(value) <= high:
        shown = f"2**{high.bit_length()} - 1" if high >= 1 << 32 and high & (high + 1) == 0 else str(high)
        raise InvalidArgument(f"{name} must be a whole number from {low} to {shown}, not {value!r}")
    return int(value)


def number(name: str, value: object, low: float, high: float) -> float:
    """A number within these bounds, both included."""
    if isinstance(value, bool) or not isinstance(value, Real) or not low <= float(value) <= high:
        raise InvalidArgument(f"{name} must be a number from {low:g} to {high:g}, not {value!r}")
    return float(value)


def flag(name: str, value: object) -> bool:
    """True or False, and nothing that merely counts as one of them."""
    if not isinstance(value, bool):
        raise InvalidArgument(f"{name} must be True or False, not {value!r}")
    return value


def one_of(name: str, value: object, choices: Iterable[Text]) -> Text:
    """One of a few words."""
    choices = tuple(choices)
    for choice in choices:
        if value == choice:
            return choice
    raise InvalidArgument(f"{name} must be one of {', '.join(choices)}, not {value!r}")


def unknown(owner: str, name: object, known: Iterable[str]) -> InvalidArgument:
    """The refusal of a name that nobody knows: it offers the nearest one, or all where none is near."""
    known = sorted(known)
    near = difflib.get_close_matches(str(name), known, n=1)
    offer = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
    return InvalidArgument(f"{owner} has no {name!r}; {offer}")
