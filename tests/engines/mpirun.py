"""Hosts on which ``mpirun`` works: each runs an OpenSSH server, by which mpirun starts its daemons there."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from hosts import Host, Hosts, Running, missing

from waiting import wait_until

LACKS = missing("mpirun", "ssh", "ssh-keygen", "/usr/sbin/sshd")

_PORT = 22


@contextmanager
def mpi_hosts(folder: Path, count: int, private: Sequence[str] = ()) -> Iterator[Hosts]:
    """``count`` hosts between which root goes without a password, as mpirun's do."""
    with Hosts(folder, count, private=["/root/.ssh", "/run/sshd", *private]) as hosts:
        key = folder / "key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True, timeout=20)
        for host in hosts:
            _let_in(host, key)
        for host in hosts:
            wait_until(lambda host=host: _answers(hosts[0], host), timeout=30)
        yield hosts


def _let_in(host: Host, key: Path) -> None:
    """Starts sshd, which lets in who has this host's own key: all have the same."""
    shell = host.folder / "private" / "root" / ".ssh"
    for name, text in (
        ("id_ed25519", key.read_text()),
        ("authorized_keys", key.with_suffix(".pub").read_text()),
        ("config", "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n"),
    ):
        (shell / name).write_text(text)
        (shell / name).chmod(0o600)
    host_key = host.folder / "host_key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", host_key], check=True, timeout=20)
    settings = [f"HostKey={host_key}", f"ListenAddress={host.address}:{_PORT}", "PidFile=none", "UsePAM=no"]
    settings += ["AuthorizedKeysFile=/root/.ssh/authorized_keys", "PermitRootLogin=prohibit-password"]
    host.start(["/usr/sbin/sshd", "-D", "-e", "-f", "/dev/null", *(f"-o{setting}" for setting in settings)])


def _answers(host: Host, other: Host) -> bool:
    return host.run(["ssh", "-n", other.name, "hostname"], check=False).strip() == other.name


def mpirun(
    hosts: Hosts, words: Sequence[str], *flags: str, ranks: int | None = None, cwd: Path, env: Mapping[str, str]
) -> Running:
    """Starts words by mpirun from the first host, one rank on each unless ``ranks`` says how many in all."""
    machines = cwd / "machines"
    count = ranks or len(hosts)
    slots = -(-count // len(hosts))
    machines.write_text("".join(f"{host.name} slots={slots}\n" for host in hosts))
    command = ["mpirun", "--hostfile", str(machines), "-n", str(count), "--map-by", "node", "--bind-to", "none"]
    command += [*flags, *map(str, words)]
    return hosts[0].start(command, cwd=cwd, env=mpi_environment(env))


def mpi_environment(env: Mapping[str, str]) -> dict[str, str]:
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    # Hosts of one machine have few cores between them: nobody is to wait by spinning.
    gentle = {"OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}
    return {**os.environ, "OMP_NUM_THREADS": "1", **allowed, **gentle, **env}
