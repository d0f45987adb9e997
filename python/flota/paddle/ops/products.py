"""Products of matrices and vectors."""

from __future__ import annotations

from typing import Any

import torch

from flota.paddle.ops.registry import FUNCTIONS, operation


@operation
def matmul(x: Any, y: Any, transpose_x: bool = False, transpose_y: bool = False, alpha: float = 1.0) -> Any:
    x = x.mT if transpose_x and x.dim() > 1 else x
    y = y.mT if transpose_y and y.dim() > 1 else y
    product = torch.matmul(x, y)
    return product if alpha == 1.0 else product * alpha


@operation
def mul(x: Any, y: Any, x_num_col_dims: int = 1, y_num_col_dims: int = 1) -> Any:
    """Both as matrices: the first so many sides are rows, the rest columns."""
    left = x.flatten(x_num_col_dims).flatten(0, x_num_col_dims - 1)
    right = y.flatten(y_num_col_dims).flatten(0, y_num_col_dims - 1)
    product = left @ right
    return product.reshape(*x.shape[:x_num_col_dims], *y.shape[y_num_col_dims:])


@operation
def bmm(x: Any, y: Any) -> Any:
    return torch.bmm(x, y)


@operation
def mm(input: Any, mat2: Any) -> Any:
    return torch.matmul(input, mat2)


@operation
def dot(x: Any, y: Any) -> Any:
    return (x * y).sum(-1)


@operation
def outer(x: Any, y: Any) -> Any:
    return torch.outer(x.flatten(), y.flatten())


@operation
def inner(x: Any, y: Any) -> Any:
    return torch.inner(x, y)


@operation
def kron(x: Any, y: Any) -> Any:
    return torch.kron(x, y)


@operation
def addmm(input: Any, x: Any, y: Any, beta: float = 1.0, alpha: float = 1.0) -> Any:
    return torch.addmm(input, x, y, beta=beta, alpha=alpha)


@operation
def tensordot(x: Any, y: Any, axes: Any = 2) -> Any:
    return torch.tensordot(x, y, axes)


@operation(known_as="einsum")
def _einsum(equation: str, operands: Any) -> Any:
    return torch.einsum(equation, *operands)


def einsum(equation: str, *operands: Any) -> Any:
    return _einsum(equation, list(operands))


FUNCTIONS["einsum"] = einsum


@operation
def mv(x: Any, vec: Any) -> Any:
    return torch.mv(x, vec)


@operation
def trace(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return torch.diagonal(x, offset, axis1, axis2).sum(-1)


@operation
def pairwise_distance(x: Any, y: Any, p: float = 2.0, epsilon: float = 1e-6, keepdim: bool = False) -> Any:
    """The length of each row's difference."""
    return torch.linalg.vector_norm(x - y + epsilon, p, -1, keepdim)
