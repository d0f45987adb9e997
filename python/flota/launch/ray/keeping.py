"""What servers keep: with --durable in a folder that all nodes share, else on the disks of their nodes.

A job whose folder is shared outlives a lost node and its own launch: it may be resumed. Without, a server that dies
comes back with all it had as long as its node does.
"""

from __future__ import annotations

import functools
import secrets
import time
from collections.abc import Callable, Mapping

from flota import config
from flota.errors import InvalidArgument, SystemFailure
from flota.launch.arguments import Arguments
from flota.launch.durable import OLD, RECORD, DurableFolder
from flota.launch.hosts import Endpoint
from flota.launch.plan import Plan
from flota.launch.ray.actor import ON_NODES
from flota.launch.record import FAILED, Record
from flota.launch.resuming import durable_place, how_to_resume, new_record, resumed_arguments, resumed_record

_SEEN_WITHIN = 15.0  # seconds until a file that was written here is seen by all who share the folder
_LOOK = 0.5


class Keeping:
    """The folder of what the servers of a job keep, claimed by this launch if it is a shared one."""

    def __init__(self, asked: Arguments) -> None:
        self.durable: DurableFolder | None = None
        self._record: Record | None = None
        shared = bool(asked.durable or config.durable_folder()) and not asked.no_durable
        self._on_nodes = "" if shared or asked.no_durable else f"{ON_NODES}{secrets.token_hex(6)}"
        if not shared:
            for name in ("resume", "keep_durable"):
                if getattr(asked, name):
                    raise InvalidArgument(
                        f"--{name} --on ray needs --durable=DIR, a folder that all nodes share: what servers keep on "
                        "their nodes' own disks ends with the job"
                    )
            return
        self.durable = DurableFolder.claim(durable_place(_nowhere(asked)), make=not asked.resume)
        if asked.resume:
            self._record = self.durable.resume()

    @property
    def folder(self) -> str:
        """In it, every server has a folder: a path from the root, or one in a node's place for temporary files; empty
        where servers keep nothing."""
        return self._on_nodes if self.durable is None else str(self.durable.path.resolve())

    @property
    def restarts(self) -> dict[str, int]:
        return {} if self.durable is None else self.durable.restarts

    @property
    def leavings(self) -> list[str]:
        """The folders that nodes are to be rid of at the end."""
        return [self._on_nodes] if self._on_nodes else []

    def close(self) -> None:
        if self.durable is not None:
            self.durable.close()

    def complete(self, asked: Arguments) -> Arguments:
        """With what the command line leaves out of a job that goes on."""
        if self.durable is None or self._record is None:
            return asked
        return resumed_arguments(asked, self._record, self.durable.path)

    def begin(self, asked: Arguments, plan: Plan) -> list[str]:
        """Writes down the job, new or resumed, before any of its processes is there; returns what is to be said."""
        if self.durable is None:
            return []
        if self._record is not None:
            record = self._record
            trouble = self.durable.begin(resumed_record(record, asked, plan))
            going_on = (
                f"going on with the job in {self.durable.path}, started {record.started}, which was {record.state}"
            )
            return [going_on, *([trouble] if trouble else [])]
        moved = self.durable.make_room(functools.partial(durable_place, plan))
        notes = []
        if moved == OLD:
            notes = [
                f"the job in {self.durable.path} did not finish: it is in {durable_place(plan, OLD)} now, and goes on "
                f"with {how_to_resume(plan, OLD)}"
            ]
        elif moved:
            notes = [f"what was kept in {self.durable.path} (--keep_durable) is in {durable_place(plan, moved)} now"]
        trouble = self.durable.begin(new_record(asked, plan))
        if trouble:
            raise SystemFailure("; ".join([*notes, trouble, "make room there, or do without it: --no_durable"]))
        return notes

    def check_shared(self, readers: Mapping[str, Callable[[str], str | None]]) -> None:
        """Refuses a folder that is not the same on all nodes. ``readers``: by node, what is in a file there."""
        if self.durable is None:
            return
        written = self.durable.path.resolve() / RECORD
        mine = written.read_text(encoding="utf-8")
        deadline = time.monotonic() + _SEEN_WITHIN
        for node, read in readers.items():
            while read(str(written)) != mine:
                if time.monotonic() > deadline:
                    self.durable.end(FAILED, keep=True)
                    raise InvalidArgument(
                        f"--durable={self.durable.path}: {node} does not see what this host writes there: name a "
                        "folder that all nodes share, or leave it out, and a lost node ends the job"
                    )
                time.sleep(_LOOK)


def _nowhere(asked: Arguments) -> Plan:
    """A plan that says no more than that all of the job is this launch's."""
    return Plan([], [], [], Endpoint("", 0), True, asked, [])
