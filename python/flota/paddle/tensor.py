"""Eager tensors: torch's, by the names of Paddle's."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch

from flota.paddle.dtypes import as_dtype, default_dtype, name_of
from flota.paddle.jagged import Jagged, by_values
from flota.paddle.operand import WithOperators
from flota.paddle.ops.making import generator
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
        given = None if grad_tensor is None else grad_tensor.value
        # The one of a loss torch makes itself; to compare the shape of one that is given it imports sympy: 0.4 s.
        if given is None and not (self.value.numel() == 1 and self.value.is_floating_point()):
            given = torch.ones_like(self.value)
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

    # --- what changes it in place ---

    def fill_(self, value: float) -> Tensor:
        self._all_values().fill_(value)
        return self

    def zero_(self) -> Tensor:
        return self.fill_(0)

    def copy_(self, other: Any) -> Tensor:
        """Takes over the other one's numbers, in its own type."""
        self.set_value(other)
        return self

    def uniform_(self, min: float = -1.0, max: float = 1.0, seed: int = 0) -> Tensor:
        """Random numbers between these; ``seed`` other than 0: its own."""
        self._all_values().uniform_(min, max, generator=generator(seed))
        return self

    def normal_(self, mean: float = 0.0, std: float = 1.0) -> Tensor:
        self._all_values().normal_(mean, std)
        return self

    def exponential_(self, lam: float = 1.0) -> Tensor:
        self._all_values().exponential_(lam)
        return self

    def detach_(self) -> Tensor:
        """From here on no gradient flows through it."""
        self.value = self.value.detach()
        return self

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
        with np.printoptions(**_Printing.options):
            return f"Tensor({facts},\n{self.numpy()})"


class _Printing:
    options: ClassVar[dict[str, Any]] = {}  # numpy's


def set_printoptions(
    precision: int | None = None,
    threshold: int | None = None,
    edgeitems: int | None = None,
    sci_mode: bool | None = None,
    linewidth: int | None = None,
) -> None:
    """How tensors are printed: digits after the point; from how many numbers on with "..."; how many then at each end;
    in powers of ten; characters in a line. What is None stays as it is."""
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    options = _Printing.options | {name: value for name, value in given.items() if value is not None}
    if sci_mode is not None:
        digits = options.get("precision", 8)
        options["suppress"] = not sci_mode
        options["formatter"] = {"float_kind": f"{{:.{digits}e}}".format} if sci_mode else None
    _Printing.options = options


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
