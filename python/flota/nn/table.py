"""A table as a model sees it: a parameter without rows that stands for rows on servers.

Parameter groups, ``requires_grad_``, ``.to()`` and ``state_dict`` see the table through it. Its ``grad`` is the
gradient of the rows that were looked up since it was last cleared, one row for each distinct key, so that
``clip_grad_norm_`` and everything else that reads or scales gradients in place works as on any parameter.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from flota.admission import Admission
from flota.errors import InvalidArgument
from flota.initializer import Initializer
from flota.nn.store import Keys, Store, Watcher
from flota.rules import Rule


@dataclass(frozen=True)
class TableOptions:
    """What a module says about its table. ``rule`` None: the optimizer's."""

    name: str
    dim: int
    init: Initializer
    seed: int | None = None
    rule: Rule | None = None
    admission: Admission | None = None


@dataclass
class Gradient:
    """The gradient of some rows: ``values[i]`` belongs to the batch's row i."""

    keys: Keys
    values: torch.Tensor
    samples: int  # of the batch: what a worker's gradient weighs in an average


class TableParameter(torch.nn.Parameter):
    """The handle of a table. Made by modules; see the module's documentation."""

    options: TableOptions
    store: Store | None
    watcher: Watcher | None
    job_over: bool  # the job that it was trained in
    _gradients: list[Gradient]
    _stepped: bool
    _hidden: bool

    @staticmethod
    def make(options: TableOptions) -> TableParameter:
        handle = TableParameter(torch.empty(0, options.dim, device="cpu"))
        handle.options = options
        handle.store = None
        handle.watcher = None
        handle.job_over = False
        handle._gradients = []
        handle._stepped = False
        handle._hidden = False
        return handle

    def __deepcopy__(self, memo: dict[int, Any]) -> TableParameter:
        handle = TableParameter.make(copy.copy(self.options))
        handle.store = self.store
        handle.requires_grad_(self.requires_grad)
        memo[id(self)] = handle
        return handle

    def bound(self) -> Store:
        if self.store is None:
            raise InvalidArgument(
                f"table {self.options.name!r} is not there yet: give its module's parameters to "
                "flota.distributed_optimizer and call flota.init_worker() before the first step"
            )
        return self.store

    def add_gradient(self, gradient: Gradient) -> None:
        if self._stepped:
            # Whoever zeroes gradients in place wants no more of those rows: in the next batch they are other rows.
            self._gradients = [each for each in self._gradients if bool(each.values.any())]
            self._stepped = False
        self._gradients.append(gradient)

    def take_gradients(self, other: TableParameter) -> None:
        """The gradients of a copied model's handle of the same table become this one's."""
        self.grad = None
        self._gradients, other._gradients = other._gradients, []

    def stepped(self) -> None:
        """A step has used the gradient, which may still be on its way to the servers."""
        self._stepped = True

    def gradient(self) -> Gradient | None:
        """The gradient of all rows that were looked up, each once."""
        if len(self._gradients) > 1:
            self._gradients = [_merged(self.bound(), self._gradients)]
        return self._gradients[0] if self._gradients else None

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """For a while it looks as if it had no gradient: to a torch optimizer that steps the other parameters."""
        self._hidden = True
        try:
            yield
        finally:
            self._hidden = False

    @property
    def grad(self) -> torch.Tensor | None:
        gradient = None if self._hidden else self.gradient()
        if gradient is not None and self._stepped:
            # Who asks may write to it.
            gradient = Gradient(gradient.keys, gradient.values.clone(), gradient.samples)
            self._gradients = [gradient]
        return None if gradient is None else gradient.values

    @grad.setter
    def grad(self, value: torch.Tensor | None) -> None:
        if value is not None:
            raise InvalidArgument(
                f"the gradient of table {self.options.name!r} belongs to its rows: change it in place"
            )
        self._gradients = []
        self._stepped = False


def is_table(parameter: torch.Tensor) -> bool:
    """``isinstance`` of a class of parameters asks torch in Python, for every parameter several times a step."""
    return type(parameter) is TableParameter


def _merged(store: Store, gradients: list[Gradient]) -> Gradient:
    keys = store.route(torch.cat([gradient.keys.distinct() for gradient in gradients]))
    at, counted = 0, set[int]()
    for gradient in gradients:
        batch = gradient.keys.batch
        keys.batch.lower_versions(batch)
        # A second backward pass over the same rows shows nothing new.
        if id(batch) not in counted:
            keys.batch.add_counts(batch, keys.places[at:].data_ptr())
            counted.add(id(batch))
        at += len(batch)
    values = torch.cat([gradient.values for gradient in gradients])
    sums = values.new_zeros(len(keys.batch), values.shape[1]).index_add_(0, keys.places.to(values.device), values)
    return Gradient(keys, sums, sum(gradient.samples for gradient in gradients))
