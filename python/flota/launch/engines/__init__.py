"""Where a job's processes can run: ``flota launch --on ENGINE``.

Each engine has a file here, which says what flags it has and which of the common ones act there (what would not act is
refused), and a module or package ``flota.launch.ENGINE``, which is imported when a launch asks for it.
"""

from __future__ import annotations

from flota.launch.engines.engine import Engine, Flag
from flota.launch.engines.kubernetes import KUBERNETES
from flota.launch.engines.local import LOCAL as _LOCAL
from flota.launch.engines.mpi import MPI
from flota.launch.engines.ray import RAY
from flota.launch.engines.slurm import SLURM
from flota.launch.engines.ssh import SSH

LOCAL = "local"

ENGINES: dict[str, Engine] = {
    LOCAL: _LOCAL,
    "ssh": SSH,
    "mpi": MPI,
    "slurm": SLURM,
    "ray": RAY,
    "kubernetes": KUBERNETES,
}

__all__ = ["ENGINES", "LOCAL", "Engine", "Flag"]
