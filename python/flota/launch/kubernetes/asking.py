"""Server 0 of a job on a cluster, asked from inside: by envoys that ``kubectl exec`` runs in the pod of a worker.

A worker's pod has what it takes: the servers' names, the secret and a client's certificate. Nothing of that leaves the
cluster, and no port has to be reached from outside.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time

from flota.errors import DeadlineExceeded, SystemFailure
from flota.launch.envoys import Said
from flota.launch.kubernetes.cluster import JobFound, Pod
from flota.launch.kubernetes.kubectl import Kubectl, reason

_TELL_SECONDS = 30  # that server 0 may take; one that comes back from a death is asked again meanwhile
_START_SECONDS = 60  # that a cluster may take to start a process in a pod, and that to start
_OPEN_AGAIN = 2.0  # seconds after which a watch that broke is begun again
_END_WAIT = 5.0


def pod_to_ask(found: JobFound) -> Pod | None:
    """One that runs; worker 0's, if it does: that stays whatever the number."""
    running = [pod for pod in found.newest() if pod.role == "worker" and pod.phase == "Running" and pod.started]
    return min(running, key=lambda pod: pod.index, default=None)


def _words(pod: Pod, *words: str) -> list[str]:
    python = ["python", "-m", "flota.launch.kubernetes.inside", str(_TELL_SECONDS)]
    return [f"pod/{pod.name}", "--container=worker", "--", *python, *words]


def tell(kubectl: Kubectl, pod: Pod, *words: str) -> Said:
    """What server 0 answers, an error of its own included. Raises SystemFailure where it could not be asked."""
    command = kubectl.command(["exec", *_words(pod, *words)])
    seconds = _TELL_SECONDS + _START_SECONDS
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=seconds,
            start_new_session=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise DeadlineExceeded(f"kubectl exec pod/{pod.name} did not come back within {seconds} s") from None
    for line in reversed(done.stdout.splitlines()):
        with contextlib.suppress(ValueError, TypeError):
            return Said(**json.loads(line))
    raise SystemFailure(
        f"server 0 could not be asked from {pod.member} (kubectl exec {pod.name}): {reason(done.stderr)}"
    )


class Watching:
    """What server 0 says, whenever it is something else: an envoy that stays. Where its pod ends, another has one."""

    def __init__(self, kubectl: Kubectl) -> None:
        self._kubectl = kubectl
        self._process: subprocess.Popen[bytes] | None = None
        self._text = b""
        self._told = Said()
        self._due = 0.0

    def told(self, found: JobFound) -> Said:
        """The last that it has said; of no workers where nothing was heard since it began, or since it broke off."""
        if self._process is None or self._process.poll() is not None:
            self._open(found)
        if self._process is not None:
            assert self._process.stdout is not None
            with contextlib.suppress(BlockingIOError):
                self._text += os.read(self._process.stdout.fileno(), 1 << 16)
        *lines, self._text = self._text.split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError, TypeError):
                self._told = Said(**json.loads(line))
        return self._told

    def forget(self) -> None:
        """What it has said is of before server 0 was told something else."""
        self.close()
        self._text, self._told, self._due = b"", Said(), 0.0

    def _open(self, found: JobFound) -> None:
        self.close()
        self._text, self._told = b"", Said()
        if time.monotonic() < self._due or (pod := pod_to_ask(found)) is None:
            return
        self._due = time.monotonic() + _OPEN_AGAIN
        self._process = subprocess.Popen(
            self._kubectl.command(["exec", "--stdin", *_words(pod, "watch")]),
            stdin=subprocess.PIPE,  # it ends with this process
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)

    def close(self) -> None:
        if self._process is None:
            return
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        # With its input the envoy in the pod ends, and then kubectl.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_WAIT)
        self._process = None
