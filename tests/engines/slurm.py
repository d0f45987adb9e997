"""Hosts on which Slurm works: a controller on the first, a node on each, all with folders of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hosts import Host, Hosts, missing

from waiting import wait_until

LACKS = missing("srun", "sbatch", "/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/sbin/munged")

_CPUS = 8  # of each node, as Slurm is told: tasks are not bound to any

_SETTINGS = """
ClusterName=flota
SlurmctldHost={head}
SlurmUser=root
AuthType=auth/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmctldTimeout=60
SlurmdTimeout=120
KillWait=8
MinJobAge=300
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0,defer_batch
JobRequeue=1
{nodes}
PartitionName=all Nodes={names} Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
"""


@contextmanager
def slurm_hosts(folder: Path, count: int) -> Iterator[Hosts]:
    """``count`` nodes, h1, h2, …; commands find them by the SLURM_CONF of ``environment``."""
    with Hosts(folder, count, private=["/root/.ssh", "/run/munge"]) as hosts:
        key = os.urandom(128)
        nodes = "\n".join(
            f"NodeName={host.name} NodeAddr={host.address} CPUs={_CPUS} RealMemory=1000 State=UNKNOWN" for host in hosts
        )
        names = ",".join(host.name for host in hosts)
        (folder / "state").mkdir()
        settings = _SETTINGS.format(head=hosts[0].name, folder=folder, nodes=nodes, names=names)
        (folder / "slurm.conf").write_text(settings)
        for host in hosts:
            _start_munge(host, key)
        env = environment(folder)
        hosts[0].start(["/usr/sbin/slurmctld", "-D", "-c"], env=env)
        for host in hosts:
            (folder / f"spool-{host.name}").mkdir()
            host.start(["/usr/sbin/slurmd", "-D", "-N", host.name], env=env)
        wait_until(lambda: _idle(hosts[0], env) == count, timeout=60)
        yield hosts


def environment(folder: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "OMP_NUM_THREADS": "1", **more}


def _start_munge(host: Host, key: bytes) -> None:
    """munged wants folders that nobody else can write to, on the way from the root as well."""
    place = host.folder / "private" / "run" / "munge"
    (place / "key").write_bytes(key)
    (place / "key").chmod(0o600)
    place.chmod(0o755)
    flags = ["--socket=/run/munge/munge.socket.2", "--key-file=/run/munge/key", "--pid-file=/run/munge/pid"]
    flags += ["--log-file=/run/munge/log", "--seed-file=/run/munge/seed"]
    host.start(["/usr/sbin/munged", "--foreground", "--force", *flags])
    wait_until((place / "munge.socket.2").exists, timeout=30)


def _idle(host: Host, env: dict[str, str]) -> int:
    return host.run(["sinfo", "-h", "-N", "-o", "%T"], check=False, env=env).split().count("idle")
