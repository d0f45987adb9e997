"""A step's gradients, and several steps' as one."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import torch

from flota import _core
from flota.communicator.remote import Dense, Versions
from flota.tables import DensePart, SparseTable


@dataclass(frozen=True)
class RowsGradient:
    """The gradient of some rows of a table: ``values[i]`` belongs to the batch's row i."""

    table: SparseTable
    batch: _core.Batch
    values: torch.Tensor
    lr: float


@dataclass(frozen=True)
class DenseGradient:
    """The gradient of a dense parameter."""

    dense: Dense
    values: torch.Tensor
    lr: float


@dataclass(frozen=True)
class StepGradients:
    """All that one step has to push. ``seen``: the versions of the dense parameters that it was computed from."""

    step: int
    rows: list[RowsGradient]
    dense: list[DenseGradient]
    seen: Versions

    def without_dense(self) -> StepGradients:
        return replace(self, dense=[])

    def dense_parts(self) -> list[DensePart]:
        return [
            one.dense.table.part(one.values, one.lr, versions=self.seen.address(one.dense.place)) for one in self.dense
        ]


def merged(steps: list[StepGradients]) -> StepGradients:
    """The sum of several steps' gradients, with the newest's learning rates and step. It is as stale as the oldest."""
    if len(steps) == 1:
        return steps[0]
    rows: dict[str, list[RowsGradient]] = defaultdict(list)
    dense: dict[int, list[DenseGradient]] = defaultdict(list)
    for step in steps:
        for gradient in step.rows:
            rows[gradient.table.name].append(gradient)
        for part in step.dense:
            dense[part.dense.place].append(part)
    seen = steps[0].seen.copy()
    for step in steps[1:]:
        torch.minimum(seen.numbers, step.seen.numbers, out=seen.numbers)
    return StepGradients(
        steps[-1].step, [_sum_of_rows(same) for same in rows.values()], [_sum(same) for same in dense.values()], seen
    )


def _sum_of_rows(gradients: list[RowsGradient]) -> RowsGradient:
    """One gradient row for each key that any of them has."""
    newest = gradients[-1]
    if len(gradients) == 1:
        return newest
    table = newest.table
    keys = torch.empty(sum(len(gradient.batch) for gradient in gradients), dtype=torch.int64, device="cpu")
    at = 0
    for gradient in gradients:
        gradient.batch.copy_keys(keys.data_ptr() + at * keys.element_size())
        at += len(gradient.batch)
    batch = table.make_batch()
    places = torch.empty(len(keys), dtype=torch.int32, device="cpu")
    batch.route(keys.data_ptr(), len(keys), places.data_ptr())
    at = 0
    for gradient in gradients:
        batch.lower_versions(gradient.batch)
        batch.add_counts(gradient.batch, places[at:].data_ptr())
        at += len(gradient.batch)
    values = torch.cat([gradient.values for gradient in gradients])
    sums = torch.empty(len(batch), table.dim, device="cpu")
    _core.sum_rows(places.data_ptr(), len(keys), values.data_ptr(), table.dim, sums.data_ptr(), len(batch))
    return RowsGradient(table, batch, sums, newest.lr)


def _sum(gradients: list[DenseGradient]) -> DenseGradient:
    newest = gradients[-1]
    if len(gradients) == 1:
        return newest
    # The first's values are a copy that belongs to it.
    values = gradients[0].values
    for gradient in gradients[1:]:
        values += gradient.values
    return DenseGradient(newest.dense, values, newest.lr)
