"""``fleet.utils``."""

from flota.paddle.names import public

_HERE = "flota.paddle.distributed"

__getattr__, __dir__ = public(
    f"{_HERE}.conveniences",
    "paddle.distributed.fleet.utils",
    {
        "DistributedInfer": f"{_HERE}.infer",
        "HDFSClient": f"{_HERE}.files",
        "LocalFS": f"{_HERE}.files",
        "fs": f"{_HERE}.files:*",
        "ps_util": f"{_HERE}.infer:*",
    },
)
