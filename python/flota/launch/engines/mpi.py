"""``--on mpi``: Open MPI."""

from __future__ import annotations

from flota.launch.engines.engine import HOSTS, JOB, ON_EACH_HOST, Engine, Flag

MPI = Engine(
    "flota.launch.mpi",
    "Open MPI, by mpirun",
    JOB | ON_EACH_HOST | {"dashboard", "nproc_per_node"},
    (
        HOSTS,
        Flag("--hostfile", "mpirun's file of hosts; slots=N: that many workers", "FILE"),
        Flag("--mpirun_flags", "more flags for mpirun", "FLAGS"),
    ),
)
