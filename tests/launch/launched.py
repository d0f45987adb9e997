"""One launch under test."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path

from waiting import wait_until

# What the environment of whoever runs the tests may say about jobs.
JOB_NAMES = (
    "FLOTA_",
    "PADDLE_",
    "FLAGS_",
    "POD_IP",
    "TRAINING_ROLE",
    "CUDA_VISIBLE_DEVICES",
    "XPU_VISIBLE_DEVICES",
    "OMP_",
)

# Every script begins so: it says who it is, and leaves its process number where the test finds it.
PRELUDE = """
import json, os, signal, sys, time
from pathlib import Path

is_server = os.environ["TRAINING_ROLE"] == "PSERVER"
servers = os.environ["PADDLE_PSERVERS_IP_PORT_LIST"].split(",")
endpoint = os.environ.get("POD_IP", "") + ":" + os.environ.get("PADDLE_PORT", "")
index = servers.index(endpoint) if is_server else int(os.environ["PADDLE_TRAINER_ID"])
me = f"{'server' if is_server else 'worker'}.{index}"
restarts = int(os.environ["FLOTA_RESTARTS"])
Path("pids").mkdir(exist_ok=True)


def ready(pid=None, name=me):
    Path(f"pids/{name}.new").write_text(str(pid or os.getpid()))
    os.rename(f"pids/{name}.new", f"pids/{name}")


def wait_for(*names):
    while not all(Path(f"pids/{name}").exists() for name in names):
        time.sleep(0.005)


def wait_for_the_end_of(name):
    wait_for(name)
    while Path("/proc", Path(f"pids/{name}").read_text()).exists():
        time.sleep(0.001)


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def serve():
    ready()
    time.sleep(600)

"""


def alive(pid):
    """Whether the process is there and no zombie."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


class Launch:
    """One running ``flota launch`` and what it has printed."""

    def __init__(self, folder, command, environment):
        self.folder = folder
        with (folder / "output").open("wb") as output:
            self.process = subprocess.Popen(
                command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )

    @property
    def output(self):
        return (self.folder / "output").read_text()

    def log(self, name):
        return (self.folder / "log" / name).read_text()

    def pids(self, *names):
        """The numbers of the processes that have these names, once all are ready."""
        files = [self.folder / "pids" / name for name in names]
        wait_until(lambda: all(file.exists() for file in files) or self.process.poll() is not None)
        assert self.process.poll() is None, self.output
        return [int(file.read_text()) for file in files]

    def all_pids(self):
        return [int(file.read_text()) for file in self.folder.glob("pids/*") if not file.name.endswith(".new")]

    def wait(self, timeout=40):
        return self.process.wait(timeout)

    def nothing_is_left(self):
        assert len(self.all_pids()) > 0
        wait_until(lambda: not any(alive(pid) for pid in self.all_pids()), timeout=3)

    def clean_up(self):
        self.process.kill()
        self.process.wait()
        for pid in self.all_pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def clean_environment(**settings):
    return {**{name: value for name, value in os.environ.items() if not name.startswith(JOB_NAMES)}, **settings}
