"""Inference by a job: programs that look rows up on servers, and train nothing."""

from __future__ import annotations

from typing import Any

import flota
from flota.errors import InvalidArgument
from flota.paddle.distributed import job
from flota.paddle.distributed.saving import load_weights
from flota.paddle.graph.program import Program, default_main_program, default_startup_program
from flota.paddle.optimizer.optimizers import SGD


class DistributedInfer:
    """``main_program``: what is computed; its parameters' first values come from ``startup_program``."""

    def __init__(self, main_program: Program | None = None, startup_program: Program | None = None) -> None:
        self.origin_main_program = default_main_program() if main_program is None else main_program
        self.origin_startup_program = default_startup_program() if startup_program is None else startup_program

    def init_distributed_infer_env(
        self, exe: Any, loss: Any, role_maker: Any = None, dirname: str | None = None
    ) -> None:
        """In a job that trains already there is nothing to do, but to load ``dirname``. Otherwise this begins one:
        servers serve here until the workers have stopped, and workers go on with the weights of ``dirname``."""
        if not job.is_connected():
            job.init(role_maker)
            strategy = flota.DistributedStrategy()
            strategy.a_sync = True
            # It makes the tables; nothing is ever sent to it.
            job.distributed_optimizer(SGD(0.0), strategy).minimize(loss, self.origin_startup_program)
            if flota.is_server():
                flota.init_server()
                flota.run_server()
                return
            exe.run(self.origin_startup_program)
            job.init_worker()
        if dirname is not None:
            load_weights(dirname)

    def get_dist_infer_program(self) -> Program:
        """The program that trains nothing."""
        if flota.is_server():
            raise InvalidArgument("a server runs no program: ask for it under `if fleet.is_worker():`")
        return self.origin_main_program.clone(for_test=True)
