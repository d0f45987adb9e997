"""The Ray cluster: all that is asked of Ray itself.

Every call that may wait has a deadline. What Ray says goes wrong becomes an error of flota's, which names the node.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import ray
import ray.exceptions
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from flota.errors import SystemFailure
from flota.launch.ray.actor import Seat
from flota.launch.ray.settings import Settings

CALL = 10.0  # seconds that a seat which is there may take to answer
FIRST_CALL = 60.0  # and one that Ray is making: it is sent the script's folder, and a Python is started
_LOOK = 0.2
_PROBE = 5.0
_THREADS = 4  # calls that a seat takes at a time
_NOT_THERE = (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError)


class NotThere(SystemFailure):
    """A seat does not answer; it may yet."""


@contextlib.contextmanager
def connected(settings: Settings, excludes: Sequence[str], log: Path) -> Iterator[None]:
    """This process as a driver of the cluster. ``excludes``: what of the script's folder is not sent. ``log``: a file
    for what Ray says meanwhile."""
    if settings.address != "auto":
        _probe(settings.address)
    _keep_messages(log)
    environment: dict[str, Any] = {}
    if settings.package is not None:
        environment = {"working_dir": str(settings.package), "excludes": list(excludes)}
    # While Ray looks for its cluster, which it does for minutes, it hears no handler of Python's.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        ray.init(
            address=settings.address,
            runtime_env=environment,
            log_to_driver=False,  # what processes print comes through their seats, with nothing of Ray's in it
            logging_level=logging.ERROR,
            configure_logging=True,
        )
    except ConnectionError as error:
        raise SystemFailure(
            f"--ray_address={settings.address}: {_words_of(error)}; start Ray on this host (ray start --address=…), "
            "and give the command there"
        ) from error
    except (ValueError, RuntimeError, ray.exceptions.RayError) as error:
        raise SystemFailure(
            f"Ray at {settings.address} refuses the job: {_words_of(error)}"
            + (f" (sent is {settings.package}; --job_workspace sends nothing)" if settings.package else "")
        ) from error
    finally:
        signal.signal(signal.SIGINT, before)
    try:
        yield
    finally:
        ray.shutdown()


def _keep_messages(log: Path) -> None:
    """What Ray says of the cluster, pages of it when a node is lost, goes to a file: the terminal is the job's."""

    def write(data: Any, ignore_prefix: bool) -> None:
        with contextlib.suppress(OSError), log.open("a", encoding="utf-8") as out:  # a full disk
            out.writelines(f"{datetime.now():%Y-%m-%d %H:%M:%S} {line}\n" for line in data["lines"])

    # Ray has no setting for it. Where its name for it changes, its messages are on the terminal again.
    ray._private.worker.print_to_stdstream = write


def _probe(address: str) -> None:
    """Ray itself would try for a minute."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PROBE).close()
    except OSError as error:
        raise SystemFailure(
            f"--ray_address={address}: nothing answers there ({error}); is Ray running? `ray start --head` names the "
            "address"
        ) from error


def _words_of(error: BaseException) -> str:
    """What happened, and why: the first line of what Ray says, and the last; a trace may lie in between."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return ": ".join(dict.fromkeys([lines[0], lines[-1]])) if lines else type(error).__name__


def nodes() -> list[dict[str, Any]]:
    """The nodes that are alive."""
    known: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return [node for node in known if node["Alive"]]


def node_is_alive(node: str) -> bool:
    return any(known["NodeID"] == node for known in nodes())


def resources_text(asked: Mapping[str, float]) -> str:
    def amount(name: str, number: float) -> str:
        return f"{number / (1 << 20):.0f} MiB" if name == "memory" else f"{name} {number:g}"

    return ", ".join(amount(name, number) for name, number in asked.items()) or "nothing"


def what_there_is() -> str:
    """What each node has free, in words."""
    free = ray._private.state.available_resources_per_node()  # type: ignore[no-untyped-call]
    shown = []
    for node in nodes():
        here = free.get(node["NodeID"], {})
        of = {name: node["Resources"].get(name, 0.0) for name in ("CPU", "GPU", "memory")}
        parts = [
            f"{name} {here.get(name, 0.0):g} of {total:g}"
            if name != "memory"
            else f"{here.get(name, 0.0) / (1 << 20):.0f} of {total / (1 << 20):.0f} MiB"
            for name, total in of.items()
            if total
        ]
        shown.append(f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']}) {', '.join(parts) or 'nothing'}")
    return "; ".join(shown)


class Place:
    """A placement group with a seat in each bundle."""

    def __init__(self, settings: Settings, names: Sequence[str], *, replaced: bool) -> None:
        """``replaced``: Ray finds another place for a seat whose node is lost."""
        self._settings = settings
        self.asked = [settings.server if name.startswith("server") else settings.worker for name in names]
        # A bundle of nothing is refused by Ray; this is the least that it takes.
        bundles = [asked or {"CPU": 0.001} for asked in self.asked]
        self._group = placement_group(bundles, strategy=settings.strategy)
        self._replaced = replaced
        self._seats: list[Any] = []

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
        self._make_seats()
        calls = [seat.hello.remote() for seat in self._seats]
        deadline = time.monotonic() + FIRST_CALL
        while len(ray.wait(calls, num_returns=len(calls), timeout=_LOOK)[0]) < len(calls):
            if interrupted():
                return None
            if time.monotonic() > deadline:
                break
        return [(seat, ask(call)) for seat, call in zip(self._seats, calls, strict=True)]

    def _asked_text(self) -> str:
        counts: dict[str, int] = {}
        for asked in self.asked:
            text = resources_text(asked)
            counts[text] = counts.get(text, 0) + 1
        return ", ".join(f"{number} of ({text})" for text, number in counts.items())

    def _make_seats(self) -> None:
        for index, asked in enumerate(self.asked):
            where = PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=index)
            bundle = asked or {"CPU": 0.001}
            self._seats.append(
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

    def close(self, leavings: Sequence[str] = ()) -> None:
        """Ends the seats, what is left in them, and these folders on their nodes."""
        calls = [seat.end.remote(list(leavings)) for seat in self._seats]
        if calls:
            ray.wait(calls, num_returns=len(calls), timeout=CALL)
        for seat in self._seats:
            with contextlib.suppress(ray.exceptions.RayError):
                ray.kill(seat)
        remove_placement_group(self._group)


def ask(call: Any, timeout: float = CALL) -> Any:
    """The answer of a seat to a call that was made; NotThere where it has none in time."""
    try:
        return ray.get(call, timeout=timeout)
    except _NOT_THERE as error:
        raise NotThere(_words_of(error)) from error
    except ray.exceptions.RuntimeEnvSetupError as error:
        raise SystemFailure(f"Ray could not send the script's folder to a node: {error}") from error
    except ray.exceptions.RayError as error:
        raise SystemFailure(f"a seat failed: {error}") from error


def bracketed(address: str) -> str:
    """An address as it stands before a port."""
    return f"[{address}]" if ":" in address else address


def answered(call: Any) -> bool:
    return bool(ray.wait([call], timeout=0)[0])


def is_dead(error: BaseException | None) -> bool:
    """Whether Ray has given up the seat for good."""
    return isinstance(error, ray.exceptions.ActorDiedError)
