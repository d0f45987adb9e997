"""``fluid.ParallelExecutor``: 1.x's executor of one program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flota.errors import InvalidArgument
from flota.paddle.core import CPUPlace, CUDAPlace
from flota.paddle.graph.executor import Executor
from flota.paddle.graph.program import Program, default_main_program
from flota.paddle.graph.scope import Scope, global_scope
from flota.paddle.static.strategies import BuildStrategy, ExecutionStrategy


class ParallelExecutor:
    """Runs one program at one place: a process has one, and a job has as many processes as it has workers.

    ``share_vars_from``: another one, whose scope it uses. ``loss_name``: checked, since the program knows what it
    trains by.
    """

    device_count = 1

    def __init__(
        self,
        use_cuda: bool,
        loss_name: str | None = None,
        main_program: Program | None = None,
        share_vars_from: ParallelExecutor | None = None,
        exec_strategy: ExecutionStrategy | None = None,
        build_strategy: BuildStrategy | None = None,
        num_trainers: int = 1,
        trainer_id: int = 0,
        scope: Scope | None = None,
    ) -> None:
        if (num_trainers, trainer_id) != (1, 0):
            raise InvalidArgument("ParallelExecutor: fleet.init says who this process is, and launchers start more")
        if share_vars_from is not None and not isinstance(share_vars_from, ParallelExecutor):
            raise InvalidArgument(f"share_vars_from is another ParallelExecutor, not {share_vars_from!r}")
        if share_vars_from is not None and scope is not None:
            raise InvalidArgument("ParallelExecutor: give scope or share_vars_from, which has one")
        for name, given, kind in (
            ("exec_strategy", exec_strategy, ExecutionStrategy),
            ("build_strategy", build_strategy, BuildStrategy),
        ):
            if given is not None and not isinstance(given, kind):
                raise InvalidArgument(f"ParallelExecutor: {name} is a fluid.{kind.__name__}, not {given!r}")
        self._program = default_main_program() if main_program is None else main_program
        if loss_name is not None and loss_name not in self._program.variables:
            raise InvalidArgument(f"ParallelExecutor: the program has no variable {loss_name!r} to be its loss")
        self._scope: Scope = share_vars_from._scope if share_vars_from is not None else scope or global_scope()
        self._executor = Executor(CUDAPlace(0) if use_cuda else CPUPlace())

    def run(
        self,
        fetch_list: Iterable[Any],
        feed: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        feed_dict: Mapping[str, Any] | None = None,
        return_numpy: bool = True,
    ) -> list[Any]:
        """One run of the program. ``feed_dict`` is the older name of ``feed``."""
        if feed is not None and feed_dict is not None:
            raise InvalidArgument("ParallelExecutor.run: feed_dict is an older name of feed: give one of them")
        fed = feed if feed_dict is None else feed_dict
        return self._executor.run(self._program, fed, fetch_list, scope=self._scope, return_numpy=return_numpy)

    def drop_local_exe_scopes(self) -> None:
        """Forgets what was compiled."""
        self._executor.close()
