"""``paddle.distributed``."""

from flota.paddle.names import public

_HERE = "flota.paddle.distributed"

__getattr__, __dir__ = public(
    _HERE,
    "paddle.distributed",
    {
        **dict.fromkeys(("CountFilterEntry", "ProbabilityEntry", "ShowClickEntry"), "flota.paddle.entries"),
        **dict.fromkeys(("InMemoryDataset", "QueueDataset"), f"{_HERE}.datasets"),
        **dict.fromkeys(("ParallelEnv", "get_rank", "get_world_size"), f"{_HERE}.parallel"),
        "fleet": f"{_HERE}.fleet:*",
    },
)
