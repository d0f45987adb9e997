"""Operations: kernels over torch tensors, each by one name, for eager tensors and for programs alike.

    @operation
    def square(x):
        return x * x

``square(x)`` computes at once if ``x`` is a tensor, and is recorded in the current program if it is a variable. A
kernel sees torch tensors and plain values only. In a program an operation is known by its name and the names of its
arguments, which is also how it is printed and saved: neither may change.
"""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, overload

from flota.errors import InvalidArgument

Kernel = Callable[..., Any]
F = TypeVar("F", bound=Kernel)


@dataclass(frozen=True)
class Operation:
    """``sequences``: the kernel knows sequences, and is given ``Jagged`` ones; others are given their values.
    ``effect``: it is done even where nobody wants its result."""

    name: str
    kernel: Kernel
    signature: inspect.Signature
    sequences: bool = False
    effect: bool = False

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments by name."""
        try:
            return dict(self.signature.bind(*args, **kwargs).arguments)
        except TypeError as error:
            raise InvalidArgument(f"{self.name}: {error}; it takes {self.signature}") from None


OPERATIONS: dict[str, Operation] = {}
FUNCTIONS: dict[str, Callable[..., Any]] = {}  # as scripts call them


class Operand(ABC):
    """What operations are applied to: a tensor, or a variable of a program."""

    @classmethod
    @abstractmethod
    def apply(cls, operation: Operation, args: tuple[Any, ...], kwargs: dict[str, Any], name: str | None) -> Any:
        """The operation's result. ``name``: what a script calls it."""

    @abstractmethod
    def become(self, other: Any) -> None:
        """From here on it is the other one's value."""


class Mode:
    """What operations without operands make: tensors, or variables of the current program."""

    kind: ClassVar[type[Operand]]


def operands_in(value: Any) -> Iterator[Operand]:
    """All operands in lists, tuples and mappings."""
    if isinstance(value, Operand):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from operands_in(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from operands_in(each)
    elif isinstance(value, slice):
        yield from operands_in([value.start, value.stop, value.step])


def replace_operands(value: Any, replace: Callable[[Any], Any]) -> Any:
    """The same structure, each operand replaced."""
    if isinstance(value, Operand):
        return replace(value)
    if isinstance(value, (list, tuple)):
        return type(value)(replace_operands(each, replace) for each in value)
    if isinstance(value, dict):
        return {key: replace_operands(each, replace) for key, each in value.items()}
    if isinstance(value, slice):
        return slice(*(replace_operands(each, replace) for each in (value.start, value.stop, value.step)))
    return value


def apply(operation: Operation, args: tuple[Any, ...], kwargs: dict[str, Any], name: str | None = None) -> Any:
    first = next(operands_in([args, kwargs]), None)
    kind = Mode.kind if first is None else type(first)
    return kind.apply(operation, args, kwargs, name)


def call(which: str, *args: Any, **kwargs: Any) -> Any:
    """Applies the operation of this name."""
    return apply(OPERATIONS[which], args, kwargs)


def call_as(name: str | None, which: str, *args: Any, **kwargs: Any) -> Any:
    """The same; the results' names begin with ``name``."""
    return apply(OPERATIONS[which], args, kwargs, name)


def into(result: Any, output: Operand | None) -> Any:
    """The result; ``output``, if a script gives one, becomes it and is returned."""
    if output is None:
        return result
    output.become(result)
    return output


@overload
def operation(kernel: F) -> F: ...


@overload
def operation(*, sequences: bool = False, effect: bool = False, known_as: str | None = None) -> Callable[[F], F]: ...


def operation(
    kernel: Kernel | None = None, *, sequences: bool = False, effect: bool = False, known_as: str | None = None
) -> Any:
    """Makes a kernel an operation, by the kernel's own name unless it is ``known_as`` another."""

    def make(kernel: Kernel) -> Kernel:
        which = known_as or kernel.__name__
        if which in OPERATIONS:
            raise ValueError(f"there are two operations {which!r}")
        made = Operation(which, kernel, inspect.signature(kernel), sequences, effect)
        OPERATIONS[which] = made

        @functools.wraps(kernel)
        def applied(*args: Any, name: str | None = None, **kwargs: Any) -> Any:
            return apply(made, args, kwargs, name)

        FUNCTIONS[which] = applied
        return applied

    return make if kernel is None else make(kernel)
