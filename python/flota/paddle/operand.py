"""What tensors and variables have in common: operators, and the methods that go by an operation's name."""

from __future__ import annotations

from typing import Any

from flota.paddle.ops.registry import OPERATIONS, Operand, apply, call, into

# Methods by the operation's name; the value is the first argument.
_METHODS = frozenset(
    """
    abs acos add add_n addmm all allclose amax amin any argmax argmin argsort asin atan atan2 bincount bitwise_and
    bitwise_or bitwise_xor bmm broadcast_to bucketize cast ceil chunk clip concat cos cosh count_nonzero cumprod
    cumsum diag diag_embed diagonal diff dist divide dot equal equal_all erf exp expand expand_as expm1 flatten flip
    floor floor_divide fmax fmin gather gather_nd greater_equal greater_than histogram increment index_add
    index_sample index_select inner is_empty isclose isfinite isinf isnan kron kthvalue lerp less_equal less_than
    log log10 log1p log2 logical_and logical_not logical_or logical_xor logit logsumexp masked_fill masked_select
    matmul max maximum mean median min minimum mm mod moveaxis multinomial multiplex multiply mv nan_to_num neg
    nonzero norm not_equal numel outer pow prod put_along_axis reciprocal remainder repeat_interleave reshape roll
    round rsqrt scale scatter scatter_nd scatter_nd_add shard_index sigmoid sign sin sinh slice sort split sqrt
    square squeeze stack stanh std strided_slice subtract sum t take_along_axis tan tanh tensordot tile topk trace
    transpose tril triu trunc unbind unique unsqueeze unstack var where
    """.split()  # noqa: SIM905 (one word a method, in as few lines as they need)
)


class WithOperators(Operand):
    """Operators, and ``x.mean(axis=1)`` for ``paddle.mean(x, axis=1)``."""

    def __getattr__(self, name: str) -> Any:
        if name in _METHODS and name in OPERATIONS:
            operation = OPERATIONS[name]
            return lambda *args, name=None, **kwargs: apply(operation, (self, *args), kwargs, name)
        if name.endswith("_") and not name.startswith("_") and name[:-1] in _METHODS:  # the same, and x becomes it
            method = getattr(self, name[:-1])
            return lambda *args, **kwargs: into(method(*args, **kwargs), self)
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def astype(self, dtype: Any) -> Any:
        return call("cast", self, dtype)

    def dim(self) -> int:
        return len(self.shape)

    ndimension = dim

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def T(self) -> Any:  # noqa: N802 (so scripts call it)
        return call("transpose", self, list(range(len(self.shape)))[::-1])

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

    def __rfloordiv__(self, other: Any) -> Any:
        return call("floor_divide", other, self)

    def __mod__(self, other: Any) -> Any:
        return call("mod", self, other)

    def __rmod__(self, other: Any) -> Any:
        return call("mod", other, self)

    def __pow__(self, other: Any) -> Any:
        return call("pow", self, other)

    def __rpow__(self, other: Any) -> Any:
        return call("pow", other, self)

    def __matmul__(self, other: Any) -> Any:
        return call("matmul", self, other)

    def __and__(self, other: Any) -> Any:
        return call("bitwise_and", self, other)

    def __or__(self, other: Any) -> Any:
        return call("bitwise_or", self, other)

    def __xor__(self, other: Any) -> Any:
        return call("bitwise_xor", self, other)

    def __invert__(self) -> Any:
        return call("bitwise_not", self)

    def __abs__(self) -> Any:
        return call("abs", self)

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
