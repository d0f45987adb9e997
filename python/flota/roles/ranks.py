"""What the ranks of an MPI job tell each other before their servers run: over PMIx, else over mpi4py.

Who never comes is an error that names it, after ``FLOTA_TIMEOUT``: a rank waits for all others here, and nobody else
looks after those.
"""

from __future__ import annotations

import faulthandler
import sys
import time
from abc import ABC, abstractmethod
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from flota import config
from flota.errors import InvalidArgument, SystemFailure
from flota.roles import pmix

_SAID = 16384  # bytes of what a rank says, over mpi4py; a set of certificates has about 2,000
_NAMED = 8  # ranks in an error, at most
_LOOK = 0.005  # seconds between two looks for what other ranks have sent


class Ranks(ABC):
    """All ranks of the job. Each calls the same in the same order."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank = rank
        self.size = size

    @abstractmethod
    def gather(self, name: str, text: str) -> list[str]:
        """What every rank says, in their order."""

    @abstractmethod
    def spread(self, name: str, text: str) -> str:
        """What rank 0 says; what others say is ignored."""


class OverPmix(Ranks):
    def __init__(self, rank: int, size: int, connection: pmix.Pmix) -> None:
        super().__init__(rank, size)
        self._pmix = connection

    def gather(self, name: str, text: str) -> list[str]:
        self._pmix.tell(f"flota.{name}", text)
        told = self._meet(name, range(self.size))
        return [told[rank] for rank in range(self.size)]

    def spread(self, name: str, text: str) -> str:
        if self.rank == 0:
            self._pmix.tell(f"flota.{name}", text)
        return self._meet(name, range(1))[0]

    def _meet(self, name: str, ranks: range) -> dict[int, str]:
        seconds = config.default_timeout()
        met = self._pmix.meet(seconds)
        told = self._pmix.told(f"flota.{name}", ranks)
        missing = [rank for rank in ranks if rank not in told]
        if not met or missing:
            raise SystemFailure(f"rank {self.rank} waited {seconds:g} s for {self._names(missing)}")
        return told

    def _names(self, missing: list[int]) -> str:
        named = {rank: self._pmix.host(rank) for rank in missing[:_NAMED]}
        who = ", ".join(f"{rank} ({host})" if host else str(rank) for rank, host in named.items())
        more = f" and {len(missing) - len(named)} more" if len(missing) > len(named) else ""
        return f"rank {who}{more}: every rank must call init()" if missing else "others that were there before"


class OverMpi4py(Ranks):
    """As text in buffers of one size: mpi4py would pickle objects, and no code travels here."""

    def __init__(self, rank: int, size: int, world: Any) -> None:
        super().__init__(rank, size)
        self._world = world

    def gather(self, name: str, text: str) -> list[str]:
        said = text.encode().ljust(_SAID)
        if len(said) > _SAID:
            raise InvalidArgument(f"rank {self.rank} has more to say than {_SAID} bytes of its {name}: {len(said)}")
        told = bytearray(_SAID * self.size)
        request = self._world.Iallgather(said, told)
        end = time.monotonic() + config.default_timeout()
        while not request.Test():
            if time.monotonic() > end:
                raise SystemFailure(f"rank {self.rank} waited {config.default_timeout():g} s for the others' {name}")
            time.sleep(_LOOK)
        return [told[i * _SAID : (i + 1) * _SAID].decode().strip() for i in range(self.size)]

    def spread(self, name: str, text: str) -> str:
        return self.gather(name, text if self.rank == 0 else "")[0]


def all_ranks(rank: int, size: int) -> Ranks:
    """The ranks of the job of which this is one."""
    library = pmix.load()
    if library is not None:
        return OverPmix(rank, size, pmix.Pmix(library))
    if find_spec("mpi4py") is not None:
        return OverMpi4py(rank, size, _wait_until_every_rank_calls_init())
    raise InvalidArgument(
        "ranks tell each other their addresses over PMIx or mpi4py, and here is neither: make libpmix.so.2, which "
        "comes with Open MPI, known to the linker (LD_LIBRARY_PATH), or pip install mpi4py"
    )


def _wait_until_every_rank_calls_init() -> Any:
    """mpi4py's import waits for all ranks, holding up every thread: only this way does it have a deadline. The
    traceback that ends the process has this function's name in it."""
    faulthandler.dump_traceback_later(config.default_timeout(), exit=True, file=sys.__stderr__ or 2)
    try:
        return import_module("mpi4py.MPI").COMM_WORLD
    finally:
        faulthandler.cancel_dump_traceback_later()
