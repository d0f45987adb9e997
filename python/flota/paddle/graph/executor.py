"""Executors: they run programs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch

import flota
from flota import workers
from flota.errors import InvalidArgument
from flota.paddle.core import CUDAPlace
from flota.paddle.graph.compiled import Compiled, Feed, compile_program
from flota.paddle.graph.dumping import Dumper, dumper
from flota.paddle.graph.fetching import FetchHandler, Watch, watch
from flota.paddle.graph.program import Program, default_main_program
from flota.paddle.graph.scope import Scope, global_scope
from flota.paddle.graph.scoring import telling_scores
from flota.paddle.graph.training import hold, trainer_of
from flota.paddle.graph.variable import GRADIENT, Variable
from flota.paddle.jagged import Jagged
from flota.paddle.lod import LoDTensor
from flota.paddle.tensor import Tensor

# What is wanted of a program, and what of it was compiled: by the program's version.
_Key = tuple[int, tuple[str, ...], bool]


class Executor:
    """Runs programs: on the CPU, or on the GPU of a ``CUDAPlace``. A scope's values are where it was last used."""

    def __init__(self, place: Any = None) -> None:
        self.place = place
        self.device = device_of(place)
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
        scope = self._scope_of(program, scope)
        fed = read_feed(program, next_feed(program) if feed is None else feed)
        values = self.step(program, fed, names_of(fetch_list), scope)
        return [to_array(value) for value in values] if return_numpy else [Tensor(value) for value in values]

    def _scope_of(self, program: Program, scope: Scope | None) -> Scope:
        """A program that was loaded has its own."""
        if program.scope is not None:
            own: Scope = program.scope
            return own
        return global_scope() if scope is None else scope

    def step(self, program: Program, feed: Feed, wanted: Sequence[str], scope: Scope) -> list[Any]:
        """The same with tensors on both ends."""
        scope.move_to(self.device)
        seed_once(program)
        trainers = [trainer_of(each, scope) for each in program.trainings]
        losses = [trainer.training.loss.name for trainer in trainers]
        computed = [name for name in wanted if not is_gradient(name, program)]
        compiled = self.compiled(program, [*computed, *losses])
        if not trainers:
            for variable in program.all_parameters():
                hold(variable, scope)
        with torch.set_grad_enabled(bool(trainers)), self._on_device(), telling_scores(compiled.scored, feed):
            values = compiled(self._there(feed), scope)
        gradients: dict[str, torch.Tensor] = {}
        for trainer, loss in zip(trainers, values[len(computed) :], strict=True):
            gradients.update(trainer.step(loss, [name for name in wanted if name not in computed]))
        found = dict(zip(computed, values, strict=False))
        return [
            self._fetched(program, name, found[name], scope) if name in found else gradients[name] for name in wanted
        ]

    def _fetched(self, program: Program, name: str, value: Any, scope: Scope) -> Any:
        """What the scope keeps is fetched as it is after the step, and stays as it is then."""
        if program.variables[name].persistable and name in scope.values:
            return scope.read(name).clone()
        return value.detach() if isinstance(value, torch.Tensor) else value

    def _on_device(self) -> Any:
        """Inside, what operations make is made there."""
        return nullcontext() if self.device.type == "cpu" else self.device

    def _there(self, feed: Feed) -> Feed:
        if self.device.type == "cpu":
            return feed
        return {name: value.to(self.device) for name, value in feed.items()}

    def compiled(self, program: Program, wanted: Sequence[str]) -> Compiled:
        _, known = self._compiled.setdefault(id(program), (program, {}))
        key = (program.version, tuple(wanted), bool(program.trainings))
        if key not in known:
            known[key] = compile_program(program, wanted, training=bool(program.trainings))
        return known[key]

    def train_from_dataset(
        self,
        program: Program | None = None,
        dataset: Any = None,
        scope: Scope | None = None,
        thread: int = 0,
        debug: bool = False,
        fetch_list: Sequence[Any] | None = None,
        fetch_info: Sequence[str] | None = None,
        print_period: int = 100,
        fetch_handler: FetchHandler | None = None,
    ) -> None:
        """Trains one epoch of a data set, and prints what is fetched every ``print_period`` batches. ``thread``: how
        many threads compute a batch, at most as many as there are cores; 0: as many as torch uses. ``fetch_handler``:
        is told values every so many seconds."""
        program = default_main_program() if program is None else program
        if not program.trainings:
            raise InvalidArgument("the program trains nothing: call minimize first, or infer_from_dataset")
        shown = fetch_list, fetch_info, print_period, debug, fetch_handler
        self._run_over(flota.train_from_dataset, program, dataset, scope, thread, *shown)

    def infer_from_dataset(
        self,
        program: Program | None = None,
        dataset: Any = None,
        scope: Scope | None = None,
        thread: int = 0,
        debug: bool = False,
        fetch_list: Sequence[Any] | None = None,
        fetch_info: Sequence[str] | None = None,
        print_period: int = 100,
        fetch_handler: FetchHandler | None = None,
    ) -> None:
        """The same without training."""
        program = default_main_program() if program is None else program
        if program.trainings:
            program = program.clone(for_test=True)
        shown = fetch_list, fetch_info, print_period, debug, fetch_handler
        self._run_over(flota.infer_from_dataset, program, dataset, scope, thread, *shown)

    def _run_over(
        self,
        loop: Callable[..., Any],
        program: Program,
        dataset: Any,
        scope: Scope | None,
        thread: int,
        fetch_list: Sequence[Any] | None,
        fetch_info: Sequence[str] | None,
        print_period: int,
        debug: bool,
        fetch_handler: FetchHandler | None,
    ) -> None:
        if dataset is None:
            raise InvalidArgument("there is no data set: give dataset=…")
        wanted = names_of(fetch_list)
        dump = dumper(program, workers.current().index)
        scope = self._scope_of(program, scope)
        watching = watch(fetch_handler, scope)
        step = self._step_of(program, wanted, scope, dump, watching)
        with cores(thread), dump or nullcontext(), watching or nullcontext():
            loop(step, dataset, fetch_list=wanted, fetch_info=fetch_info, print_period=print_period, debug=debug)

    def _step_of(
        self,
        program: Program,
        wanted: Sequence[str],
        scope: Scope,
        dump: Dumper | None,
        watching: Watch | None,
    ) -> Any:
        losses = [training.loss.name for training in program.trainings]
        told = [*wanted, *losses]
        dumped = dump.names if dump is not None else []
        watched = watching.names if watching is not None else []

        def step(batch: Feed) -> dict[str, Any]:
            values = self.step(program, batch, [*told, *dumped, *watched], scope)
            if dump is not None:
                dump.write(values[len(told) : len(told) + len(dumped)], scope)
            if watching is not None:
                watching.saw(values[len(told) + len(dumped) :])
            named = dict(zip(told, values, strict=False))
            return {**named, "loss": named[losses[-1]]} if losses else named

        return step

    def close(self) -> None:
        """Forgets what was compiled."""
        self._compiled.clear()


