"""Rows that this process trains itself: by a rule of the core, or by the torch optimizer that the script has made."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Protocol

import torch

from flota import _core
from flota.communicator.optimizer import DistributedOptimizer
from flota.communicator.stores import keys_in
from flota.errors import InvalidArgument
from flota.initializer import Constant
from flota.nn.table import Gradient, TableOptions
from flota.nn.transfer import to_host
from flota.optim import has_rule, rule_of
from flota.rules import SGD, Rule

Group = dict[str, Any]


class TrainedRows(Protocol):
    """How the rows of a table in this process learn."""

    def stepping(self, gradient: Gradient, group: Group, step: int) -> AbstractContextManager[None]:
        """A context in which the wrapped optimizer takes its step; after it the rows have taken theirs."""


class RuleRows:
    """Rows that a rule of the core moves."""

    def __init__(self, table: _core.SparseTable, options: TableOptions) -> None:
        self._table = table
        self._own_rule = options.rule

    @contextmanager
    def stepping(self, gradient: Gradient, group: Group, step: int) -> Iterator[None]:
        lr = float(group["lr"]) if self._own_rule is None else self._own_rule.lr
        (values,) = to_host([gradient.values])
        self._table.push_batch(gradient.keys.batch, values.data_ptr(), _core.PushKind.gradient, lr, 1.0, step)
        yield


class TorchRows:
    """Rows that any torch optimizer moves, beside the dense parameters and in the same step.

    It is shown the rows of the step as two parameters: those that it has moved before, with their state, and those that
    are new to it. State that has a part for each row (momenta) is kept by row; the rest (step counts) is the table's
    and goes on from step to step. Rows without a gradient are not touched.
    """

    def __init__(
        self, table: _core.SparseTable, options: TableOptions, optimizer: torch.optim.Optimizer, group: Group
    ) -> None:
        self._weights = _Columns(table, options.dim)
        self._optimizer = optimizer
        self._states = {
            name: _Columns.make(f"{options.name}/{name}", width)
            for name, width in _state_widths(optimizer, group, options).items()
        }
        # Which rows the optimizer has moved, whatever state it keeps of them.
        self._moved = _Columns.make(f"{options.name}/moved", 1)
        self._common: dict[str, Any] = {}

    @contextmanager
    def stepping(self, gradient: Gradient, group: Group, step: int) -> Iterator[None]:
        keys = gradient.keys.distinct()
        new = torch.isin(keys, keys_in(self._moved.table.missing(gradient.keys.batch)))
        shown = [self._show(keys, gradient, mask, moved) for mask, moved in ((~new, True), (new, False)) if mask.any()]
        # The table's own state goes on from rows that were moved before; it begins with the first that are.
        counts = 0 if bool((~new).any()) or not self._common else None
        handles = group["params"]
        group["params"] = [*handles, *(parameter for _, parameter in shown)]
        try:
            yield
        finally:
            group["params"] = handles
            states = [self._optimizer.state.pop(parameter, {}) for _, parameter in shown]
        for place, (rows, parameter) in enumerate(shown):
            self._weights.write(rows, parameter.detach())
            self._moved.write(rows, torch.ones(len(rows), 1))
            for name, value in states[place].items():
                if name in self._states:
                    self._states[name].write(rows, value)
                elif place == counts:
                    self._common[name] = value

    def _show(
        self, keys: torch.Tensor, gradient: Gradient, mask: torch.Tensor, moved: bool
    ) -> tuple[torch.Tensor, torch.nn.Parameter]:
        rows = keys[mask].contiguous()
        device = gradient.values.device
        parameter = torch.nn.Parameter(self._weights.read(rows).to(device))
        parameter.grad = gradient.values[mask.to(device)]
        if moved:
            self._optimizer.state[parameter] = {
                **self._common,
                **{name: columns.read(rows).to(device) for name, columns in self._states.items()},
            }
        return rows, parameter


class _Columns:
    """So many numbers for each row, by key."""

    def __init__(self, table: _core.SparseTable, width: int) -> None:
        self.table = table
        self._width = width

    @staticmethod
    def make(name: str, width: int) -> _Columns:
        spec = _core.TableSpec()
        spec.name = name
        spec.dim = width
        spec.rule = SGD().to_native()
        spec.init = Constant(0.0).to_native()
        spec.allow_nonfinite = True
        return _Columns(_core.SparseTable(spec), width)

    def read(self, keys: torch.Tensor) -> torch.Tensor:
        values = torch.empty(len(keys), self._width, device="cpu")
        self.table.pull(keys.data_ptr(), len(keys), values.data_ptr(), True)
        return values

    def write(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        flat = values.to("cpu", torch.float32).reshape(len(keys), self._width).contiguous()
        self.table.push(keys.data_ptr(), len(keys), flat.data_ptr(), _core.PushKind.assign, 0.0, 1.0, 0)


def train_rows(
    options: TableOptions,
    optimizer: DistributedOptimizer,
    group: Group,
    any_optimizer: bool,
    make_table: Callable[[Rule], _core.SparseTable],
) -> TrainedRows:
    """Makes a table with the rule that it needs, and what trains it. ``any_optimizer``: also an optimizer that no
    server rule stands for."""
    if options.rule is None:
        if any_optimizer and not has_rule(optimizer.wrapped, group):
            if options.admission is not None:
                raise InvalidArgument(
                    f"table {options.name!r}: admission={options.admission} needs an optimizer that a rule of "
                    f"flota.rules stands for, not {type(optimizer.wrapped).__name__}"
                )
            return TorchRows(make_table(SGD()), options, optimizer.wrapped, group)
        optimizer.fix(group)
    return RuleRows(make_table(options.rule or rule_of(optimizer.wrapped, group)), options)


def step_here(optimizer: DistributedOptimizer, rows: Mapping[str, TrainedRows]) -> None:
    """One step of all parameters in this process: tables by what trains their rows, the rest as torch does it."""
    with ExitStack() as stack:
        for handle, group in optimizer.tables():
            gradient = handle.gradient()
            if gradient is not None:
                stack.enter_context(rows[handle.options.name].stepping(gradient, group, optimizer.steps + 1))
            stack.enter_context(handle.hidden())
        optimizer.wrapped.step()


def _state_widths(optimizer: torch.optim.Optimizer, group: Group, options: TableOptions) -> dict[str, int]:
    """What the optimizer keeps for each row, and how many numbers of it: found out by a step on a table of zeros."""
    rows = options.dim + 7  # no other side of a state is as long
    probe = torch.nn.Parameter(torch.zeros(rows, options.dim, device="cpu"))
    probe.grad = torch.zeros_like(probe)
    shadow = object.__new__(type(optimizer))
    shadow.__dict__.update(optimizer.__dict__)
    shadow.param_groups = [{**group, "params": [probe]}]
    shadow.state = defaultdict(dict)
    shadow._optimizer_step_pre_hooks = OrderedDict()  # not a step that the script would want to know of
    shadow._optimizer_step_post_hooks = OrderedDict()
    try:
        type(optimizer).step(shadow)
    except Exception as error:
        raise InvalidArgument(
            f"{type(optimizer).__name__} cannot train the rows of table {options.name!r}: {error}"
        ) from error
    state = shadow.state.get(probe, {})
    return {
        name: value.numel() // rows
        for name, value in state.items()
        if isinstance(value, torch.Tensor) and value.dim() > 0 and value.shape[0] == rows
    }
