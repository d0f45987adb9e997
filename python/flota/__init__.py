"""Parameter-server training for PyTorch."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flota import errors as errors
    from flota import initializer as initializer
    from flota import rules as rules
    from flota import testing as testing
    from flota.client import Client as Client
    from flota.tables import DenseTable as DenseTable
    from flota.tables import SparseTable as SparseTable

# Looked up on first use: a server process must not pay for importing torch.
_PUBLIC = {
    "Client": "flota.client",
    "DenseTable": "flota.tables",
    "SparseTable": "flota.tables",
    "errors": None,
    "initializer": None,
    "rules": None,
    "testing": None,
}

__all__ = ["Client", "DenseTable", "SparseTable", "errors", "initializer", "rules", "testing"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'flota' has no attribute '{name}'")
    home = _PUBLIC[name]
    value = import_module(f"flota.{name}") if home is None else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