def device_of(place: Any) -> torch.device:
    if not isinstance(place, CUDAPlace):
        return torch.device("cpu")
    if not torch.cuda.is_available() or place.device >= torch.cuda.device_count():
        raise InvalidArgument(f"{place}: torch sees {torch.cuda.device_count()} GPUs here: give CPUPlace(), or fewer")
    return torch.device("cuda", place.device)


def seed_once(program: Program) -> None:
    """A program that has a seed draws the same numbers in each process that runs it."""
    if program.random_seed and program.seeded_with != program.random_seed:
        torch.manual_seed(program.random_seed)
        program.seeded_with = program.random_seed


@contextmanager
def cores(threads: int) -> Iterator[None]:
    """Inside, torch computes with so many threads; 0: as before."""
    if threads < 0:
        raise InvalidArgument(f"thread={threads}: give how many threads compute, or 0")
    before = torch.get_num_threads()
    if threads:
        torch.set_num_threads(min(threads, os.cpu_count() or 1))
    try:
        yield
    finally:
        torch.set_num_threads(before)


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
    if isinstance(value, LoDTensor):
        value = value.jagged()
    if isinstance(value, Tensor):
        value = value.value
    if isinstance(value, Jagged):
        return value.with_values(value.values.to(variable.dtype).reshape(-1, *variable.shape[1:]))
    if isinstance(value, tuple) and len(value) == 2 and variable.lod_level:
        values = torch.as_tensor(value[0]).to(variable.dtype)
        return Jagged(values.reshape(-1, *variable.shape[1:]), torch.as_tensor(value[1]))
    tensor = value if isinstance(value, torch.Tensor) else torch.as_tensor(np.asarray(value))
    tensor = tensor.to(variable.dtype)
    if variable.lod_level:
        return Jagged(tensor.reshape(len(tensor), *variable.shape[1:]), torch.arange(len(tensor) + 1))
    wanted = variable.shape
    if tensor.dim() == len(wanted) and any(
        side not in (-1, own) for side, own in zip(wanted, tensor.shape, strict=True)
    ):
        raise InvalidArgument(f"{variable.name!r} was fed the shape {list(tensor.shape)}, and is {list(wanted)}")
    return tensor


class Number(np.ndarray):
    """An array of one number that is also that number: scripts take its first element, or format it with "%f"."""

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __repr__(self) -> str:
        return repr(np.asarray(self))  # as scripts that print what they have fetched know it


def to_array(value: Any) -> Any:
    """What scripts are given: an array."""
    if isinstance(value, Jagged):
        value = value.values
    if not isinstance(value, torch.Tensor):
        return value
    array = value.detach().cpu().numpy()
    return array.reshape(1).view(Number) if array.size == 1 and array.ndim < 2 else array


def names_of(fetch_list: Any) -> list[str]:
    """What is to be fetched: a list of variables or names, or one of them."""
    if isinstance(fetch_list, (str, Variable)):
        return [name_of(fetch_list)]
    return [name_of(each) for each in (() if fetch_list is None else fetch_list)]


def is_gradient(name: str, program: Program) -> bool:
    """Whether it names the gradient of a parameter that the program trains."""
    if not name.endswith(GRADIENT):
        return False
    own = name.removesuffix(GRADIENT)
    trained = {variable.name for training in program.trainings for variable in training.parameters}
    if own not in trained:
        raise InvalidArgument(f"{name!r} can't be fetched: {own!r} is no parameter that the program trains")
    if program.variables[own].attributes.table:
        raise InvalidArgument(f"{name!r} can't be fetched: {own!r} is a table, and its gradient is that of some rows")
    return True


def name_of(fetch: Any) -> str:
    if isinstance(fetch, str):
        return fetch
    if isinstance(fetch, Variable):
        return fetch.name
    raise InvalidArgument(f"fetch_list holds variables or their names, not {fetch!r}")
