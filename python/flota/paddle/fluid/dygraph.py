"""``fluid.dygraph``: 1.x's eager layers, where they take other arguments than 2.x's, and its files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from flota.errors import CheckpointError, InvalidArgument
from flota.paddle import mode
from flota.paddle.names import public
from flota.paddle.nn import common
from flota.paddle.nn.container import LayerList, ParameterList, Sequential
from flota.paddle.nn.gradients import grad, no_grad
from flota.paddle.nn.layer import Layer
from flota.paddle.nn.parameter import Parameter
from flota.paddle.nn.saving import load, save
from flota.paddle.static.layers import activated
from flota.paddle.tensor import Tensor, to_tensor

__all__ = [
    "Dropout",
    "Embedding",
    "Layer",
    "LayerList",
    "Linear",
    "ParameterList",
    "Sequential",
    "enabled",
    "grad",
    "guard",
    "load_dygraph",
    "no_grad",
    "save_dygraph",
    "to_variable",
]

_PARAMETERS, _OPTIMIZER = ".pdparams", ".pdopt"

enabled = mode.in_dynamic_mode


@contextmanager
def guard(place: Any = None) -> Iterator[None]:
    """Inside, operations compute at once, on the CPU."""
    before = mode.in_dynamic_mode()
    mode.disable_static(place)
    try:
        yield
    finally:
        if not before:
            mode.enable_static()


def to_variable(value: Any, name: str | None = None, zero_copy: bool | None = None, dtype: Any = None) -> Tensor:
    """A tensor of these numbers. It is always a copy."""
    if not mode.in_dynamic_mode():
        raise InvalidArgument("to_variable makes eager tensors: call it inside fluid.dygraph.guard()")
    made: Tensor = value if isinstance(value, Tensor) and dtype is None else to_tensor(np.asarray(value), dtype)
    made.name = name or made.name
    return made


class Linear(common.Linear):
    """A fully connected layer and its activation."""

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        param_attr: Any = None,
        bias_attr: Any = None,
        act: str | None = None,
        dtype: Any = "float32",
    ) -> None:
        _only_float32("Linear", dtype)
        super().__init__(input_dim, output_dim, param_attr, bias_attr)
        self._act = act

    def forward(self, input: Any) -> Any:
        return activated(super().forward(input), self._act)


class Embedding(common.Embedding):
    """A row for each id; ``size``: rows and their width."""

    def __init__(
        self,
        size: Sequence[int],
        is_sparse: bool = False,
        is_distributed: bool = False,
        padding_idx: int | None = None,
        param_attr: Any = None,
        dtype: Any = "float32",
    ) -> None:
        _only_float32("Embedding", dtype)
        super().__init__(int(size[0]), int(size[1]), padding_idx, is_sparse or is_distributed, param_attr)


class Dropout(common.Dropout):
    """Without ``upscale_in_train``, a trained model's values are smaller by the part that was dropped."""

    def __init__(
        self,
        p: float = 0.5,
        seed: int | None = None,
        dropout_implementation: str = "downgrade_in_infer",
        is_test: bool = False,
    ) -> None:
        if seed is not None:
            raise InvalidArgument("Dropout: a seed of its own is not known here; seed the whole by paddle.seed")
        if is_test:
            raise InvalidArgument("Dropout: is_test would have no effect: call the model's eval()")
        modes = {"downgrade_in_infer": "downscale_in_infer", "upscale_in_train": "upscale_in_train"}
        if dropout_implementation not in modes:
            raise InvalidArgument(f"dropout_implementation is {' or '.join(modes)}, not {dropout_implementation!r}")
        super().__init__(p, mode=modes[dropout_implementation])


def _only_float32(layer: str, dtype: Any) -> None:
    if dtype != "float32":
        raise InvalidArgument(f"{layer}: call paddle.set_default_dtype({dtype!r}) instead of giving dtype")


def save_dygraph(state_dict: Mapping[str, Any], model_path: str) -> None:
    """Writes a layer's state to ``model_path``.pdparams, an optimizer's to ``model_path``.pdopt."""
    if not state_dict:
        raise InvalidArgument("save_dygraph: the state is empty")
    of_layer = any(isinstance(value, Parameter) for value in state_dict.values())
    save(dict(state_dict), os.fspath(model_path) + (_PARAMETERS if of_layer else _OPTIMIZER))


def load_dygraph(model_path: str, keep_name_table: bool = False) -> tuple[Any, Any]:
    """What ``save_dygraph`` has written: a layer's state and an optimizer's, None for the one that is not there."""
    if keep_name_table:
        raise InvalidArgument("load_dygraph: keep_name_table would have no effect: files hold no such table")
    prefix = os.fspath(model_path).removesuffix(_PARAMETERS).removesuffix(_OPTIMIZER)
    found = [load(prefix + end) if Path(prefix + end).is_file() else None for end in (_PARAMETERS, _OPTIMIZER)]
    if found == [None, None]:
        raise CheckpointError(f"load_dygraph: there is neither {prefix}{_PARAMETERS} nor {prefix}{_OPTIMIZER}")
    return found[0], found[1]


__getattr__, __dir__ = public("flota.paddle.fluid.dygraph", "paddle.fluid.dygraph", {})
