"""``--on slurm``: Slurm."""

from __future__ import annotations

from flota.launch.engines.engine import JOB, ON_EACH_HOST, Engine, Flag

SLURM = Engine(
    "flota.launch.slurm",
    "Slurm, by srun",
    JOB | ON_EACH_HOST | {"dashboard", "nproc_per_node"},
    (Flag("--slurm_flags", "flags for srun in an allocation, else for salloc: --nodes=3 …", "FLAGS"),),
)
