"""The folder that a job can be resumed from.

    DIR/job.json      what was started, and how it ended
    DIR/lock          held by the launch that runs the job; its process number is in it
    DIR/server-0/ …   what each server keeps

``job.json`` is there, whole, before any process is started, so whatever servers leave behind is some job's. A launch
that is killed leaves it saying that the job runs; the lock, which ends with the launch and its processes, says that it
does not.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import itertools
import os
import shutil
import time
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

from flota.errors import InvalidArgument, SystemFailure
from flota.launch.guard import runs
from flota.launch.record import FINISHED, Record, draft_of, read, write

OLD = ".old"
RECORD = "job.json"

_LOCK, _SERVERS = "lock", "server-*"

# A launch that was killed has a guard, which ends its processes before it lets go of the lock.
_GUARD_WAIT = 10.0
_LOOK = 0.02


class DurableFolder:
    """The folder, held by this launch until ``close``."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock
        self._record: Record | None = None

    @classmethod
    def claim(cls, path: Path, *, make: bool) -> DurableFolder:
        """Takes the folder; refused while another launch has it. ``make``: it need not be there yet."""
        try:
            if make:
                path.mkdir(parents=True, exist_ok=True)
            elif not (path / RECORD).exists():
                raise InvalidArgument(_nothing_to_resume(path))
            return cls(path, _locked(path))
        except OSError as error:
            if isinstance(error, SystemFailure):
                raise
            raise SystemFailure(
                f"--durable={path}: {error.strerror}: {error.filename}; name another folder, or do without it: "
                "--no_durable"
            ) from error

    @property
    def lock(self) -> int:
        return self._lock

    def close(self) -> None:
        os.close(self._lock)

    @property
    def holds_anything(self) -> bool:
        """Whether servers have kept something by now: without, a resumed job begins at its beginning."""
        return any(self.path.glob(_SERVERS))

    def holds(self, server: int) -> bool:
        """Whether this server has kept something: there is more than its lock in its folder."""
        with contextlib.suppress(OSError):
            return any(name != _LOCK for name in os.listdir(self._folder(server)))
        return False

    def _folder(self, server: int) -> Path:
        return self.path / _SERVERS.replace("*", str(server))

    @property
    def restarts(self) -> dict[str, int]:
        """How often each process was started before this launch."""
        return dict(self._known.restarts)

    def resume(self) -> Record:
        """What is to be gone on with; refused where that is over, another flota's, or not whole."""
        record = read(self.path / RECORD)
        if record.state == FINISHED:
            raise InvalidArgument(f"the job in {self.path} has finished: there is nothing to resume")
        mine = metadata.version("flota")
        if record.flota != mine:
            raise InvalidArgument(
                f"the job in {self.path} is flota {record.flota}'s, and this is flota {mine}: resume it with that one"
            )
        lost = [server for server in record.kept if not self.holds(server)]
        if lost:
            raise InvalidArgument(
                f"what server{'s' * (len(lost) > 1)} {', '.join(map(str, lost))} kept is gone: nothing is in "
                f"{', '.join(str(self._folder(server)) for server in lost)}, and the job would go on without those "
                "rows; bring it back, or start the job anew, without --resume"
            )
        return record

    def begin(self, record: Record) -> str | None:
        """Writes down the job, which is new or goes on. Requires: ``make_room``, or ``resume``, passed."""
        self._record = record
        return self._write()

    def make_room(self, place: Callable[[str], Path]) -> str | None:
        """Prepares the folder for a new job; ``place`` is the one beside it with a suffix to its name.

        A job that did not finish is moved to OLD, and replaces what is there. One that finished and is to be kept
        replaces nothing. Returns the suffix of where it is now, or None where there was nothing to move.
        """
        self._refuse_others()
        if not (self.path / RECORD).exists():
            if self.holds_anything:
                raise InvalidArgument(
                    f"{self.path} holds what servers kept, and no {RECORD}: it is no launch's; name another folder "
                    "with --durable, or take it away"
                )
            return None
        suffix = OLD
        with contextlib.suppress(InvalidArgument):
            record = read(self.path / RECORD)
            if record.is_kept:
                names = (f".kept-{n}" for n in itertools.count(1))
                suffix = next(name for name in names if not place(name).exists())
            elif record.state == FINISHED:
                self._remove_servers()
        if not self.holds_anything:
            return None
        self._move_to(place(suffix))
        return suffix

    def started_again(self, name: str, restarts: int) -> str | None:
        return self._change(restarts={**self._known.restarts, name: restarts})

    def scaled(self, workers: int) -> str | None:
        """The job has another number of workers from here on."""
        return self._change(worker_num=workers)

    def note_kept(self, servers: Iterable[int]) -> str | None:
        """Writes down which of these servers have kept something by now, so that it is missed should it be gone. Those
        that a launch did not get to see at work have nothing that could be missed."""
        new = [server for server in servers if server not in self._known.kept and self.holds(server)]
        return self._change(kept=[*self._known.kept, *new]) if new else None

    def end(self, state: str, *, keep: bool) -> str | None:
        """Notes how the job ended. What the servers of a finished one kept is removed, unless it is to be kept."""
        trouble = self._change(state=state)
        if state != FINISHED or keep:
            return trouble
        self._remove_servers()
        return self._write() if trouble else None  # there may be room now

    @property
    def _known(self) -> Record:
        assert self._record is not None, "begin() comes first"
        return self._record

    def _change(self, **values: Any) -> str | None:
        self._record = dataclasses.replace(self._known, **values)
        return self._write()

    def _write(self) -> str | None:
        return write(self._known, self.path / RECORD)

    def _refuse_others(self) -> None:
        known = {RECORD, draft_of(RECORD), _LOCK, *(file.name for file in self.path.glob(_SERVERS))}
        others = sorted(file.name for file in self.path.iterdir() if file.name not in known)
        if others:
            raise InvalidArgument(
                f"--durable={self.path}: there are other things in it ({others[0]}); name a folder for this alone"
            )

    def _remove_servers(self) -> None:
        for folder in self.path.glob(_SERVERS):
            shutil.rmtree(folder, ignore_errors=True)

    def _move_to(self, aside: Path) -> None:
        if Path.cwd().is_relative_to(self.path.resolve()):
            raise InvalidArgument(
                f"the job in {self.path} would be moved to {aside}, and this launch with it, which was started in "
                "there: start it in another folder"
            )
        try:
            if aside.exists():
                if not (aside / RECORD).exists() or _is_kept(aside):
                    raise InvalidArgument(
                        f"the unfinished job in {self.path} would be moved to {aside}, and something else is there "
                        "that may not be replaced: take it away, or resume the job with --resume"
                    )
                with contextlib.closing(DurableFolder.claim(aside, make=False)):
                    shutil.rmtree(aside)
            self.path.rename(aside)
            self.path.mkdir()
            lock = _locked(self.path)
        except OSError as error:
            if isinstance(error, SystemFailure):
                raise
            raise SystemFailure(f"cannot move {self.path} to {aside}: {error.strerror}") from error
        self.close()
        self._lock = lock


