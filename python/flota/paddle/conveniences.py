"""``paddle.utils``: the few of it that scripts use."""

from __future__ import annotations

import re
from importlib import import_module
from types import ModuleType

import flota.paddle
from flota.errors import InvalidArgument
from flota.paddle.graph import names as unique_name

__all__ = ["require_version", "run_check", "try_import", "unique_name"]


def try_import(module_name: str, err_msg: str | None = None) -> ModuleType:
    """The module, or an error that says that it has to be installed."""
    try:
        return import_module(module_name)
    except ImportError as error:
        raise ImportError(err_msg or f"{module_name} is not installed: pip install {module_name}") from error


def require_version(min_version: str, max_version: str | None = None) -> None:
    """An error unless the release whose API this is lies between these."""
    own = flota.paddle.__version__
    if _parts(own) < _parts(min_version) or (max_version is not None and _parts(own) > _parts(max_version)):
        wanted = f"{min_version} or higher" if max_version is None else f"{min_version} to {max_version}"
        raise Exception(f"the script needs Paddle {wanted}, and flota's paddle is {own}")


def _parts(version: str) -> list[int]:
    if not isinstance(version, str):
        raise TypeError(f"require_version: a version is a string such as '2.6.2', not {version!r}")
    if re.fullmatch(r"\d+(\.\d+){0,3}", version) is None:
        raise InvalidArgument(f"require_version: {version!r} is no version such as '2.6.2'")
    parts = [int(part) for part in version.split(".")]
    return parts + [0] * (4 - len(parts))


def run_check() -> None:
    """Trains one layer for one step, and says that it could."""
    paddle = flota.paddle
    layer = paddle.nn.Linear(2, 1)
    paddle.mean(layer(paddle.to_tensor([[1.0, 2.0]]))).backward()
    print("flota's paddle works on the CPU.")
