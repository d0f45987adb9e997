"""What a script says about a parameter."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from flota.errors import InvalidArgument


@dataclass(frozen=True)
class ParamAttr:
    """A parameter's name, first value, learning rate (times the optimizer's), regulariser, and whether it is trained
    and clipped."""

    name: str | None = None
    initializer: Any = None
    learning_rate: float = 1.0
    regularizer: Any = None
    trainable: bool = True
    do_model_average: bool = True
    need_clip: bool = True


@dataclass(frozen=True)
class ParameterFacts:
    """The same with what the layer adds. ``table``: its rows live in a table, made as they are asked for. ``bounded``:
    there are as many rows as its shape says, and other ids are errors. ``entry``: which ids get rows at all."""

    attr: ParamAttr
    table: bool = False
    bounded: bool = True
    entry: Any = None


def as_attr(attr: Any) -> ParamAttr | None:
    """What layers take: a ``ParamAttr``, a name, an initialiser; None for the default, False for none at all."""
    if attr is None or attr is True:
        return ParamAttr()
    if attr is False:
        return None
    if isinstance(attr, ParamAttr):
        return attr
    if isinstance(attr, str):
        return ParamAttr(name=attr)
    if hasattr(attr, "draw"):
        return ParamAttr(initializer=attr)
    if hasattr(attr, "coefficient"):
        return ParamAttr(regularizer=attr)
    if isinstance(attr, (list, tuple)):
        raise InvalidArgument(f"give one attribute for each parameter, not the list {attr!r}")
    raise InvalidArgument(f"a parameter's attribute is a ParamAttr, a name, an initialiser or False, not {attr!r}")


def named(attr: ParamAttr, name: str) -> ParamAttr:
    return attr if attr.name is not None else replace(attr, name=name)
