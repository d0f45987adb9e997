"""Runs jobs that faults befall, to their end, and says what became of them."""

import contextlib
import ctypes
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from faults import empty_disk_of

HERE = Path(__file__).parent
SCRIPT = HERE / "job.py"

TIMEOUT = 30.0  # FLOTA_TIMEOUT of the jobs, seconds
SHORT = 4.0  # where somebody is paused
STOPPED = 6.0  # how long: longer than that
FULL = 1.5  # how long a disk stays full
MOST = 60.0  # a job that has not ended by then hangs

FILES, LINES, BATCH = 8, 250, 25
SAMPLES = FILES * LINES
K_STEPS, REPORT = 4, 200
READ_AHEAD = 2 * LINES  # a file is one block: that in use, and the next

# What the environment of whoever runs this may say about jobs.
JOB_NAMES = ("FLOTA_", "PADDLE_", "FLAGS_", "POD_IP", "TRAINING_ROLE", "OMP_")


@dataclass
class Outcome:
    """``error``: what is wrong, or nothing."""

    error: str = ""
    ended: str = ""  # how, in the matrix's words
    recovery: float | None = None  # seconds: see Run._pause
    seconds: float = 0.0
    retrained: int = 0  # samples that were trained more than once
    notes: list[str] = field(default_factory=list)


def make_files(folder):
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for number in range(FILES):
        keys = range(number * LINES, (number + 1) * LINES)
        files.append(str(folder / f"part-{number}"))
        Path(files[-1]).write_text("".join(f"1 {key} 1 {key % 7 / 7:.4f}\n" for key in keys))
    return files


def environment(timeout):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(JOB_NAMES)}
    return {**clean, "FLOTA_TIMEOUT": str(timeout), "OMP_NUM_THREADS": "1"}


class Run:
    """One job from its launch to its end, in a folder of its own."""

    def __init__(
        self,
        folder,
        files,
        mode,
        loop="dataset",
        *,
        faults=(),
        load=None,
        servers=2,
        workers=2,
        timeout=TIMEOUT,
        arguments=(),
    ):
        self.folder = folder
        self.faults = list(faults)
        self.mode = mode
        self.workers = workers
        self.load = load
        self.timeout = timeout
        self.numbers = [f"--server_num={servers}", f"--worker_num={workers}"]
        self.arguments = ["--snapshot_seconds=2", *arguments]
        folder.mkdir(parents=True)
        settings = {
            "mode": mode,
            "files": files,
            "out": str(folder),
            "loop": loop,
            "load": str(load) if load else None,
            "batch": BATCH,
            "samples": SAMPLES,
            "faults": [asdict(fault) for fault in self.faults],
        }
        (folder / "settings.json").write_text(json.dumps(settings))
        self._resumed = 0
        self._said = 0  # characters of output, before the last launch
        self.may_miss = False  # a fault need not come
        self._eased = set()
        self._launcher = None

    def run(self, patience=MOST):
        outcome = Outcome()
        began = time.monotonic()
        try:
            self._run_to_its_end(outcome, began + patience)
            if not outcome.error:
                self._measure(outcome)
        finally:
            self._end_all()
            outcome.seconds = time.monotonic() - began
        return outcome

    def _run_to_its_end(self, outcome, deadline):
        status = self._launch([*self.numbers, *self.arguments], deadline)
        outcome.ended = "goes on by itself"
        for _ in range(3):
            if status == 0:
                return
            if status is None:
                outcome.error = "it hangs"
                return
            outcome.notes.append(self._last_line())
            killed = status == -signal.SIGKILL
            if not killed and not self._names_a_victim():
                outcome.error = f"it ended with status {status} and names nobody: {self._output()[-1500:]}"
                return
            anew = not (self.folder / "log" / "durable" / "job.json").exists()
            outcome.ended = "begins anew" if anew else "is taken up again by --resume"
            self._resumed += 1
            self._let_all_end()
            how = self.numbers if anew else ["--resume"]
            status = self._launch([*how, *self.arguments], deadline)
        if status != 0:
            outcome.error = f"it does not end well: status {status}: {self._output()[-1500:]}"

    def _launch(self, arguments, deadline):
        self._said = len(self._output())
        command = [sys.executable, "-m", "flota.launch", "--log_dir", str(self.folder / "log"), "--view", "plain"]
        with (self.folder / "output").open("ab") as output:
            self._launcher = subprocess.Popen(
                [*command, *arguments, str(SCRIPT), str(self.folder / "settings.json")],
                cwd=self.folder,
                env=environment(self.timeout),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=_die_with_this_thread,
            )
        (self.folder / "pids").mkdir(exist_ok=True)
        (self.folder / "pids" / "launcher").write_text(str(self._launcher.pid))
        while self._launcher.poll() is None and time.monotonic() < deadline:
            self._ease()
            time.sleep(0.02)
        return self._launcher.poll()

    def _ease(self):
        """Ends what does not last for ever: pauses, and full disks."""
        for number, fault in enumerate(self.faults):
            told = self._told(number)
            if told is None or number in self._eased:
                continue
            if fault.kind in ("kill", "cut"):
                self._eased.add(number)
            elif time.time() - told["time"] > {"stop": STOPPED, "disk": FULL}[fault.kind]:
                self._eased.add(number)
                with contextlib.suppress(ProcessLookupError):
                    if fault.kind == "stop":
                        os.kill(told["pid"], signal.SIGCONT)
                    else:
                        empty_disk_of(told["pid"])

    def _told(self, number):
        with contextlib.suppress(FileNotFoundError):
            return json.loads((self.folder / f"fault-{number}.done").read_text())
        return None

    def _output(self):
        file = self.folder / "output"
        return file.read_text(errors="replace") if file.exists() else ""

    @property
    def deaths(self):
        """How often a worker was started again."""
        restarts = re.findall(r"worker \d+ .*starting it again", self._output())
        return len(restarts) + self._resumed * self.workers

    def _last_line(self):
        lines = [line for line in self._output().splitlines() if line.strip()]
        return lines[-1][:300] if lines else ""

    def _names_a_victim(self):
        """Whether what the last launch says of its failure names who it was. Its other lines name everybody."""
        lines = self._output()[self._said :].splitlines()
        first = next((number for number, line in enumerate(lines) if line.startswith("flota launch: ")), len(lines))
        told = [line for line in lines[first:] if not line.startswith(("flota launch: stopping", "INFO "))]
        return any(fault.victim in line for fault in self.faults for line in told)

    def _pids(self):
        return [int(file.read_text()) for file in (self.folder / "pids").glob("[!.]*")]

    def _let_all_end(self):
        """What the launcher leaves behind when it is killed ends by itself; who is paused must be let go first."""
        deadline = time.monotonic() + 10
        while any(_alive(pid) for pid in self._pids()) and time.monotonic() < deadline:
            self._ease()
            time.sleep(0.02)

    def _end_all(self):
        for pid in self._pids():
            with contextlib.suppress(ProcessLookupError):
                if _alive(pid) and _is_ours(pid, self.folder):
                    os.kill(pid, signal.SIGKILL)
        if self._launcher is not None:
            self._launcher.wait(10)

    def _measure(self, outcome):
        missed = [fault.text() for number, fault in enumerate(self.faults) if self._told(number) is None]
        if missed and not self.may_miss:
            outcome.error = f"the fault never came: {missed}"
            return
        told = [self._told(number) for number in range(len(self.faults))]
        times = [one["time"] for one in told if one is not None]
        if times:
            ended = time.time()
            pauses = [self._pause(rank, min(times), ended) for rank in range(self.workers)]
            outcome.recovery = max(pauses, default=0.0) or max(0.0, ended - max(times))

    def _pause(self, rank, moment, ended):
        """The worker's longest pause between two steps, from the last one before the moment on, or from the moment if
        it had made none. The victim that makes no more, as the others have done its share: until the end."""
        steps = np.empty(0)
        with contextlib.suppress(FileNotFoundError):
            steps = np.fromfile(self.folder / f"steps.{rank}", dtype=np.float64)
        before, after = steps[steps <= moment], steps[steps > moment]
        if len(after):
            began = before[-1] if len(before) else moment
            return float(np.diff(after, prepend=began).max())
        is_victim = any(fault.victim == f"worker {rank}" for fault in self.faults)
        return ended - moment if is_victim else 0.0

    def result(self):
        with np.load(self.folder / "result.npz") as found:
            return {name: found[name] for name in found.files}


