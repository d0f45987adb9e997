"""``paddle.distributed.fleet``: a job of servers and workers. What it does is flota's own, or in ``job``."""

from collections.abc import Mapping
from typing import Any

from flota.paddle.names import public

_JOB = "flota.paddle.distributed.job"

_PUBLIC = {
    **dict.fromkeys(
        ("load_inference_model", "load_model", "save", "save_inference_model", "save_persistables"),
        "flota.paddle.distributed.saving",
    ),
    **dict.fromkeys(("InMemoryDataset", "QueueDataset"), "flota.paddle.distributed.datasets"),
    **{name: f"flota.paddle.distributed.{name}:*" for name in ("metrics", "util")},
    "data_generator": "flota.paddle.distributed.data_generator:*",
    "fleet": "flota.paddle.distributed.fleet:*",  # the object that has these functions
    "utils": "flota.paddle.distributed.conveniences:*",
    "DistributedStrategy": "flota.paddle.distributed.strategy",
    **dict.fromkeys(
        (
            "distributed_optimizer",
            "init",
            "init_server",
            "init_worker",
            "minimize",
            "server_endpoints",
            "shrink",
            "worker_endpoints",
        ),
        _JOB,
    ),
    **dict.fromkeys(("MultiSlotDataGenerator", "MultiSlotStringDataGenerator"), "flota.data"),
    **dict.fromkeys(("PaddleCloudRoleMaker", "Role", "UserDefinedRoleMaker"), "flota.paddle.distributed.role_maker"),
    **dict.fromkeys(
        (
            "all_reduce",
            "barrier_worker",
            "is_first_worker",
            "is_server",
            "is_worker",
            "run_server",
            "server_index",
            "server_num",
            "stop_worker",
            "worker_index",
            "worker_num",
        ),
        "flota",
    ),
}


class _Programs(Mapping[str, Any]):
    """In 1.x ``fleet.main_program`` is what the program is now."""

    def __getitem__(self, name: str) -> Any:
        from flota.paddle.graph import program

        return {"main_program": program.default_main_program, "startup_program": program.default_startup_program}[
            name
        ]()

    def __iter__(self) -> Any:
        return iter(("main_program", "startup_program"))

    def __len__(self) -> int:
        return 2


__getattr__, __dir__ = public("flota.paddle.distributed.fleet", "paddle.distributed.fleet", _PUBLIC, _Programs)
