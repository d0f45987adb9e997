"""Operations of a program that torch has in one: a product to which only a bias is added."""

from __future__ import annotations

from collections.abc import Sequence

from flota.paddle.graph.lookups import Lookups
from flota.paddle.graph.operator import Operator
from flota.paddle.graph.variable import Variable
from flota.paddle.ops.registry import OPERATIONS


def linear_layers(
    operators: list[Operator | Lookups], wanted: Sequence[str], training: bool
) -> list[Operator | Lookups]:
    """``add(matmul(x, weight), bias)`` becomes ``linear``, where nobody else wants the product. ``training``: gradients
    flow, but not through a product that stops them."""
    users: dict[str, int] = {}
    made: dict[str, Operator] = {}
    for each in operators:
        for variable in each.inputs():
            users[variable.name] = users.get(variable.name, 0) + 1
        if isinstance(each, Operator) and _is_product(each) and not (training and each.results.stop_gradient):
            made[each.results.name] = each
    gone: set[int] = set()
    replaced: dict[int, Operator] = {}
    for each in operators:
        product = made.get(_added_to(each)) if isinstance(each, Operator) else None
        if product is not None and users[product.results.name] == 1 and product.results.name not in wanted:
            assert isinstance(each, Operator)
            arguments = {"x": product.arguments["x"], "weight": product.arguments["y"], "bias": each.arguments["y"]}
            gone.add(id(product))
            replaced[id(each)] = Operator(OPERATIONS["linear"], arguments, each.results)
    return [
        replaced.get(id(each), each) if isinstance(each, Operator) else each
        for each in operators
        if id(each) not in gone
    ]


def _is_product(operator: Operator) -> bool:
    """Of two matrices, as they are, and no sequences."""
    if operator.type != "matmul" or set(operator.arguments) != {"x", "y"}:
        return False
    operands = [operator.arguments["x"], operator.arguments["y"], operator.results]
    return (
        all(isinstance(each, Variable) and len(each.shape) == 2 and not each.lod_level for each in operands)
        and not operator.results.persistable
    )


def _added_to(operator: Operator) -> str:
    """The matrix to which the operation adds the same row everywhere; "": it does something else."""
    if operator.type != "add" or set(operator.arguments) != {"x", "y"}:
        return ""
    total, bias = operator.arguments["x"], operator.arguments["y"]
    if not (isinstance(total, Variable) and isinstance(bias, Variable)) or len(bias.shape) != 1:
        return ""
    return total.name if total.shape[-1:] == bias.shape else ""
