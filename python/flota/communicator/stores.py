"""Where rows are: in tables of this process, or on servers."""

from __future__ import annotations

import torch

from flota import _core
from flota.nn.table import Gradient, Keys, TableOptions
from flota.rules import Rule
from flota.tables import SparseTable


def _route(batch: _core.Batch, keys: torch.Tensor) -> Keys:
    places = torch.empty(len(keys), dtype=torch.int32)
    batch.route(keys.data_ptr(), len(keys), places.data_ptr())
    return Keys(batch, places)


class LocalStore:
    """A table in this process: the same rows and rules as a server's, without a server."""

    def __init__(self, options: TableOptions, rule: Rule) -> None:
        spec = _core.TableSpec()
        spec.name = options.name
        spec.dim = options.dim
        spec.init = options.init.to_native()
        seed = _core.hash_name(options.name) if options.seed is None else options.seed
        spec.seed = seed & 0xFFFFFFFFFFFFFFFF
        spec.rule = rule.to_native()
        self.options = options
        self.rule = rule
        self.table = _core.SparseTable(spec)

    def route(self, keys: torch.Tensor) -> Keys:
        return _route(_core.Batch(), keys)

    def pull(self, keys: Keys, create: bool) -> torch.Tensor:
        rows = torch.empty(len(keys.batch), self.options.dim)
        self.table.pull_batch(keys.batch, rows.data_ptr(), create)
        return rows

    def push(self, gradient: Gradient, lr: float, step: int) -> None:
        values = gradient.values.to("cpu").contiguous()
        self.table.push_batch(gradient.keys.batch, values.data_ptr(), _core.PushKind.gradient, lr, 1.0, step)


class RemoteStore:
    """A table on servers."""

    def __init__(self, table: SparseTable) -> None:
        self.table = table

    def route(self, keys: torch.Tensor) -> Keys:
        return _route(self.table.make_batch(), keys)

    def pull(self, keys: Keys, create: bool) -> torch.Tensor:
        rows = torch.empty(len(keys.batch), self.table.dim)
        self.table.pull_batch(keys.batch, rows, create=create)
        return rows