def _is_kept(path: Path) -> bool:
    with contextlib.suppress(InvalidArgument):  # a damaged one is no finished job's
        return read(path / RECORD).is_kept
    return False


def _nothing_to_resume(path: Path) -> str:
    elsewhere = sorted(str(file.parent) for file in path.parent.glob(f"{path.name}-*/{RECORD}"))
    if elsewhere:
        return (
            f"there is no job in {path}, and one of several hosts in {', '.join(elsewhere)}: give the same --ips, or "
            "--servers and --workers, as before"
        )
    return f"there is no job in {path} to resume: --log_dir or --durable says where one is"


def _locked(path: Path) -> int:
    """The folder's lock, taken. It is not inherited by what is started; the guard has it, too."""
    file = path / _LOCK
    deadline = time.monotonic() + _GUARD_WAIT
    while True:
        lock = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(lock, 32).decode(errors="replace").strip()
            os.close(lock)
            if (holder.isdecimal() and runs(int(holder))) or time.monotonic() > deadline:
                raise SystemFailure(
                    f"another launch (pid {holder or 'unknown'}) runs a job in {path}: wait for its end or stop it; a "
                    "job beside it needs another --log_dir or --durable"
                ) from None
            time.sleep(_LOOK)
            continue
        # Between the two calls the folder may have been moved aside, and the lock with it.
        if file.exists() and os.path.samestat(os.fstat(lock), file.stat()):
            os.ftruncate(lock, 0)
            with contextlib.suppress(OSError):  # a full disk; the number is for messages
                os.write(lock, f"{os.getpid()}\n".encode())
            return lock
        os.close(lock)
