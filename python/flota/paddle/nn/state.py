"""The state of a layer: taken, set, moved."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch

from flota.errors import InvalidArgument
from flota.paddle.core import CPUPlace, CUDAPlace
from flota.paddle.dtypes import as_dtype
from flota.paddle.graph.scope import global_scope
from flota.paddle.graph.training import hold
from flota.paddle.graph.variable import ParameterVariable
from flota.paddle.tensor import Tensor


def collect(layer: Any, found: dict[str, Any], include_sublayers: bool, prefix: str) -> dict[str, Any]:
    """What the layer keeps, under every path that leads to it."""
    passing = layer._non_persistable_buffer_names_set
    kept = {name: buffer for name, buffer in layer._buffers.items() if name not in passing}
    for name, member in {**layer._parameters, **kept}.items():
        if member is not None:
            found[prefix + name] = member
    if include_sublayers:
        for name, below in layer._sub_layers.items():
            if below is not None:
                collect(below, found, True, f"{prefix}{name}.")
    return found


def restore(layer: Any, given: dict[str, Any], by_path: bool) -> tuple[list[str], list[str]]:
    """Values into the layer; the names that ``given`` lacks or has in another shape, and those that nothing took."""
    missing, taken = [], set()
    for path, member in collect(layer, {}, True, "").items():
        name = path if by_path else member.name
        if name not in given:
            _skipped(name, "it is not in the state that was given")
            missing.append(name)
            continue
        value = _tensor(given[name])
        if list(value.shape) != list(member.shape):
            _skipped(name, f"it is {list(member.shape)}, and was given {list(value.shape)}")
            missing.append(name)
            continue
        taken.add(name)
        _set(member, value)
    return missing, [name for name in given if name not in taken]


def _skipped(name: str, why: str) -> None:
    warnings.warn(f"{name} is not set: {why}", stacklevel=4)


def _tensor(value: Any) -> torch.Tensor:
    if isinstance(value, Tensor):
        held: torch.Tensor = value.value
        return held
    return torch.as_tensor(np.asarray(value))


def _set(member: Any, value: torch.Tensor) -> None:
    if isinstance(member, ParameterVariable):
        scope = global_scope()
        hold(member, scope)
        scope.set(member.name, value)
    else:
        member.set_value(Tensor(value))


def move(layer: Any, device: Any, dtype: Any) -> None:
    """Each tensor stays the object that it is, for optimizers know it."""
    place = None if device is None else device_of(device)
    kind = None if dtype is None else as_dtype(dtype)
    for member in [*layer.parameters(), *layer.buffers()]:
        if not isinstance(member, Tensor):
            raise InvalidArgument("a program's parameters are where its executor is: to() moves eager layers")
        value = member.value
        wanted = kind if kind is not None and value.is_floating_point() else value.dtype
        value.data = value.data.to(device=place, dtype=wanted)
        if value.grad is not None:
            value.grad.data = value.grad.data.to(device=place, dtype=wanted)


def device_of(place: Any) -> torch.device:
    """The device that a place or its name (cpu, gpu, gpu:0) stands for."""
    if isinstance(place, torch.device):
        return place
    if isinstance(place, CPUPlace):
        return torch.device("cpu")
    if isinstance(place, CUDAPlace):
        return torch.device("cuda", place.device)
    kind, _, number = str(place).partition(":")
    if kind not in ("cpu", "gpu") or (number and not number.isdigit()):
        raise InvalidArgument(f"a place is cpu, gpu or gpu:0, not {place!r}")
    return torch.device("cpu") if kind == "cpu" else torch.device("cuda", int(number or 0))
