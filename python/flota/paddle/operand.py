"""What tensors and variables have in common: operators, and the methods that go by an operation's name."""

from __future__ import annotations

from typing import Any

from flota.paddle.ops.registry import OPERATIONS, Operand, apply, call

# Methods by the operation's name; the value is the first argument.
_METHODS = frozenset(
    """
    abs add add_n all any argmax argmin argsort bmm cast ceil clip concat cos cosh cumprod cumsum diag divide dot equal
    equal_all erf exp expand expand_as flatten flip floor floor_divide gather gather_nd greater_equal greater_than
    index_select isfinite isinf isnan kron less_equal less_than log log10 log1p log2 logical_and logical_not logical_or
    logical_xor logsumexp masked_fill masked_select matmul max maximum mean median min minimum mm mod multiply neg
    nonzero norm not_equal numel pow prod reciprocal remainder repeat_interleave reshape roll round rsqrt scale scatter
    sigmoid sign sin slice sort split sqrt square squeeze stack std subtract sum t take_along_axis tanh tile topk
    transpose tril triu unbind unique unsqueeze unstack var where
    """.split()  # noqa: SIM905 (one word a method, in as few lines as they need)
)


class WithOperators(Operand):
    """Operators, and ``x.mean(axis=1)`` for ``paddle.mean(x, axis=1)``."""

    def __getattr__(self, name: str) -> Any:
        if name in _METHODS and name in OPERATIONS:
            operation = OPERATIONS[name]
            return lambda *args, name=None, **kwargs: apply(operation, (self, *args), kwargs, name)
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def astype(self, dtype: Any) -> Any:
        return call("cast", self, dtype)

    def dim(self) -> int:
        return len(self.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __add__(self, other: Any) -> Any:
        return call("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return call("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return call("subtract", self, other)

    def __rsub__(self, other: Any) -> Any:
        return call("subtract", other, self)

    def __mul__(self, other: Any) -> Any:
        return call("multiply", self, other)

    def __rmul__(self, other: Any) -> Any:
        return call("multiply", other, self)

    def __truediv__(self, other: Any) -> Any:
        return call("divide", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return call("divide", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return call("floor_divide", self, other)

    def __mod__(self, other: Any) -> Any:
        return call("mod", self, other)

    def __pow__(self, other: Any) -> Any:
        return call("pow", self, other)

    def __rpow__(self, other: Any) -> Any:
        return call("pow", other, self)

    def __matmul__(self, other: Any) -> Any:
        return call("matmul", self, other)

    def __neg__(self) -> Any:
        return call("scale", self, -1.0)

    def __lt__(self, other: Any) -> Any:
        return call("less_than", self, other)

    def __le__(self, other: Any) -> Any:
        return call("less_equal", self, other)

    def __gt__(self, other: Any) -> Any:
        return call("greater_than", self, other)

    def __ge__(self, other: Any) -> Any:
        return call("greater_equal", self, other)

    def __getitem__(self, index: Any) -> Any:
        return call("getitem", self, index)

    # Values are told apart by who they are: ``==`` between them is an operation.
    __hash__ = object.__hash__
