"""Hosts that can be reached by SSH: each runs a real sshd with a key of its own, and the first is the one from which
jobs are started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

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

# Servers end when all workers of the job have; that they have, they see in a folder that all hosts see.
_JOB = """
import hashlib, os, pathlib, signal, sys, time
done = pathlib.Path("{done}", hashlib.sha256(os.environ["FLOTA_SECRET"].encode()).hexdigest()[:16])
done.mkdir(parents=True, exist_ok=True)
is_server = os.environ["TRAINING_ROLE"] == "PSERVER"
index = os.environ.get("PADDLE_TRAINER_ID", "")
if is_server:
    while len(list(done.iterdir())) < int(os.environ["PADDLE_TRAINERS_NUM"]):
        time.sleep(0.02)
    sys.exit(0)
"""
_END = """
from flota import report
report.finished()
(done / index).touch()
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

    def workspace(self, host: str, name: str = "workspace") -> Path:
        return self.folder.parent / host / name

    def file(
        self, folder: Path, names: Sequence[str] = (), *, where: str = "workspace",
        extra: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Path:  # fmt: skip
        """A hosts.yaml of hosts with a workspace of their own each."""
        hosts = [
            {"name": name, "workspace": str(self.workspace(name, where)), **(extra or {}).get(name, {})}
            for name in names or [host.name for host in self.hosts]
        ]
        file = folder / "hosts.yaml"
        file.write_text(json.dumps({"hosts": hosts}))  # JSON is YAML
        return file

    def job(self, text: str) -> str:
        """A script of a job in which workers do what the text says, and servers wait until all have done it."""
        return _JOB.format(done=self.folder / "done") + textwrap.dedent(text) + _END

    def script(self, text: str) -> str:
        """The same in the folder that all hosts see: the script's name there."""
        name = f"script{len(list(self.folder.glob('script*.py')))}.py"
        (self.folder / name).write_text(self.job(text))
        return name

    def processes(self, hosts: Sequence[Host] | None = None) -> list[int]:
        """Servers and workers of jobs on these hosts."""
        return [pid for host in hosts or self.hosts for pid in host.processes("python -u script")]

    def left(self, hosts: Sequence[Host] | None = None) -> list[int]:
        """All that runs of jobs on these hosts, but for the launch itself."""
        agents = [pid for host in hosts or self.hosts for pid in host.processes("flota.launch")]
        return sorted({*agents, *self.processes(hosts)})


def _make_key(file: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file], check=True, timeout=20)
