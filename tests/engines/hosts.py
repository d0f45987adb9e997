"""Several hosts on one machine: each has a network, a name, a set of processes and some folders of its own.

A host is a set of Linux namespaces that a process holds open; when that process ends, the kernel ends everything that
runs on the host. The hosts' cables end in a switch, which is a network namespace with a bridge, so that cutting one is
what cutting a cable is: both ends go on, and hear nothing. The file system is shared but for what ``private`` names.

    with Hosts(tmp_path, 3) as hosts:
        hosts[0].run(["ping", "-c1", hosts[1].name])
        hosts.cut(hosts[1])

``hosts.slow(host, …)`` makes a cable long and bad: by ``tc netem`` where the kernel has it, else by a process that
carries the frames (slow_cable.py).

It needs root, ``ip`` (iproute2), ``unshare`` and ``nsenter`` (util-linux); ``missing()`` says what is not there.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

_DEADLINE = 20.0  # seconds that the kernel may take for any of this
_COUNT = iter(range(1, 200))  # networks of this process


def missing(*programs: str) -> str:
    """What these tests lack on this machine, as a reason to skip them; empty when all is there."""
    if os.geteuid() != 0:
        return "hosts of network namespaces need root"
    absent = [name for name in ("ip", "unshare", "nsenter", "setpriv", *programs) if shutil.which(name) is None]
    return f"not installed: {', '.join(absent)} (make cluster-tests installs what is needed)" if absent else ""


def _command(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, timeout=_DEADLINE)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"


class Running:
    """A command that runs on a host. Its output, errors included, goes to ``log``."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log

    @property
    def output(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def status(self) -> int | None:
        """Its exit status, or None while it runs; 128 + the signal's number when one ended it."""
        return self._process.poll()

    def wait(self, timeout: float) -> int:
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {timeout:g} s:\n{self.output}") from None

    def signal(self, number: int) -> None:
        """Sends a signal to the command itself, as Ctrl-C in its terminal would (not to what it has started)."""
        # nsenter waits for it, and is its parent.
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        for child in children:
            os.kill(int(child), number)


class Host:
    def __init__(self, name: str, address: str, folder: Path, holder: subprocess.Popen[bytes], cable: str) -> None:
        self.name = name
        self.address = address
        self.folder = folder  # this host's alone by convention: nobody else is told of it
        self.cable = cable  # its end at the switch
        self._holder = holder
        self._count = 0

    def command(self, words: Sequence[str], cwd: Path | None = None) -> list[str]:
        """What starts these words on this host, in the folder ``cwd`` or else in this process's."""
        inside = Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children").read_text().split()[0]
        # Of another mount namespace, every process begins in the root folder unless it is told otherwise.
        where = f"--wdns={cwd or Path.cwd()}"
        return ["nsenter", "--target", inside, "--net", "--uts", "--mount", "--pid", where, "--", *map(str, words)]

    def run(self, words: Sequence[str], *, timeout: float = 60, check: bool = True, **settings: Any) -> str:
        """Runs a command to its end, and returns what it printed."""
        done = subprocess.run(
            self.command(words, settings.pop("cwd", None)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=timeout, stdin=subprocess.DEVNULL, **settings,
        )  # fmt: skip
        assert done.returncode == 0 or not check, f"{self.name}: {' '.join(map(str, words))}:\n{done.stdout}"
        return done.stdout

    def start(
        self, words: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None,
        stdin: int | IO[bytes] = subprocess.DEVNULL,
    ) -> Running:  # fmt: skip
        """Starts a command; it ends with the host, if not before."""
        self._count += 1
        log = self.folder / f"output-{self._count}"
        with log.open("wb") as output:
            process = subprocess.Popen(
                self.command(words, cwd), stdout=output, stderr=subprocess.STDOUT, stdin=stdin, env=env,
                start_new_session=True,
            )  # fmt: skip
        return Running(process, log)

    def processes(self, text: str) -> list[int]:
        """The numbers, outside of the host, of its processes in whose command line the text is."""
        namespace = os.readlink(f"/proc/{self._holder.pid}/ns/pid_for_children")
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdecimal() and os.readlink(entry / "ns/pid") == namespace:
                    words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    if text in words and (entry / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                        found.append(int(entry.name))
        return sorted(found)

    def kill(self) -> None:
        """The power fails: everything on the host ends at once."""
        self._holder.kill()
        self._holder.wait(_DEADLINE)


class Hosts:
    """``count`` hosts at one switch. ``private``: folders that each host has for itself, empty."""

    def __init__(self, folder: Path, count: int, *, private: Sequence[str] = ("/root/.ssh",)) -> None:
        self._folder = folder
        self._private = private
        number = next(_COUNT)
        self._name = f"flota-{os.getpid()}-{number}"
        self._network = f"10.77.{number}"
        self._hosts: list[Host] = []
        self._count = count
        self._held = contextlib.ExitStack()
        self._carriers: dict[str, subprocess.Popen[bytes]] = {}  # of slow cables, by the cable

    def __getitem__(self, index: int) -> Host:
        return self._hosts[index]

    def __iter__(self) -> Iterator[Host]:
        return iter(self._hosts)

    def __len__(self) -> int:
        return len(self._hosts)

    def in_switch(self, *words: str) -> list[str]:
        """What starts these words where the cables end."""
        return ["ip", "netns", "exec", self._name, *words]

    def cut(self, host: Host) -> None:
        """Pulls the host's cable."""
        _command(*self.in_switch("ip", "link", "set", host.cable, "down"))

    def mend(self, host: Host) -> None:
        _command(*self.in_switch("ip", "link", "set", host.cable, "up"))

    def silence(self, host: Host, silent: bool = True) -> None:
        """The switch passes on nothing from or to the host, whose own cable keeps its signal: as when a cable is cut
        further away, of which the host's kernel learns nothing."""
        _command(*self.in_switch("bridge", "link", "set", "dev", host.cable, "state", "0" if silent else "3"))

    def slow(self, host: Host, round_trip_ms: float, loss: float = 0.0, seed: int = 0) -> None:
        """From here on, what the host sends and is sent takes half of this time more, each way, and so many of
        the frames (0.01: one in a hundred, each way) get lost."""
        # Each frame for itself: a large one that the network card would cut up is not lost whole.
        host.run(["ethtool", "-K", "eth0", "tx", "off", "tso", "off", "gso", "off"])
        if not self._slow_by_netem(host, round_trip_ms, loss):
            self._slow_by_carrier(host, round_trip_ms, loss, seed)

    def _slow_by_netem(self, host: Host, round_trip_ms: float, loss: float) -> bool:
        """False: this kernel has none."""
        # limit: frames under way; netem's own 1,000 would be a limit of 12 MB/s at 100 ms.
        netem = ["root", "netem", "delay", f"{round_trip_ms / 2}ms", "loss", f"{100 * loss}%", "limit", "1000000"]
        there = ["tc", "qdisc", "replace", "dev", host.cable, *netem]
        if subprocess.run(self.in_switch(*there), capture_output=True, timeout=_DEADLINE).returncode != 0:
            return False
        _command(*self.in_switch("ethtool", "-K", host.cable, "tx", "off", "tso", "off", "gso", "off"))
        host.run(["tc", "qdisc", "replace", "dev", "eth0", *netem])
        return True

    def _slow_by_carrier(self, host: Host, round_trip_ms: float, loss: float, seed: int) -> None:
        """Puts a process between the cable and the bridge."""
        near, far = f"{host.cable}n", f"{host.cable}f"  # a pair: the carrier has one end, the bridge the other
        before = self._carriers.pop(host.cable, None)
        if before is None:
            _command(*self.in_switch("ip", "link", "set", host.cable, "nomaster"))
            _command(*self.in_switch("ip", "link", "add", near, "type", "veth", "peer", "name", far))
            _command(*self.in_switch("ethtool", "-K", far, "tx", "off", "tso", "off", "gso", "off"))
            _command(*self.in_switch("ip", "link", "set", near, "up"))
            _command(*self.in_switch("ip", "link", "set", far, "master", "bridge", "up"))
        else:
            _end(before)
        carrier = subprocess.Popen(
            self.in_switch(
                sys.executable, str(Path(__file__).with_name("slow_cable.py")), host.cable, near,
                str(round_trip_ms / 2), str(loss), str(seed),
            ),
            stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        self._carriers[host.cable] = carrier
        assert carrier.stdout is not None
        assert carrier.stdout.readline() == b"ready\n", f"no slow cable for {host.name}"

    def __enter__(self) -> Hosts:
        try:
            _command("ip", "netns", "add", self._name)
            self._held.callback(subprocess.run, ["ip", "netns", "del", self._name], check=False)
            self._held.callback(lambda: [_end(carrier) for carrier in self._carriers.values()])
            _command(*self.in_switch("ip", "link", "add", "bridge", "type", "bridge", "stp_state", "0"))
            _command(*self.in_switch("ip", "link", "set", "bridge", "up"))
            names = "".join(f"{self._network}.{i + 1} h{i + 1}\n" for i in range(self._count))
            for i in range(self._count):
                self._hosts.append(self._make(i, names))
            return self
        except BaseException:
            self._held.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            for host in self._hosts:
                for log in sorted(host.folder.glob("output-*")):
                    print(f"--- {host.name} {log.name}\n{log.read_text(errors='replace')[-4000:]}")
        self._held.close()

    def _make(self, i: int, names: str) -> Host:
        name, cable = f"h{i + 1}", f"cable{i + 1}"
        folder = self._folder / name
        folder.mkdir(parents=True)
        (folder / "hosts").write_text(f"127.0.0.1 localhost\n{names}")
        script = [f"hostname {name}", f"mount --bind {folder}/hosts /etc/hosts", "ip link set lo up"]
        for place in self._private:
            own = folder / "private" / place.strip("/")
            own.mkdir(parents=True, mode=0o700)
            Path(place).mkdir(parents=True, exist_ok=True, mode=0o700)
            script.append(f"mount --bind {own} {place}")
        # Ready, once it has said so. The shell stays: it is the first process of the host, and adopts orphans.
        script += ["echo ready", "while :; do sleep 1000 & wait; done"]
        holder = subprocess.Popen(
            [
                "setpriv", "--pdeathsig", "KILL",  # a host ends with the tests, also when those are killed
                "unshare", "--net", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
                "sh", "-ec", "\n".join(script),
            ],
            stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        self._held.callback(_end, holder)
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"ready\n", f"{name} did not come up"
        host = Host(name, f"{self._network}.{i + 1}", folder, holder, cable)
        inside = host.command([])[2]
        _command(*self.in_switch("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", inside))
        _command(*self.in_switch("ip", "link", "set", cable, "master", "bridge", "up"))
        host.run(["ip", "address", "add", f"{host.address}/24", "dev", "eth0"])
        host.run(["ip", "link", "set", "eth0", "up"])
        return host


def _end(holder: subprocess.Popen[bytes]) -> None:
    """Ends a host, and waits until the kernel has ended all that ran there."""
    holder.send_signal(signal.SIGKILL)  # with it goes its child, the first process of the host, and all others
    holder.wait(_DEADLINE)
    deadline = time.monotonic() + _DEADLINE
    assert holder.stdout is not None
    # The first process of the host has the pipe's other end until the kernel has ended it, after all the others.
    os.set_blocking(holder.stdout.fileno(), False)
    while holder.stdout.read() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    holder.stdout.close()
