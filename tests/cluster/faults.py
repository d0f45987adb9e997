"""Faults from within a job: what befalls which process, at which moment.

The job's script says where it is (``Faults.around("push")``); when a fault is due there, a thread brings it about while
the script's own thread is in the middle. Each fault comes once, whatever is started again afterwards: who is to bring
it about creates its marker first.
"""

import contextlib
import ctypes
import json
import os
import resource
import signal
import socket
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

MOMENTS = ("start-up", "pull", "push", "barrier", "save", "restore", "shutdown")
KINDS = ("kill", "stop", "cut", "disk")


@dataclass(frozen=True)
class Fault:
    """``by``: the process that brings it about, when it has come to the moment, in its ``step``-th step if the moment
    is one of a step, and ``delay`` seconds into it."""

    victim: str  # "worker 1", "server 0", "launcher"
    moment: str
    kind: str
    by: str
    step: int = 0
    delay: float = 0.0

    def text(self):
        return json.dumps(asdict(self), sort_keys=True)


def marker(folder, number):
    return Path(folder) / f"fault-{number}"


class Faults:
    """Those that this process brings about, and those that befall it."""

    def __init__(self, folder, name, faults):
        self.folder = Path(folder)
        self.name = name
        self.faults = faults
        self.step = 0
        (self.folder / "pids").mkdir(exist_ok=True)
        (self.folder / "orders").mkdir(exist_ok=True)
        self._listen()
        # Told last: whoever finds the number may send orders.
        new = self.folder / "pids" / f".{name}.new"
        new.write_text(str(os.getpid()))
        new.rename(self.folder / "pids" / name)

    @contextlib.contextmanager
    def around(self, moment):
        due = [
            (number, fault)
            for number, fault in enumerate(self.faults)
            if fault.by == self.name
            and fault.moment == moment
            and (moment not in ("pull", "push") or fault.step <= self.step)
            and self._claim(number)
        ]
        threads = [threading.Thread(target=self._bring_about, args=one) for one in due]
        for thread in threads:
            thread.start()
        yield
        for thread in threads:
            thread.join()

    def brought_about(self, moment):
        """Whether all faults of the moment are over: for those who must not go on before."""
        return all(
            (self.folder / f"fault-{number}.done").exists()
            for number, fault in enumerate(self.faults)
            if fault.moment == moment
        )

    def _claim(self, number):
        with contextlib.suppress(FileExistsError):
            marker(self.folder, number).touch(exist_ok=False)
            return True
        return False

    def _bring_about(self, number, fault):
        time.sleep(fault.delay)
        pid = self.pid_of(fault.victim)
        done = self.folder / f"fault-{number}.done"
        new = self.folder / f".fault-{number}.new"
        new.write_text(json.dumps({"time": time.time(), "pid": pid, "step": self.step}))
        new.rename(done)
        if fault.kind == "kill":
            os.kill(pid, signal.SIGKILL)
        elif fault.kind == "stop":
            os.kill(pid, signal.SIGSTOP)
        elif fault.kind == "disk":
            fill_disk_of(pid)
        elif pid == os.getpid():
            cut_connections()
        else:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as orders:
                orders.sendto(b"cut", str(self.folder / "orders" / str(pid)))

    def pid_of(self, name):
        return int((self.folder / "pids" / name).read_text())

    def _listen(self):
        orders = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        orders.bind(str(self.folder / "orders" / str(os.getpid())))

        def obey():
            while orders.recv(16) == b"cut":
                cut_connections(beside=orders.fileno())

        threading.Thread(target=obey, daemon=True).start()


def fill_disk_of(pid):
    """From here on the process can write nothing: as on a full disk, every write fails."""
    _soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, hard))


def empty_disk_of(pid):
    _soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))


_libc = ctypes.CDLL(None)


def cut_connections(beside=-1):
    """Ends all connections of this process, in the middle of whatever is on its way."""
    for entry in os.listdir("/proc/self/fd"):
        descriptor = int(entry)
        with contextlib.suppress(OSError):
            if descriptor != beside and os.readlink(f"/proc/self/fd/{entry}").startswith("socket:"):
                with socket.socket(fileno=os.dup(descriptor)) as end:
                    listens = end.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
                    if not listens and end.type == socket.SOCK_STREAM:
                        _libc.shutdown(descriptor, socket.SHUT_RDWR)
