"""The Ray cluster, and how it is asked.

Every call that may wait has a deadline. What Ray says goes wrong becomes an error of flota's, which names the node.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import socket
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import ray
import ray.exceptions

from flota.errors import SystemFailure
from flota.launch.ray.settings import Settings

CALL = 10.0  # seconds that a seat which is there may take to answer
_PROBE = 5.0
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
