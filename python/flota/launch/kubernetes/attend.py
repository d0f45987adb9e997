"""The first process of a pod: ``python -m flota.launch.kubernetes.attend worker -- train.py``.

It starts the script, hands signals on to it (from a pod's first process the kernel keeps those that it has no handler
for), waits for orphans, and ends as the script did. What it adds is what ``flota launch`` does elsewhere:

- An error that would come again (``flota.launch.restarts``) becomes exit status 70, at which Kubernetes ends the job
  instead of making the pod anew. Exit status 2, called wrongly, stays.
- A worker that the job goes on without ends well, whatever its script did (``late``): one that could not join, or was
  asked to leave, or comes when the job is over.
- With ``--stay``, when the script has ended well, it stays and answers at the health port: a StatefulSet would start a
  server again that has done its work. It holds no rows, and is not ready.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from flota import config
from flota.errors import FlotaError, InvalidArgument
from flota.health import open_health_port
from flota.launch.kubernetes import late
from flota.launch.progress import Progress, WorkerProgress
from flota.launch.restarts import DEFAULT_RESTARTS, Ending, judge
from flota.log import say
from flota.report import NOBODY_LEFT

WOULD_COME_AGAIN = 70  # EX_SOFTWARE
CALLED_WRONGLY = 2

_PR_SET_CHILD_SUBREAPER = 36
_HANDED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_ANYWHERE = "0.0.0.0"
_LOOK = 0.1  # seconds between two looks at what the script has reported
_IS_OVER = 5.0  # seconds between two questions whether the job is over, while the script has said nothing
_GRACE = 10.0  # seconds that a script may take to end


class _Script:
    """The script's process, and what is heard while it runs."""

    def __init__(self, words: Sequence[str], settings: dict[str, str]) -> None:
        self.told_to_end = False
        self._pid: int | None = None
        self._pending: list[int] = []
        self._asked_to_end = False
        for number in _HANDED_ON:
            signal.signal(number, self._hand_on)
        self._began = time.monotonic()
        self._process = subprocess.Popen([sys.executable, "-u", *words], env=config.child_environment(**settings))
        self._pid = self._process.pid
        for early in self._pending:  # that came while it was being started
            os.kill(self._pid, early)

    @property
    def ran(self) -> float:
        return time.monotonic() - self._began

    def _hand_on(self, number: int, _frame: FrameType | None) -> None:
        self.told_to_end = self.told_to_end or number in (signal.SIGTERM, signal.SIGINT)
        if self._pid is None:
            self._pending.append(number)
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, number)

    def end(self) -> None:
        """Asks it to; the second time it has to."""
        if self._pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL if self._asked_to_end else signal.SIGTERM)
        self._asked_to_end = True

    def ended(self) -> int | None:
        """As subprocess has it, below 0 for a signal; None while it runs. Orphans that have ended are waited for."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return 1  # somebody else has waited for it
            if pid == 0:
                return None
            if pid == self._pid:
                self._pid = None
                self._process.returncode = os.waitstatus_to_exitcode(status)
                return self._process.returncode


def _shown(status: int) -> int:
    return status if status >= 0 else 128 - status


def _why_not_again(role: str, status: int, ran: float, *, may_pass: bool) -> str:
    """Why another start would end the same way; empty: it may not."""
    # Kubernetes counts restarts; here it is only asked whether there is any use in one.
    verdict = judge(Ending(role, status, ran, 0, may_pass), DEFAULT_RESTARTS, durable=True)
    # A cluster may take its time to find places for workers that it has moved: servers wait for them once more.
    return "" if status == NOBODY_LEFT or verdict.again else verdict.reason


def _say(line: str) -> None:
    say("attend", line)


def _not_missed(word: str) -> int:
    _say(f"this worker {word}; the job goes on without it")
    late.leave_word(word)
    return 0


def _stay() -> int:
    """Answers at the health port until it is told to end."""
    told = False

    def end(_number: int, _frame: FrameType | None) -> None:
        nonlocal told
        told = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    health = open_health_port(config.listen_host() or _ANYWHERE, None, not_ready="finished")
    _say("this server has done its work, and waits to be removed (flota stop)")
    while not told:
        time.sleep(_LOOK)
    if health is not None:
        health.close()
    return 0


def _silent(worker: WorkerProgress) -> bool:
    return worker.step is None and not worker.finished and not worker.coming and not worker.joined


def _wait(script: _Script, progress: Progress, worker: WorkerProgress | None) -> tuple[int, bool]:
    """Its exit status, and whether it was ended here, as it came when the job was over."""
    over = False
    asks = worker is not None and late.is_first_start()
    due = time.monotonic() + _IS_OVER
    while (status := script.ended()) is None:
        time.sleep(_LOOK)
        progress.receive()
        if over and time.monotonic() > due:
            script.end()
        elif asks and worker is not None and _silent(worker) and time.monotonic() > due:
            due = time.monotonic() + _IS_OVER
            if late.job_is_over(config.server_list()):
                over, asks, due = True, False, time.monotonic() + _GRACE
                script.end()
    progress.receive()
    return status, over


def _ending(status: int) -> str:
    return f"it ended with exit status {status}" if status > 0 else f"it was ended by signal {-status}"


def attend(role: str, words: Sequence[str], *, stay: bool, restarts: int) -> int:
    # Orphans of the script become this process's children, also where it is not the first of its namespace.
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory(prefix="flota-") as folder:
        index = config.worker_index() if role == "worker" else None
        progress = Progress(Path(folder) / "report", [] if index is None else [index])
        worker = None if index is None else progress.workers[index]
        higher = late.told_higher() if index is not None else {}
        script = _Script(words, {config.REPORT: str(Path(folder) / "report"), **higher})
        status, over = _wait(script, progress, worker)
    if over:
        return _not_missed(late.TOO_LATE)
    if status == 0 and stay and not script.told_to_end:
        return _stay()
    if status == 0 and worker is not None and worker.left:
        late.leave_word(late.LEFT)
    if status == 0 or script.told_to_end:
        return _shown(status)
    why = _why_not_again(role, status, script.ran, may_pass=worker is not None and worker.may_pass)
    if index is not None and worker is not None:
        last = bool(why) or config.restarts() >= restarts
        if word := late.excuse(index, higher, worker, _ending(status), last=last):
            return _not_missed(word)
    if not why or status == CALLED_WRONGLY:
        return _shown(status)
    _say(
        f"this {role} ended with exit status {_shown(status)}, and is not started again: {why} (exit status "
        f"{WOULD_COME_AGAIN})"
    )
    return WOULD_COME_AGAIN


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m flota.launch.kubernetes.attend",
        usage="%(prog)s [--stay] [--restarts N] server|worker -- SCRIPT [ARGUMENTS]",
        allow_abbrev=False,
    )
    parser.add_argument("role", choices=("server", "worker"))
    parser.add_argument("--stay", action="store_true", help="when the script has ended well, wait to be removed")
    parser.add_argument(
        "--restarts", type=int, default=DEFAULT_RESTARTS, metavar="N", help="how many pods a worker may have beside one"
    )
    given = list(sys.argv[1:] if argv is None else argv)
    # By hand: argparse would take --stay for a word of the script's.
    cut = given.index("--") if "--" in given else len(given)
    arguments, words = parser.parse_args(given[:cut]), given[cut + 1 :]
    try:
        if not words:
            raise InvalidArgument("name a script after --")
        return attend(arguments.role, words, stay=arguments.stay, restarts=arguments.restarts)
    except FlotaError as error:
        print(f"flota: {error}", file=sys.stderr)
        return 2 if isinstance(error, InvalidArgument) else 1


if __name__ == "__main__":
    sys.exit(main())