_libc = ctypes.CDLL(None)


def _die_with_this_thread():
    """The kernel kills the launcher, and so its job, when who runs it ends in whatever way."""
    _libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _alive(pid):
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def _is_ours(pid, folder):
    """Numbers are used again: only a process that was started with this run's settings is one of this run's."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return str(folder).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def check(run, outcome, without):
    """Notes what is wrong with the parameters. ``without``: the result of the same job without faults."""
    if outcome.error:
        return
    result = run.result()
    for name in ("weight", "bias", "features"):
        if not np.isfinite(result[name]).all():
            outcome.error = f"{name} is not finite"
            return
    if run.mode == "sync":
        for name, values in without.items():
            if not np.array_equal(values.view(np.uint32), result[name].view(np.uint32)):
                wrong = int((values != result[name]).sum())
                outcome.error = f"{name} differs from a run without faults in {wrong} of {values.size} places"
                return
        return
    unit = 1.0 if run.mode == "async" else 1.0 / run.workers
    expected = without["counts"][:, 0] / -unit
    trained = result["counts"][:, 0] / -unit
    if (trained != np.round(trained)).any():
        outcome.error = "a row holds a part of an update"
        return
    lost = int((trained < expected).sum())
    outcome.retrained = int((trained - expected).sum())
    under_way = K_STEPS if run.mode == "geo" else 20
    # A worker that was paused loses its leases, as if it had died, and goes on with what it has read.
    paused = sum(fault.kind == "stop" and fault.victim.startswith("worker") for fault in run.faults)
    bound = (run.deaths + paused) * (REPORT + (under_way + 2) * BATCH) + paused * READ_AHEAD
    if lost:
        outcome.error = f"{lost} samples were lost"
    elif outcome.retrained > bound:
        outcome.error = (
            f"{outcome.retrained} samples were trained again after {run.deaths} deaths and {paused} pauses; at most "
            f"{bound} may be"
        )


def no_core_files():
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
