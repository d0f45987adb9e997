"""A launch that stays until its job has ended: tells what happens, shows what workers print, and cleans up."""

from __future__ import annotations

import contextlib
import select
import subprocess
import threading
import time

from flota.errors import SystemFailure
from flota.launch.kubernetes.cluster import FAILED, FINISHED, RUNNING, JobFound, Pod, look, remove
from flota.launch.kubernetes.kubectl import Kubectl
from flota.launch.kubernetes.scaling import not_needed_from, set_number
from flota.launch.kubernetes.settings import Settings
from flota.launch.saying import say, show
from flota.launch.scaling import names, workers_text
from flota.launch.signals import Signals

MOST_STREAMS = 8  # workers whose logs are shown; `flota logs` shows any

_EVERY = 2.0  # seconds between two looks at the cluster
_REMIND = 60.0  # seconds after which it is said again what is waited for
_UNREACHABLE = 600.0  # seconds that the cluster may be away
_LAST_LINES = 20
_STREAM_ENDS = 10.0  # seconds that the rest of a log may take


class Stream:
    """What one pod prints, line by line, until its container ends."""

    def __init__(self, kubectl: Kubectl, pod: Pod) -> None:
        self.pod = pod
        self._kubectl = kubectl
        self._last = ""  # time of the last line that was shown
        self._begin()

    def _begin(self) -> None:
        since = [f"--since-time={self._last}"] if self._last else []
        command = self._kubectl.command(["logs", "--follow", "--timestamps", f"pod/{self.pod.name}", *since])
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            errors="replace", start_new_session=True,
        )  # fmt: skip
        self._thread = threading.Thread(target=self._show, args=(self._process,), daemon=True)
        self._thread.start()

    def _show(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with contextlib.suppress(ValueError, OSError):
            for line in process.stdout:
                # Of one length and in UTC, so that their order is that of their text.
                when, _, text = line.partition(" ")
                if when > self._last:
                    self._last = when
                    show(f"{self.pod.member}: {text.rstrip()}")

    def go_on(self) -> None:
        """Begins again where the connection was lost while the pod runs."""
        if self._process.poll() is not None:
            self._thread.join(_STREAM_ENDS)
            self._begin()

    def close(self) -> None:
        """Shows what has come, and ends."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_STREAM_ENDS)
        self.kill()
        self._thread.join(_STREAM_ENDS)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class Following:
    def __init__(self, settings: Settings, kubectl: Kubectl, signals: Signals) -> None:
        self._settings = settings
        self._kubectl = kubectl
        self._signals = signals
        self._told: dict[str, str] = {}  # by member: its last state
        self._streams: dict[str, Stream] = {}  # by pod
        self._workers = settings.worker_num
        self._reminded = time.monotonic()
        self._reached = time.monotonic()

    def run(self) -> int:
        """Returns the command's exit status."""
        try:
            return self._run()
        finally:
            for stream in self._streams.values():
                stream.kill()

    def _run(self) -> int:
        while True:
            self._hear()
            if self._signals.received:
                return self._stopped(self._signals.received[0])
            found = self._look()
            if found is not None:
                self._tell(found)
                self._give_up_late(found)
                if found.state == FINISHED:
                    return self._finished()
                if found.state == FAILED:
                    return self._failed(found)
                if not found.exists:
                    raise SystemFailure(
                        f"the job {self._settings.name} is gone: somebody else has removed it (flota stop, kubectl)"
                    )
            self._wait()

    def _hear(self) -> None:
        """Takes what has woken this process so far: the ends of kubectl among it, which are no news."""
        with contextlib.suppress(BlockingIOError):
            while self._signals.wake.recv(1024):
                pass

    def _wait(self) -> None:
        until = time.monotonic() + _EVERY
        while not self._signals.received and (left := until - time.monotonic()) > 0:
            select.select([self._signals.wake], [], [], left)
            self._hear()

    def _look(self) -> JobFound | None:
        """What there is; None while the cluster does not answer, for a time."""
        try:
            found = look(self._kubectl, self._settings.name, jobsets=self._settings.jobset)
        except SystemFailure as error:
            away = time.monotonic() - self._reached
            if away > _UNREACHABLE:
                raise SystemFailure(
                    f"{error}; the cluster has not answered for {away:.0f} s. The job goes on without this launch: "
                    f"flota status {self._settings.name}"
                ) from error
            self._note("cluster", f"does not answer ({error}); the job goes on, and is looked for again")
            return None
        self._reached = time.monotonic()
        if self._told.pop("cluster", None):
            say("the cluster answers again")
        return found

    def _note(self, member: str, state: str) -> None:
        if self._told.get(member) != state:
            self._told[member] = state
            say(f"{member} {state}")

    def _tell(self, found: JobFound) -> None:
        newest = found.newest()
        if found.workers not in (0, self._workers):
            say(f"the job has {workers_text(found.workers)} from now on ({self._workers} before)")
            self._workers = found.workers
        for pod in newest:
            self._note(pod.member, pod.state)
            if pod.role == "worker" and pod.started and (pod.index < MOST_STREAMS):
                if pod.name not in self._streams:
                    self._streams[pod.name] = Stream(self._kubectl, pod)
                elif pod.phase == "Running":
                    self._streams[pod.name].go_on()
        away = self._missing(newest)
        if away and time.monotonic() - self._reminded > _REMIND:
            self._reminded = time.monotonic()
            say(f"still waiting for {', '.join(away)}")

    def _give_up_late(self, found: JobFound) -> None:
        """Workers that were asked for while the job ran (``flota scale``), and never came, do not keep it from its
        end."""
        done = not_needed_from(found, self._settings.worker_num)
        if found.state != RUNNING or done is None:
            return
        late = names(range(done, found.workers))
        try:
            if set_number(self._kubectl, found, done):
                say(f"{late} never came: the job ends without")
        except SystemFailure as error:
            self._note(late, f"never came, and keeps the job from its end: {error}")

    def _missing(self, newest: list[Pod]) -> list[str]:
        there = {pod.member for pod in newest if pod.phase != "Pending" and not pod.trouble}
        servers = [f"server {i}" for i in range(self._settings.server_num)]
        workers = [f"worker {i}" for i in range(self._workers)]
        return [member for member in [*servers, *workers] if member not in there]

    def _close_streams(self) -> None:
        for stream in self._streams.values():
            stream.close()
        self._streams.clear()

    def _finished(self) -> int:
        self._close_streams()
        settings = self._settings
        remove(self._kubectl, settings.name, jobsets=settings.jobset, volumes=not settings.keep_durable)
        kept = "; what its servers kept is left (--keep_durable)" if settings.keep_durable else ""
        say(f"the job {settings.name} has finished{kept}")
        return 0

    def _failed(self, found: JobFound) -> int:
        self._close_streams()
        name = self._settings.name
        at_fault = [pod for pod in found.pods if pod.exit_status and pod.started]
        for pod in at_fault[-1:]:
            previous = ["--previous"] if pod.role == "server" and pod.restarts else []
            log = self._kubectl.tried(["logs", f"pod/{pod.name}", f"--tail={_LAST_LINES}", *previous]).stdout
            show(f"the end of {pod.member}'s log:\n{log.rstrip()}", error=True)
        say(f"the job {name} has failed: {found.message}")
        if self._settings.jobset:
            # Its servers have ended with it.
            say(
                f"logs are left (flota logs {name} worker-0), and what servers kept; flota stop {name} removes the rest"
            )
        else:
            self._kubectl.run(["delete", "statefulsets.apps", f"{name}-server", "--ignore-not-found"])
            say(f"its servers are stopped; left are workers' logs (flota logs {name} worker-0) and what servers kept")
        if self._settings.durable:
            say(f"to go on with it: the same command with --resume; to give it up: flota stop {name} --volumes")
        return found.exit_status

    def _stopped(self, signal: int) -> int:
        settings = self._settings
        say(f"stopping the job {settings.name}")
        remove(self._kubectl, settings.name, jobsets=settings.jobset, volumes=False)
        self._close_streams()
        if settings.durable:
            say(
                "what its servers kept is left: go on with the same command and --resume, or give it up with "
                f"flota stop {settings.name} --volumes"
            )
        return 128 + signal
