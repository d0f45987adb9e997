"""The job's workers, for data sets and metrics."""

from __future__ import annotations

from flota.client import Client
from flota.fleet.part import Part
from flota.strategy import Sync
from flota.workers import Epoch, GoesOn, Where


class Team:
    """``flota.workers.Workers`` of the job that this process has a part in."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self.index = part.placement.index

    @property
    def count(self) -> int:
        return self._part.worker_num()

    @property
    def client(self) -> Client | None:
        return None if self._part.placement.local else self._part.connected()

    @property
    def in_step(self) -> bool:
        return isinstance(self._part.mode, Sync) and not self._part.placement.local

    @property
    def steps(self) -> int:
        return 0 if self._part.optimizer is None else self._part.optimizer.steps

    @property
    def applied(self) -> int:
        communicator = self._part.communicator
        return self.steps if communicator is None else communicator.applied(self.steps)

    def gather(self, name: str, payload: bytes) -> list[bytes]:
        return self._part.gather(name, payload)

    def gather_by_rank(self, name: str, payload: bytes) -> dict[int, bytes]:
        return self._part.gather_by_rank(name, payload)

    def leaves(self) -> bool:
        member = self._part.member
        return member is not None and member.look()

    def fixed_by(self, what: str) -> None:
        member = self._part.member
        if member is not None:
            member.go_if_asked()
            member.pin(what)

    def begin_epoch(self, epoch: Epoch) -> GoesOn | bool:
        communicator = self._part.communicator
        if self._part.member is not None:
            self._part.member.go_if_asked()
        if self.leaves():
            return False
        return True if communicator is None else communicator.begin_epoch(epoch)

    def end_epoch(self, epoch: Epoch) -> None:
        if self._part.communicator is not None:
            self._part.communicator.end_epoch(epoch)

    def where(self) -> Where | None:
        communicator = self._part.communicator
        return None if communicator is None else communicator.where()

    def idle(self) -> None:
        if self._part.communicator is not None:
            self._part.communicator.idle()
