"""The seats of a job: those that Ray sets aside for it at its beginning, and those that are found beside them.

A placement group makes room for all of a job or for nothing of it, and cannot grow: a worker that joins later, beyond
the number of the beginning, has an actor without one. Nor can it shrink: what was set aside for a worker that has left
stays so until the job ends, for the next of its number.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray
import ray.exceptions
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from flota.errors import SystemFailure
from flota.launch.ray.actor import Seat
from flota.launch.ray.cluster import CALL, NotThere, answered, ask, is_dead, resources_text, what_there_is
from flota.launch.ray.settings import Settings

FIRST_CALL = 60.0  # seconds for a seat that Ray is making: it is sent the script's folder, and a Python is started
_LOOK = 0.2
_THREADS = 4  # calls that a seat takes at a time
_NOTHING = {"CPU": 0.001}  # a bundle of nothing is refused by Ray; this is the least that it takes

# Without a group: how Ray is to choose a node for a single actor. The strict strategies are not there: Ray holds them
# among the bundles of one group alone.
BESIDE = {"SPREAD": "SPREAD", "PACK": "DEFAULT"}


@dataclass(frozen=True)
class Node:
    """Where a seat is."""

    id: str
    host: str
    address: str

    @classmethod
    def of(cls, hello: Mapping[str, Any]) -> Node:
        return cls(hello["node"], hello["host"], hello["address"])

    def __str__(self) -> str:
        return self.address if self.host == self.address else f"{self.host} ({self.address})"


class Sought:
    """A seat that was asked for, and is somewhere or nowhere yet."""

    def __init__(self, seat: Any, *, for_any: bool) -> None:
        """``for_any``: another worker may have it as well."""
        self.seat = seat
        self.for_any = for_any
        self.told = False  # whoever waits for it, that it takes long
        self._since = time.monotonic()
        self._hello = seat.hello.remote()

    @property
    def waited(self) -> float:
        """Seconds."""
        return time.monotonic() - self._since

    @property
    def has_answered(self) -> bool:
        return answered(self._hello)

    def hello(self) -> Mapping[str, Any] | None:
        """What it says of itself, once it is somewhere. An error: it will not be."""
        if not self.has_answered:
            return None
        try:
            return ask(self._hello)  # type: ignore[no-any-return]
        except NotThere as error:
            if is_dead(error.__cause__):
                raise
        self._hello = self.seat.hello.remote()  # its node was lost in that moment: Ray looks for another
        return None


class Place:
    """A placement group with a seat in each bundle, and the seats beside it."""

    def __init__(self, settings: Settings, names: Sequence[str], *, replaced: bool) -> None:
        """``names``: of the processes, servers first. ``replaced``: Ray finds another place for a seat whose node is
        lost."""
        self._settings = settings
        self.asked = [settings.server if name.startswith("server") else settings.worker for name in names]
        self._servers = sum(name.startswith("server") for name in names)
        self._group = placement_group([asked or _NOTHING for asked in self.asked], strategy=settings.strategy)
        self._replaced = replaced
        self._seats: list[Any] = []
        self._sought: list[Sought] = []

    def take(self, interrupted: Callable[[], bool]) -> list[tuple[Any, dict[str, Any]]] | None:
        """A seat for each, and what it says of itself, once there is room for all; None: interrupted."""
        deadline = time.monotonic() + self._settings.wait
        ready = self._group.ready()
        while not ray.wait([ready], timeout=_LOOK)[0]:
            if interrupted():
                return None
            if time.monotonic() > deadline:
                raise SystemFailure(
                    f"Ray has had no room for the job for {self._settings.wait:g} s (--ray_wait): "
                    f"{len(self.asked)} processes ask for {self._asked_text()}, placed {self._settings.strategy}; free "
                    f"is: {what_there_is()}"
                )
        self._seats = [self._make_seat(asked, self._bundle(index)) for index, asked in enumerate(self.asked)]
        calls = [seat.hello.remote() for seat in self._seats]
        deadline = time.monotonic() + FIRST_CALL
        while len(ray.wait(calls, num_returns=len(calls), timeout=_LOOK)[0]) < len(calls):
            if interrupted():
                return None
            if time.monotonic() > deadline:
                break
        return [(seat, ask(call)) for seat, call in zip(self._seats, calls, strict=True)]

    def seek(self, worker: int) -> Sought:
        """Asks for a seat for this worker, which has none: in the bundle that is set aside for it, or beside them."""
        index = self._servers + worker
        beside = index >= len(self.asked)
        where = BESIDE[self._settings.strategy] if beside else self._bundle(index)
        sought = Sought(self._make_seat(self._settings.worker, where), for_any=beside)
        self._sought.append(sought)
        return sought

    def give_back(self, seat: Any) -> None:
        """Ends a seat in which nothing runs any more, or that is nowhere yet."""
        self._seats = [one for one in self._seats if one is not seat]
        self._sought = [one for one in self._sought if one.seat is not seat]
        _kill(seat)

    def close(self, leavings: Sequence[str] = ()) -> None:
        """Ends the seats, what is left in them, and these folders on their nodes."""
        for sought in list(self._sought):
            if not sought.has_answered:
                self.give_back(sought.seat)  # it would not answer now
        seats = [*self._seats, *(sought.seat for sought in self._sought)]
        calls = [seat.end.remote(list(leavings)) for seat in seats]
        if calls:
            ray.wait(calls, num_returns=len(calls), timeout=CALL)
        for seat in seats:
            _kill(seat)
        remove_placement_group(self._group)

    def _asked_text(self) -> str:
        counts: dict[str, int] = {}
        for asked in self.asked:
            text = resources_text(asked)
            counts[text] = counts.get(text, 0) + 1
        return ", ".join(f"{number} of ({text})" for text, number in counts.items())

    def _bundle(self, index: int) -> PlacementGroupSchedulingStrategy:
        return PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=index)

    def _make_seat(self, asked: Mapping[str, float], where: str | PlacementGroupSchedulingStrategy) -> Any:
        bundle = asked or _NOTHING
        return (
            ray.remote(Seat)
            .options(
                num_cpus=bundle.get("CPU", 0),
                num_gpus=bundle.get("GPU", 0),
                memory=bundle.get("memory") or None,
                scheduling_strategy=where,
                # How often a process is started again is decided here, and forgotten after ten minutes of life.
                max_restarts=-1 if self._replaced else 0,
                max_concurrency=_THREADS,
            )
            .remote()
        )


def _kill(seat: Any) -> None:
    # Its keeper's input ends with it, and so its keeper does, and what that has started.
    with contextlib.suppress(ray.exceptions.RayError):
        ray.kill(seat)
