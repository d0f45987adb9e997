"""``fleet.metrics``: values of all workers, from variables of the scope, their names, or arrays.

They are flota's own, which say more of each. All workers make these calls, in the same order.
"""

from __future__ import annotations

from typing import Any

import flota.metrics
import flota.util
from flota.errors import InvalidArgument
from flota.paddle.distributed import util as own_util
from flota.paddle.graph.scope import Scope, global_scope
from flota.paddle.graph.variable import Variable

__all__ = ["acc", "auc", "mae", "max", "min", "mse", "rmse", "sum"]


def sum(input: Any, scope: Scope | None = None, util: Any = None) -> Any:
    """Added element by element."""
    return flota.metrics.sum(_numbers(input, scope, util))


def max(input: Any, scope: Scope | None = None, util: Any = None) -> Any:
    """The greatest, element by element."""
    return flota.metrics.max(_numbers(input, scope, util))


def min(input: Any, scope: Scope | None = None, util: Any = None) -> Any:
    """The least, element by element."""
    return flota.metrics.min(_numbers(input, scope, util))


def auc(stat_pos: Any, stat_neg: Any, scope: Scope | None = None, util: Any = None) -> float:
    """From the counts that ``static.auc`` keeps: the third and the fourth of its list."""
    return flota.metrics.auc(_numbers(stat_pos, scope, util), _numbers(stat_neg, scope, util))


def mae(abserr: Any, total_ins_num: Any, scope: Scope | None = None, util: Any = None) -> float:
    """From sums of absolute errors and numbers of samples."""
    return flota.metrics.mae(_numbers(abserr, scope, util), _numbers(total_ins_num, scope, util))


def rmse(sqrerr: Any, total_ins_num: Any, scope: Scope | None = None, util: Any = None) -> float:
    """From sums of squared errors and numbers of samples."""
    return flota.metrics.rmse(_numbers(sqrerr, scope, util), _numbers(total_ins_num, scope, util))


def mse(sqrerr: Any, total_ins_num: Any, scope: Scope | None = None, util: Any = None) -> float:
    """From the same."""
    return flota.metrics.mse(_numbers(sqrerr, scope, util), _numbers(total_ins_num, scope, util))


def acc(correct: Any, total: Any, scope: Scope | None = None, util: Any = None) -> float:
    """From numbers of right predictions and of samples."""
    return flota.metrics.acc(_numbers(correct, scope, util), _numbers(total, scope, util))


def _numbers(given: Any, scope: Scope | None, util: Any) -> Any:
    if util not in (None, own_util, flota.util):
        raise InvalidArgument("fleet.metrics: util is fleet.util; there is one job only: leave it out")
    name = given.name if isinstance(given, Variable) else given
    if not isinstance(name, str):
        return given
    found = (global_scope() if scope is None else scope).find_var(name)
    if found is None:
        raise InvalidArgument(f"fleet.metrics: the scope has no variable {name!r}: run the program first")
    return found.get_tensor().numpy()
