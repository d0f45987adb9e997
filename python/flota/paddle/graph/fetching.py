"""Looking at values while a data set is trained: ``FetchHandler``."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from flota.errors import InvalidArgument
from flota.paddle.graph.scope import Scope
from flota.paddle.graph.variable import Variable
from flota.paddle.jagged import Jagged

__all__ = ["FetchHandler", "Watch", "watch"]

_LAST_WAIT = 10.0  # seconds for a handler that is just being called


class FetchHandler:
    """A script makes a subclass, and says in ``handler`` what happens to values. ``var_dict``: a program's variables by
    the names that it is told them by. ``period_secs``: how often."""

    def __init__(self, var_dict: Mapping[str, Variable] | None = None, period_secs: float = 60) -> None:
        known = isinstance(var_dict, Mapping) and all(isinstance(each, Variable) for each in var_dict.values())
        if not var_dict or not known:
            raise InvalidArgument(f"FetchHandler: var_dict says which variables it is told, by names: not {var_dict!r}")
        if not period_secs > 0:
            raise InvalidArgument(f"FetchHandler: period_secs is above 0, not {period_secs}")
        self.var_dict = dict(var_dict)
        self.period_secs = period_secs

    def handler(self, res_dict: dict[str, Any]) -> None:
        """Is given an array for each name, or None where there is none yet."""
        print(" ".join(f"{name}[0]: {value[0]}" for name, value in res_dict.items() if value is not None), flush=True)

    @staticmethod
    def help() -> None:
        print(
            """
class AucHandler(FetchHandler):
    def handler(self, res_dict):
        print("auc:", res_dict["auc"])

executor.train_from_dataset(program, dataset, fetch_handler=AucHandler({"auc": auc}, period_secs=10))
"""
        )


class Watch:
    """Inside, a thread of its own calls the handler every ``period_secs``: with the last batch's values, and of what
    stays from run to run with what the scope has, at a glance while others write it. What the handler raises ends the
    watching, and is raised at its end."""

    def __init__(self, handler: FetchHandler, scope: Scope) -> None:
        self._handler = handler
        self._scope = scope
        # What each step is asked for: the scope is asked for the rest, which may be large, when it is wanted.
        self.names = sorted({each.name for each in handler.var_dict.values() if not each.persistable})
        self._last: Mapping[str, Any] = {}
        self._done = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._watch, name="flota fetch handler", daemon=True)

    def saw(self, values: Sequence[Any]) -> None:
        """A step's values of ``names``."""
        self._last = dict(zip(self.names, values, strict=True))

    def _watch(self) -> None:
        try:
            while not self._done.wait(self._handler.period_secs):
                last = self._last
                self._handler.handler({key: self._read(each, last) for key, each in self._handler.var_dict.items()})
        except BaseException as failure:
            self._failure = failure

    def _read(self, variable: Variable, last: Mapping[str, Any]) -> np.ndarray | None:
        if not variable.persistable:
            return _array(last.get(variable.name))
        found = self._scope.find_var(variable.name)
        return None if found is None else np.atleast_1d(np.array(found.get_tensor()))

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        self._done.set()
        self._thread.join(_LAST_WAIT)
        if self._thread.is_alive():
            warnings.warn(
                f"{type(self._handler).__name__}.handler has not returned {_LAST_WAIT:g} s after the epoch, and "
                "is not waited for any longer",
                stacklevel=2,
            )
        if self._failure is not None and kind is None:
            raise self._failure


def watch(handler: FetchHandler | None, scope: Scope) -> Watch | None:
    """What a handler wants to be done while a data set is trained; None without one."""
    if handler is None:
        return None
    if not isinstance(handler, FetchHandler):
        raise InvalidArgument(f"fetch_handler is a FetchHandler, not {handler!r}")
    return Watch(handler, scope)


def _array(value: Any) -> np.ndarray | None:
    if isinstance(value, Jagged):
        value = value.values
    return value.detach().cpu().numpy().reshape(value.shape or (1,)) if isinstance(value, torch.Tensor) else None
