"""What layers build programs with: inputs, parameters, values that are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from flota.errors import InvalidArgument
from flota.paddle import mode
from flota.paddle.attributes import ParamAttr, ParameterFacts, named
from flota.paddle.dtypes import as_dtype, default_dtype
from flota.paddle.graph import names
from flota.paddle.graph.program import default_main_program, default_startup_program
from flota.paddle.graph.variable import ParameterVariable, Variable, sketches_of
from flota.paddle.initializer import Initializer, first_value


def data(name: str, shape: Sequence[int | None], dtype: Any = None, lod_level: int = 0) -> Variable:
    """An input, fed in each run. -1 and None are sides that the batch decides. A shape of one side without them is that
    of one sample: batches have a side before it."""
    mode.meant_static()
    if not name:
        raise InvalidArgument("an input needs a name")
    sides = [-1 if side is None else int(side) for side in shape]
    if lod_level not in (0, 1):
        raise InvalidArgument(f"lod_level is 0 or 1 (sequences), not {lod_level}")
    if len(sides) == 1 and sides[0] >= 0:
        sides = [-1, *sides]
    kind = default_dtype() if dtype is None else as_dtype(dtype)
    made = Variable(default_main_program(), name, sketches_of(sides, kind, lod_level), stop_gradient=True, is_data=True)
    default_main_program().add(made)
    return made


def parameter(
    attr: ParamAttr,
    shape: Sequence[int],
    dtype: Any,
    key: str,
    default: Initializer | None = None,
    *,
    is_bias: bool = False,
    table: bool = False,
    bounded: bool = True,
    entry: Any = None,
) -> ParameterVariable:
    """A parameter of the current program, with an operation of the startup program that gives it its first value. One
    of the same name is the same parameter."""
    main, startup = default_main_program(), default_startup_program()
    attr = named(attr, names.generate(key)) if attr.name is None else attr
    assert attr.name is not None
    known = main.variables.get(attr.name)
    if known is not None:
        if not isinstance(known, ParameterVariable) or list(known.shape) != list(shape):
            raise InvalidArgument(f"{attr.name!r} is {known} already, and cannot be a parameter of {list(shape)}")
        return known
    first = first_value(attr, default, is_bias)
    kind = as_dtype(dtype)
    facts = ParameterFacts(
        ParamAttr(**{**attr.__dict__, "initializer": first}), table=table, bounded=bounded, entry=entry
    )
    made = ParameterVariable(
        main, attr.name, sketches_of(list(shape), kind), trainable=attr.trainable, attributes=facts
    )
    main.add(made)
    if attr.name not in startup.variables:
        startup.add(made)
        if not table:
            operation, arguments = first.how(shape)
            startup.record_into(operation, {"shape": list(shape), "dtype": kind, **arguments}, made)
    return made


def kept(name: str, shape: Sequence[int], dtype: torch.dtype, value: float) -> Variable:
    """A value that stays from run to run, and is not trained."""
    main, startup = default_main_program(), default_startup_program()
    made = Variable(main, name, sketches_of(list(shape), dtype), persistable=True, stop_gradient=True)
    main.add(made)
    startup.add(made)
    startup.record_into("full", {"shape": list(shape), "fill_value": value, "dtype": dtype}, made)
    return made


def create_global_var(
    shape: Sequence[int],
    value: float,
    dtype: Any,
    persistable: bool = False,
    force_cpu: bool = False,
    name: str | None = None,
) -> Variable:
    return kept(name or names.generate("_generated_var"), shape, as_dtype(dtype), value)
