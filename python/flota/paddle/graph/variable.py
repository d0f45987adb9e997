"""Variables: what stands for a value in a program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from flota.errors import InvalidArgument
from flota.paddle.core import VarType
from flota.paddle.dtypes import name_of
from flota.paddle.graph import names
from flota.paddle.jagged import Jagged
from flota.paddle.operand import WithOperators
from flota.paddle.ops.registry import Operation, call

if TYPE_CHECKING:
    from flota.paddle.graph.program import Program

# What a program is tried out with to learn its shapes: batches of these sizes. A side that comes out different depends
# on the batch. Primes that no layer is likely to have, and that do not divide each other's multiples.
BATCHES = (1009, 2003)
# Values of a sequence input in such a batch.
SEQUENCE_VALUES = (3019, 4007)

# What the name of a variable's gradient ends with.
GRADIENT = "@GRAD"

# A value without numbers: a tensor on torch's meta device, or a real one where numbers follow from shapes alone.
Sketch = torch.Tensor | Jagged


class Variable(WithOperators):
    """A value of a program. ``sketches``: what it looks like in batches of the sizes ``BATCHES``."""

    def __init__(
        self,
        program: Program,
        name: str,
        sketches: tuple[Sketch, Sketch],
        *,
        persistable: bool = False,
        stop_gradient: bool = False,
        is_data: bool = False,
    ) -> None:
        self.program = program
        self.name = name
        self.sketches = sketches
        self.persistable = persistable
        self.stop_gradient = stop_gradient
        self.is_data = is_data

    @property
    def shape(self) -> tuple[int, ...]:
        """Sides; -1 where it depends on the batch."""
        first, second = (_tensor_of(sketch).shape for sketch in self.sketches)
        if len(first) != len(second):
            raise InvalidArgument(f"variable {self.name!r} has not always the same number of sides")
        return tuple(a if a == b else -1 for a, b in zip(first, second, strict=True))

    @property
    def dtype(self) -> torch.dtype:
        return _tensor_of(self.sketches[0]).dtype

    @property
    def lod_level(self) -> int:
        return int(isinstance(self.sketches[0], Jagged))

    @property
    def type(self) -> VarType:
        return VarType.LOD_TENSOR

    @property
    def grad_name(self) -> str:
        return f"{self.name}{GRADIENT}"

    @property
    def block(self) -> Any:
        return self.program.global_block()

    @classmethod
    def apply(cls, operation: Operation, args: tuple[Any, ...], kwargs: dict[str, Any], name: str | None) -> Any:
        from flota.paddle.graph.program import default_main_program

        named = operation.arguments(args, kwargs)
        return default_main_program().record(operation, named, name or names.of_results(operation.name))

    def become(self, other: Any) -> None:
        """What is recorded later finds the other's value here; where it is kept, so does the next run."""
        from flota.paddle.graph.program import default_main_program

        if other.shape != self.shape and -1 not in (*other.shape, *self.shape):
            raise InvalidArgument(f"{self.name!r} is {list(self.shape)}, and cannot become {list(other.shape)}")
        default_main_program().record_into("assign", {"x": other}, self)

    def get_value(self, scope: Any = None) -> Any:
        """What a scope holds for it, the global one unless another is given."""
        return self._held(scope).get_tensor()

    def set_value(self, value: Any, scope: Any = None) -> None:
        self._held(scope).get_tensor().set(value)

    def _held(self, scope: Any) -> Any:
        from flota.paddle.graph.scope import global_scope

        found = (global_scope() if scope is None else scope).find_var(self.name)
        if found is None:
            raise InvalidArgument(f"{self.name!r} has no value yet: run the startup program first")
        return found

    def clone(self) -> Any:
        return call("assign", self)

    def detach(self) -> Any:
        """The same value, through which no gradient flows."""
        made = call("assign", self)
        made.stop_gradient = True
        return made

    def __eq__(self, other: object) -> Any:
        return call("equal", self, other)

    def __ne__(self, other: object) -> Any:
        return call("not_equal", self, other)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise InvalidArgument(
            f"variable {self.name!r} has no value while the program is built: use paddle.where instead of `if`"
        )

    def __len__(self) -> int:
        side = self.shape[0] if self.shape else -1
        if side < 0:
            raise InvalidArgument(f"variable {self.name!r} has no length while the program is built")
        return side

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    _kind = "var"

    def __str__(self) -> str:
        facts = f"shape{self.shape}.dtype({name_of(self.dtype)}).stop_gradient({self.stop_gradient})"
        sequences = ".lod_level(1)" if self.lod_level else ""
        return f"{'persist ' if self.persistable else ''}{self._kind} {self.name} : LOD_TENSOR.{facts}{sequences}"

    __repr__ = __str__

    def to_string(self, throw_on_error: bool = False, with_details: bool = False) -> str:
        return str(self)


class ParameterVariable(Variable):
    """A value that is trained, or kept from run to run with what an initialiser gave it."""

    _kind = "trainable param"

    def __init__(self, *args: Any, trainable: bool = True, attributes: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, persistable=True, stop_gradient=not trainable, **kwargs)
        self.trainable = trainable
        self.attributes = attributes  # ParamAttr: learning rate, regulariser, whether it is clipped

    def gradient_of(self, loss: Variable) -> GradientVariable:
        return GradientVariable(self, loss)


class GradientVariable(Variable):
    """What stands for the gradient of a loss by a parameter, for scripts that look at names and shapes, and for
    ``apply_gradients``. No operation makes it."""

    def __init__(self, parameter: ParameterVariable, loss: Variable) -> None:
        super().__init__(parameter.program, parameter.grad_name, parameter.sketches, stop_gradient=True)
        self.loss = loss


def _tensor_of(sketch: Sketch) -> torch.Tensor:
    return sketch.values if isinstance(sketch, Jagged) else sketch


def sketches_of(shape: list[int], dtype: torch.dtype, lod_level: int = 0) -> tuple[Sketch, Sketch]:
    """Of a value of this shape; -1: the batch's size, or that of all sequences together."""
    if lod_level:
        inner = [side for side in (shape[1:] if shape and shape[0] < 0 else shape) if side >= 0]
        return _pair(
            Jagged(
                torch.empty(values, *inner, dtype=dtype, device="meta"),
                torch.empty(batch + 1, dtype=torch.int64, device="meta"),
            )
            for values, batch in zip(SEQUENCE_VALUES, BATCHES, strict=True)
        )
    return _pair(
        torch.empty([batch if side < 0 else side for side in shape], dtype=dtype, device="meta") for batch in BATCHES
    )


def _pair(sketches: Any) -> tuple[Sketch, Sketch]:
    first, second = sketches
    return first, second
