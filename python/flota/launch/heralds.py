"""Heralds at work: see ``herald``, which a launch itself does not import, as it needs the core."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Mapping

from flota import config

_END_WAIT = 5.0  # seconds that the kernel may take to end one that was killed


class Herald:
    """One at work, for a worker of this host."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "flota.launch.herald"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=config.child_environment(**environment),
            start_new_session=True,
        )

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_WAIT)
