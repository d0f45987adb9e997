"""Executors: they run programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from flota.errors import InvalidArgument
from flota.paddle.graph.compiled import Compiled, Feed, compile_program
from flota.paddle.graph.program import Program, default_main_program
from flota.paddle.graph.scope import Scope, global_scope
from flota.paddle.graph.training import hold, trainer_of
from flota.paddle.graph.variable import Variable
from flota.paddle.jagged import Jagged
from flota.paddle.tensor import Tensor

# What is wanted of a program, and what of it was compiled: by the program's version.
_Key = tuple[int, tuple[str, ...], bool]


class Executor:
    """Runs programs. ``place`` is where: the CPU, unless it is ``CUDAPlace``."""

    def __init__(self, place: Any = None) -> None:
        self.place = place
        self._compiled: dict[int, tuple[Program, dict[_Key, Compiled]]] = {}

    def run(
        self,
        program: Program | None = None,
        feed: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        fetch_list: Iterable[Any] | None = None,
        feed_var_name: str = "feed",
        fetch_var_name: str = "fetch",
        scope: Scope | None = None,
        return_numpy: bool = True,
        use_program_cache: bool = False,
        return_merged: bool = True,
        use_prune: bool = False,
    ) -> list[Any]:
        """One run: feeds, computes, trains if the program is one that does, and returns what ``fetch_list`` names."""
        program = default_main_program() if program is None else program
        scope = global_scope() if scope is None else scope
        fed = read_feed(program, next_feed(program) if feed is None else feed)
        wanted = [name_of(each) for each in fetch_list or ()]
        values = self.step(program, fed, wanted, scope)
        return [to_array(value) for value in values] if return_numpy else [Tensor(value) for value in values]

    def step(self, program: Program, feed: Feed, wanted: Sequence[str], scope: Scope) -> list[Any]:
        """The same with tensors on both ends."""
        trainers = [trainer_of(each, scope) for each in program.trainings]
        losses = [trainer.training.loss.name for trainer in trainers]
        compiled = self.compiled(program, [*wanted, *losses])
        for variable in program.all_parameters():
            if not trainers:
                hold(variable, scope)
        with torch.set_grad_enabled(bool(trainers)):
            values = compiled(feed, scope)
        for trainer, loss in zip(trainers, values[len(wanted) :], strict=True):
            trainer.step(loss)
        return [value.detach() if isinstance(value, torch.Tensor) else value for value in values[: len(wanted)]]

    def compiled(self, program: Program, wanted: Sequence[str]) -> Compiled:
        _, known = self._compiled.setdefault(id(program), (program, {}))
        key = (program.version, tuple(wanted), bool(program.trainings))
        if key not in known:
            known[key] = compile_program(program, wanted, training=bool(program.trainings))
        return known[key]

    def close(self) -> None:
        """Forgets what was compiled."""
        self._compiled.clear()


def read_feed(program: Program, feed: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The fed values as tensors of the variables' types."""
    if isinstance(feed, (list, tuple)):
        if len(feed) != 1:
            raise InvalidArgument(f"a feed is a mapping from names to values; there are {len(feed)} of them")
        feed = feed[0]
    if not isinstance(feed, Mapping):
        raise InvalidArgument(f"a feed is a mapping from names to values, not {feed!r}")
    fed = {}
    for name, value in feed.items():
        variable = program.variables.get(name)
        if variable is not None:
            fed[name] = as_fed(variable, value)
    return fed


def next_feed(program: Program) -> Mapping[str, Any]:
    """What the program's loaders have for it."""
    return {name: value for reader in program.readers for name, value in reader.next_batch().items()}


def as_fed(variable: Variable, value: Any) -> torch.Tensor | Jagged:
    """A fed value as the variable's: of its type, and of a shape that fits it."""
    if isinstance(value, Tensor):
        value = value.value
    if isinstance(value, Jagged):
        return Jagged(value.values.to(variable.dtype), value.offsets)
    if isinstance(value, tuple) and len(value) == 2 and variable.lod_level:
        return Jagged(torch.as_tensor(value[0]).to(variable.dtype), torch.as_tensor(value[1]))
    tensor = value if isinstance(value, torch.Tensor) else torch.as_tensor(np.asarray(value))
    tensor = tensor.to(variable.dtype)
    if variable.lod_level:
        return Jagged(tensor, torch.arange(len(tensor) + 1))
    wanted = variable.shape
    if tensor.dim() == len(wanted) and any(side not in (-1, own) for side, own in zip(wanted, tensor.shape, strict=True)):
        raise InvalidArgument(f"{variable.name!r} was fed the shape {list(tensor.shape)}, and is {list(wanted)}")
    return tensor


def to_array(value: Any) -> Any:
    """What scripts are given: an array; a single number is an array of one, as they may want its first element."""
    if isinstance(value, Jagged):
        value = value.values
    if not isinstance(value, torch.Tensor):
        return value
    array = value.detach().cpu().numpy()
    return array.reshape(1) if array.ndim == 0 else array


def name_of(fetch: Any) -> str:
    if isinstance(fetch, str):
        return fetch
    if isinstance(fetch, Variable):
        return fetch.name
    raise InvalidArgument(f"fetch_list holds variables or their names, not {fetch!r}")
