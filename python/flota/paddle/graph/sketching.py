"""Trying an operation out on sketches of its operands: what it makes, of which shape and type, and whether it can."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from flota.errors import InvalidArgument
from flota.paddle.graph.operator import Operator
from flota.paddle.graph.variable import BATCHES, Sketch, Variable
from flota.paddle.jagged import Jagged
from flota.paddle.ops.registry import replace_operands
from flota.paddle.without_compiler import spare_shapes


def try_out(operator: Operator) -> tuple[Any, Any]:
    """What the operation makes in batches of the sizes ``BATCHES``.

    A script may mix values of a batch of any size with ones of a size that it has fixed, ``x + paddle.ones([32, 4])``:
    then only batches of that size can be run, and what comes out has it in both.
    """
    spare_shapes()
    try:
        first, second = (_at_batch(operator, batch) for batch in range(len(BATCHES)))
    except InvalidArgument:
        found = _of_fixed_size(operator)
        if found is None:
            raise
        first = second = found
    return first, second


def _at_batch(operator: Operator, batch: int) -> Any:
    def sketch(variable: Variable) -> Sketch:
        return variable.sketches[batch]

    def without_numbers(variable: Variable) -> Sketch:
        known = variable.sketches[batch]
        return known.to("meta") if isinstance(known, torch.Tensor) else known

    failure: Exception | None = None
    # Numbers that follow from shapes are real: a side may be one of them. Beside values without numbers, where
    # torch takes no real ones, they go without.
    for look in (sketch, without_numbers):
        try:
            return _computed(operator, look)
        except InvalidArgument:
            raise
        except Exception as error:
            failure = failure or error
    shapes = ", ".join(f"{variable.name} {list(variable.shape)}" for variable in operator.inputs())
    raise InvalidArgument(f"{operator.type}({shapes}): {failure}") from failure


def _computed(operator: Operator, look: Callable[[Variable], Sketch]) -> Any:
    with torch.no_grad(), torch.device("meta"):
        return operator.kernel()(**replace_operands(operator.arguments, look))


# --- batches of a size that the script has fixed ---


def _of_fixed_size(operator: Operator) -> Any:
    """What the operation makes of a batch of one of the sizes that stand in its arguments; None: it makes nothing."""
    if all(-1 not in variable.shape for variable in operator.inputs()):
        return None
    for size in dict.fromkeys(sorted(_sizes(operator), reverse=True)):

        def sized(variable: Variable, size: int = size) -> Sketch:
            return _of_size(variable, size)

        try:
            return _computed(operator, sized)
        except Exception:
            continue
    return None


def _sizes(operator: Operator) -> Iterator[int]:
    for variable in operator.inputs():
        yield from (side for side in variable.shape if side > 0)
    yield from (number for number in _numbers(list(operator.arguments.values())) if number > 0)


def _numbers(value: Any) -> Iterator[int]:
    if isinstance(value, int) and not isinstance(value, bool):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _numbers(each)


def _of_size(variable: Variable, size: int) -> Sketch:
    """What the variable looks like in a batch of this size, of which its sides are multiples."""
    first, second = variable.sketches
    if isinstance(first, Jagged) or isinstance(second, Jagged) or first.dim() != second.dim():
        raise InvalidArgument(f"{variable.name!r} has no shape that follows from the batch's size")
    if first.is_meta or second.is_meta:
        sides = [_between(a, b, size) for a, b in zip(first.shape, second.shape, strict=True)]
        return torch.empty(sides, dtype=first.dtype, device="meta")
    numbers = [_between(int(a), int(b), size) for a, b in zip(first.flatten(), second.flatten(), strict=True)]
    return torch.tensor(numbers, dtype=first.dtype, device="cpu").reshape(first.shape)


def _between(first: int, second: int, size: int) -> int:
    times, rest = divmod(second - first, BATCHES[1] - BATCHES[0])
    if rest:
        raise InvalidArgument("it is no multiple of the batch's size")
    return first + times * (size - BATCHES[0])
