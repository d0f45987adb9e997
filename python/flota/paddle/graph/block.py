"""A program's block: what it consists of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from flota.errors import InvalidArgument
from flota.paddle.dtypes import as_dtype
from flota.paddle.graph import names
from flota.paddle.graph.operator import Operator
from flota.paddle.graph.variable import ParameterVariable, Variable, sketches_of

if TYPE_CHECKING:
    from flota.paddle.graph.program import Program


class Block:
    """A program's operations and variables, as scripts that look into programs ask for them."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.idx = 0

    @property
    def ops(self) -> list[Operator]:
        return self.program.operators

    @property
    def vars(self) -> Mapping[str, Variable]:
        return self.program.variables

    def has_var(self, name: str) -> bool:
        return name in self.program.variables

    def var(self, name: str) -> Variable:
        if name not in self.program.variables:
            raise ValueError(f"the program has no variable {name!r}")
        return self.program.variables[name]

    def all_parameters(self) -> list[ParameterVariable]:
        return self.program.all_parameters()

    def create_var(
        self,
        name: str | None = None,
        shape: Sequence[int] = (),
        dtype: Any = "float32",
        lod_level: int = 0,
        persistable: bool = False,
        stop_gradient: bool = False,
    ) -> Variable:
        """A variable that no operation makes: a run takes it from its feed, or from the scope if it is persistable."""
        sketches = sketches_of(list(shape), as_dtype(dtype), lod_level)
        name = name or names.generate("_generated_var")
        made = Variable(self.program, name, sketches, persistable=persistable, stop_gradient=stop_gradient)
        return self.program.add(made)

    def create_parameter(
        self,
        shape: Sequence[int],
        dtype: Any = "float32",
        name: str | None = None,
        initializer: Any = None,
        trainable: bool = True,
        regularizer: Any = None,
    ) -> ParameterVariable:
        """A parameter of this program; the current startup program gives it its first value."""
        from flota.paddle.attributes import ParamAttr
        from flota.paddle.graph.building import parameter
        from flota.paddle.graph.program import program_guard

        attr = ParamAttr(name=name, initializer=initializer, trainable=trainable, regularizer=regularizer)
        with program_guard(self.program):
            return parameter(attr, shape, dtype, "parameter")

    def append_op(self, type: str = "", **_: Any) -> NoReturn:
        raise InvalidArgument(
            f"append_op({type!r}): operations are recorded by calling them inside program_guard(program), as in "
            "paddle.add(x, y)"
        )

    prepend_op = _insert_op = append_op

    def __str__(self) -> str:
        return str(self.program)
