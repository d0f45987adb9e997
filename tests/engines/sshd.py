"""Hosts that can be reached by SSH: each runs a real sshd with a key of its own, and the first is the one from which
jobs are started."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from hosts import Host, Hosts, Running

from waiting import wait_until

FLOTA = Path(sys.executable).with_name("flota")
_SETTINGS = """
HostKey {folder}/host_key
PidFile none
AuthorizedKeysFile /root/.ssh/authorized_keys
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
PermitRootLogin yes
StrictModes no
LogLevel VERBOSE
"""


class Cluster:
    """``hosts[0]`` is the head."""

    def __init__(self, hosts: Hosts, folder: Path) -> None:
        self.hosts = hosts
        self.head = hosts[0]
        self.folder = folder  # where commands are given
        folder.mkdir()
        keys = folder.parent / "keys"
        keys.mkdir()
        _make_key(keys / "user")
        Path("/run/sshd").mkdir(exist_ok=True)
        known = []
        for host in hosts:
            own = host.folder / "private/root/.ssh"
            (own / "authorized_keys").write_bytes((keys / "user.pub").read_bytes())
            _make_key(host.folder / "host_key")
            kind, key = (host.folder / "host_key.pub").read_text().split()[:2]
            known += [f"{host.name} {kind} {key}\n", f"{host.address} {kind} {key}\n"]
            (host.folder / "sshd_config").write_text(_SETTINGS.format(folder=host.folder))
        ssh = self.head.folder / "private/root/.ssh"
        (ssh / "id_ed25519").write_bytes((keys / "user").read_bytes())
        (ssh / "id_ed25519").chmod(0o600)
        self.known_hosts = ssh / "known_hosts"
        self.known_hosts.write_text("".join(known))
        for host in hosts:
            host.start(["/usr/sbin/sshd", "-D", "-e", "-f", host.folder / "sshd_config"])
        for host in hosts:
            wait_until(lambda host=host: self._answers(host))

    def _answers(self, host: Host) -> bool:
        probe = "import socket, sys; socket.create_connection((sys.argv[1], 22), 1)"
        return not self.head.run(["python3", "-c", probe, host.address], check=False)

    @property
    def names(self) -> str:
        return ",".join(host.name for host in self.hosts)

    def launch(self, *words: object, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Running:
        """``flota launch`` on the head."""
        settings = {**os.environ, "OMP_NUM_THREADS": "1", **(env or {})}
        return self.head.start([FLOTA, "launch", *map(str, words)], cwd=cwd or self.folder, env=settings)

    def agents(self, hosts: Sequence[Host] | None = None) -> list[int]:
        """What still runs of jobs, agents included."""
        return [
            pid
            for host in hosts or self.hosts
            for text in ("flota.launch.ssh.agent", "flota.launch.herald", str(self.folder))
            for pid in host.processes(text)
            if host is not self.head or "flota launch" not in _command_of(pid)
        ]


def _command_of(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return " ".join(Path(word.decode(errors="replace")).name for word in words[1:3])


def _make_key(file: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file], check=True, timeout=20)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
