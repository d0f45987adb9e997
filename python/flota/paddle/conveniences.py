"""``paddle.utils``: the few of it that scripts use."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from flota.paddle.graph import names as unique_name

__all__ = ["run_check", "try_import", "unique_name"]


def try_import(module_name: str, err_msg: str | None = None) -> ModuleType:
    """The module, or an error that says that it has to be installed."""
    try:
        return import_module(module_name)
    except ImportError as error:
        raise ImportError(err_msg or f"{module_name} is not installed: pip install {module_name}") from error


def run_check() -> None:
    """Trains one layer for one step, and says that it could."""
    import flota.paddle as paddle

    layer = paddle.nn.Linear(2, 1)
    paddle.mean(layer(paddle.to_tensor([[1.0, 2.0]]))).backward()
    print("flota's paddle works on the CPU.")
