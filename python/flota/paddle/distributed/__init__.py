"""``paddle.distributed``."""

from flota.paddle.names import public

_HERE = "flota.paddle.distributed"

__getattr__, __dir__ = public(
    _HERE,
    "paddle.distributed",
    {
        "InMemoryDataset": f"{_HERE}.datasets",
        "QueueDataset": f"{_HERE}.datasets",
        "fleet": f"{_HERE}.fleet:*",
    },
)
