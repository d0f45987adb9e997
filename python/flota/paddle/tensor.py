"""Eager tensors: torch's, by the names of Paddle's."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from flota.paddle.dtypes import as_dtype, default_dtype, name_of
from flota.paddle.jagged import Jagged, by_values
from flota.paddle.operand import WithOperators
from flota.paddle.ops.registry import Mode, Operation, call, operands_in, replace_operands


class Tensor(WithOperators):
    """A tensor. ``value`` is torch's."""

    def __init__(self, value: Any, name: str | None = None) -> None:
        self.value: Any = value
        self.name = name or ""
        self.persistable = False

    @classmethod
    def apply(cls, operation: Operation, args: tuple[Any, ...], kwargs: dict[str, Any], name: str | None) -> Any:
        operands = [operand.value for operand in operands_in([args, kwargs]) if isinstance(operand, Tensor)]
        plain = replace_operands([list(args), kwargs], lambda tensor: tensor.value)
        sequences = not operation.sequences and any(isinstance(value, Jagged) for value in operands)
        kernel = by_values(operation.kernel) if sequences else operation.kernel
        return _wrapped(kernel(*plain[0], **plain[1]))

    def become(self, other: Any) -> None:
        """A tensor that is trained, or that others hold, stays the same object; else gradients flow on through it."""
        if self.value.is_leaf and self.value.requires_grad:
            self.set_value(other)
        else:
            self.value = other.value

    @property
    def shape(self) -> list[int]:
        return list(self.value.shape)

    @property
    def dtype(self) -> torch.dtype:
        found: torch.dtype = self.value.dtype
        return found

    @property
    def size(self) -> int:
        return int(self._all_values().numel())

    @property
    def place(self) -> Any:
        return self._all_values().device

    @property
    def stop_gradient(self) -> bool:
        return not self._all_values().requires_grad

    @stop_gradient.setter
    def stop_gradient(self, stop: bool) -> None:
        if self.value.is_leaf:
            self.value.requires_grad_(not stop)
        elif stop:
            self.value = self.value.detach()

    @property
    def grad(self) -> Tensor | None:
        found = self.value.grad
        return None if found is None else Tensor(found)

    def gradient(self) -> np.ndarray | None:
        found = self.value.grad
        return None if found is None else found.detach().cpu().numpy()

    def backward(self, grad_tensor: Tensor | None = None, retain_graph: bool = False) -> None:
        given = torch.ones_like(self.value) if grad_tensor is None else grad_tensor.value
        self.value.backward(given, retain_graph=retain_graph)

    def clear_grad(self) -> None:
        self.value.grad = None

    clear_gradient = clear_grad

    def detach(self) -> Tensor:
        return Tensor(self.value.detach())

    def clone(self) -> Tensor:
        return Tensor(self.value.clone())

    def numpy(self) -> np.ndarray:
        array: np.ndarray = self._all_values().detach().cpu().numpy()
        return array

    def _all_values(self) -> torch.Tensor:
        """Of sequences, those of all one after the other."""
        found: torch.Tensor = self.value.values if isinstance(self.value, Jagged) else self.value
        return found

    def lod(self) -> list[list[int]]:
        """Where sequences begin and end; nothing for a tensor without them."""
        return [self.value.offsets.tolist()] if isinstance(self.value, Jagged) else []

    def recursive_sequence_lengths(self) -> list[list[int]]:
        return [self.value.lengths().tolist()] if isinstance(self.value, Jagged) else []

    def item(self, *index: int) -> Any:
        return self.numpy().item(*index)

    def tolist(self) -> Any:
        return self._all_values().tolist()

    def cpu(self) -> Tensor:
        return Tensor(self.value.cpu())

    def cuda(self, *_: Any) -> Tensor:
        return Tensor(self.value.cuda())

    def set_value(self, value: Any) -> None:
        given = value.value if isinstance(value, Tensor) else torch.as_tensor(np.asarray(value))
        with torch.no_grad():
            self.value.copy_(given)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    def __setitem__(self, index: Any, value: Any) -> None:
        place = replace_operands(index, lambda tensor: tensor.value)
        self.value[place] = value.value if isinstance(value, Tensor) else value

    def __eq__(self, other: object) -> Any:
        return call("equal", self, other)

    def __ne__(self, other: object) -> Any:
        return call("not_equal", self, other)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        return bool(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __index__(self) -> int:
        return int(self.value)

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Any:
        return (Tensor(each) for each in self.value)

    def __repr__(self) -> str:
        stop = self.stop_gradient
        sequences = f", lod={self.lod()}" if isinstance(self.value, Jagged) else ""
        facts = f"shape={self.shape}, dtype={name_of(self.dtype)}, stop_gradient={stop}{sequences}"
        return f"Tensor({facts},\n{self.numpy()})"


def _wrapped(value: Any) -> Any:
    if isinstance(value, (torch.Tensor, Jagged)):
        return Tensor(value)
    if isinstance(value, (list, tuple)):
        return type(value)(map(_wrapped, value))
    return value


def is_tensor(x: Any) -> bool:
    """Whether it is a tensor, or a program's variable."""
    return isinstance(x, WithOperators)


def to_tensor(data: Any, dtype: Any = None, place: Any = None, stop_gradient: bool = True) -> Any:
    """A tensor of these numbers, or a program's variable that is always them. Python's real numbers become the default
    type, numpy's keep theirs."""
    if Mode.kind is not Tensor:
        return _always(data, dtype, stop_gradient)
    if isinstance(data, Tensor):
        value = data.value.detach().clone()
    elif isinstance(data, torch.Tensor):
        value = data.detach().clone()
    else:
        array = np.asarray(data)
        value = torch.tensor(array)
        if array.dtype == np.float64 and not isinstance(data, (np.ndarray, np.generic)):
            value = value.to(default_dtype())
    if dtype is not None:
        value = value.to(as_dtype(dtype))
    made = Tensor(value)
    if not stop_gradient:
        value.requires_grad_()
    return made


def _always(data: Any, dtype: Any, stop_gradient: bool) -> Any:
    if is_tensor(data):
        made = call("assign", data)
        wanted = made.dtype
    else:
        array = np.asarray(data)
        of_python = array.dtype == np.float64 and not isinstance(data, (np.ndarray, np.generic))
        wanted = default_dtype() if of_python else as_dtype(array.dtype)
        made = call("assign", array)
    kind = wanted if dtype is None else as_dtype(dtype)
    made = made if made.dtype == kind else call("cast", made, kind)
    made.stop_gradient = stop_gradient
    return made
