"""Envoys on their way: see ``envoy``, which a launch itself does not import, as it needs the core."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from flota import config
from flota.launch.processes import die_with

_END_WAIT = 5.0  # seconds that the kernel may take to end one that was killed


@dataclass(frozen=True)
class Said:
    """What it came back with: an error, or who the job's workers are."""

    error: str = ""
    workers: int = 0  # that have joined
    wanted: int = 0
    version: int = 0  # greater with each change


class Envoy:
    """One, from a worker of this host."""

    def __init__(self, environment: Mapping[str, str], *words: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "flota.launch.envoy", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=config.child_environment(**environment),
            start_new_session=True,
        )

    def said(self) -> Said | None:
        """None: it is not back yet."""
        if self._process.poll() is None:
            return None
        assert self._process.stdout is not None
        with self._process.stdout as out:
            text = out.read()
        try:
            return Said(**json.loads(text))
        except (ValueError, TypeError):
            return Said(error=f"the servers could not be asked: exit status {self._process.returncode}")

    def close(self) -> None:
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_WAIT)


class NoEnvoy(Envoy):
    """There was no room for another process."""

    def __init__(self, error: OSError) -> None:
        self._error = error

    def said(self) -> Said:
        return Said(error=f"the servers could not be asked: {os.strerror(self._error.errno or 0)}")

    def close(self) -> None: ...


class _Teller:
    """One that says more than one thing, each on a line."""

    def __init__(self, environment: Mapping[str, str], *words: str, first: Callable[[], None] | None = None) -> None:
        """``first``: what its process does before all else."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "flota.launch.envoy", *words],
            preexec_fn=first,
            stdin=subprocess.PIPE,  # a watch ends with this process
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=config.child_environment(**environment),
            start_new_session=True,
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self._text = b""

    def _lines(self) -> Iterator[Any]:
        """What it has said since the last time."""
        assert self._process.stdout is not None
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._process.stdout.fileno(), 1 << 16):
                self._text += data
        *lines, self._text = self._text.split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError):
                yield json.loads(line)

    @property
    def status(self) -> int | None:
        """Its exit status; None while it runs."""
        return self._process.poll()

    def close(self) -> None:
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_WAIT)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


class Watch(_Teller):
    """One that stays, and says whenever there are other workers, or shall be."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        super().__init__(environment, "watch")
        self._told = Said()
        self._away_since: float | None = time.monotonic()

    @property
    def told(self) -> Said:
        """The last that server 0 has said; of no workers while nothing was heard. With an error while it is away."""
        self._hear()
        return self._told

    def _hear(self) -> None:
        for line in self._lines():
            with contextlib.suppress(TypeError):
                self._told = Said(**line)
                if not self._told.error:
                    self._away_since = None
                elif self._away_since is None:
                    self._away_since = time.monotonic()

    @property
    def away_for(self) -> float:
        """Seconds for which server 0 has not answered."""
        self._hear()
        return 0.0 if self._away_since is None else time.monotonic() - self._away_since


class Change(_Teller):
    """One that asks for another number of workers, and tells how it goes on. Requires: the main thread starts it, with
    which it ends."""

    def __init__(self, environment: Mapping[str, str], workers: int, patience: float) -> None:
        super().__init__(environment, "change", str(workers), f"{patience:g}", first=die_with(os.getpid()))
        self.over = False

    def answers(self) -> list[dict[str, Any]]:
        """What it has told since the last call, as ``flota.launch.control`` has it; the last of all has ``end``."""
        status = self.status
        found = [answer for answer in self._lines() if isinstance(answer, dict) and not self.over]
        if status is not None and not any("end" in answer for answer in found) and not self.over:
            found.append({"end": f"the servers could not be asked: exit status {status}", "done": False})
        self.over = self.over or any("end" in answer for answer in found)
        return found
