"""Envoys on their way: see ``envoy``, which a launch itself does not import, as it needs the core."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from flota import config

_END_WAIT = 5.0  # seconds that the kernel may take to end one that was killed


@dataclass(frozen=True)
class Said:
    """What it came back with: an error, or who the job's workers are."""

    error: str = ""
    workers: int = 0  # that have joined
    wanted: int = 0


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


class Watch:
    """One that stays, and says whenever there are other workers, or shall be."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "flota.launch.envoy", "watch"],
            stdin=subprocess.PIPE,  # it ends with this process
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=config.child_environment(**environment),
            start_new_session=True,
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self._text = b""
        self._told = Said()

    @property
    def told(self) -> Said:
        """The last that it has said; of no workers while nothing was heard."""
        assert self._process.stdout is not None
        with contextlib.suppress(BlockingIOError):
            self._text += os.read(self._process.stdout.fileno(), 1 << 16)
        *lines, self._text = self._text.split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError, TypeError):
                self._told = Said(**json.loads(line))
        return self._told

    def close(self) -> None:
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_WAIT)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
