"""Parameters of eager layers. Those of programs are ``graph.variable.ParameterVariable``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from flota.paddle.attributes import ParamAttr, ParameterFacts, as_attr, named
from flota.paddle.dtypes import as_dtype
from flota.paddle.graph import building, names
from flota.paddle.graph.variable import ParameterVariable
from flota.paddle.initializer import Initializer, first_value
from flota.paddle.mode import in_dynamic_mode
from flota.paddle.tensor import Tensor


class Parameter(Tensor):
    """A tensor that is trained, or kept with what an initialiser gave it. ``value`` stays the same torch object when it
    is set, for optimizers know it."""

    def __init__(self, value: torch.Tensor, attr: ParamAttr) -> None:
        trained = attr.trainable and value.is_floating_point()
        super().__init__(torch.nn.Parameter(value.detach(), requires_grad=trained), attr.name)
        self.persistable = True
        self.optimize_attr = {"learning_rate": attr.learning_rate}
        self.regularizer = attr.regularizer
        self.do_model_average = attr.do_model_average
        self.need_clip = attr.need_clip
        self.is_distributed = False

    @property
    def trainable(self) -> bool:
        return not self.stop_gradient

    @trainable.setter
    def trainable(self, trained: bool) -> None:
        self.stop_gradient = not trained

    @property
    def attributes(self) -> ParameterFacts:
        """What optimizers want to know, as of a program's parameter."""
        attr = ParamAttr(
            name=self.name,
            learning_rate=self.optimize_attr["learning_rate"],
            regularizer=self.regularizer,
            trainable=self.trainable,
            do_model_average=self.do_model_average,
            need_clip=self.need_clip,
        )
        return ParameterFacts(attr)

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        """Under a name of its own, for optimizers keep their state by names."""
        made = Parameter(
            self.value.detach().clone(), replace(self.attributes.attr, name=self.name + names.generate("_deepcopy"))
        )
        memo[id(self)] = made
        return made

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


def make_parameter(
    shape: Sequence[int],
    attr: Any,
    dtype: Any,
    layer: str,
    default: Initializer | None = None,
    *,
    is_bias: bool = False,
    table: bool = False,
) -> Parameter | ParameterVariable | None:
    """A parameter of the layer of this name: a tensor, or one of the current program. None if ``attr`` is False."""
    wanted = as_attr(attr)
    if wanted is None:
        return None
    sides = [int(side) for side in shape]
    key = f"{layer}.{'b' if is_bias else 'w'}"
    if not in_dynamic_mode():
        return building.parameter(wanted, sides, dtype, key, default, is_bias=is_bias, table=table)
    first = first_value(wanted, default, is_bias)
    wanted = wanted if wanted.name is not None else named(wanted, names.generate(key))
    return Parameter(first.draw(sides, as_dtype(dtype)), wanted)


def create_parameter(
    shape: Sequence[int],
    dtype: Any,
    name: str | None = None,
    attr: Any = None,
    is_bias: bool = False,
    default_initializer: Any = None,
) -> Parameter | ParameterVariable | None:
    """A parameter without a layer."""
    wanted = as_attr(attr)
    if wanted is not None and name is not None:
        attr = named(wanted, name)
    return make_parameter(shape, attr, dtype, names.generate("create_parameter"), default_initializer, is_bias=is_bias)
