"""What of a server outlives its process: where its redo log and snapshots lie, and how they are kept.

What is passed wins over the environment: ``FLOTA_DURABLE_DIR`` names the job's folder, in which every server has its
own, and ``FLOTA_DURABLE_SYNC``, ``FLOTA_SNAPSHOT_SECONDS``, ``FLOTA_SNAPSHOT_MB`` and ``FLOTA_RECOVER_BEFORE_DAMAGE``
say how (docs/durability.md). Where no folder is named, what a server holds is gone when it dies.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flota import config
from flota.errors import InvalidArgument

if TYPE_CHECKING:
    from flota import _core


@dataclass(frozen=True)
class Durable:
    """A server's ``folder`` for its redo log and snapshots.

    ``sync``: an answer waits for the disk, so that it outlives the machine and not just the process. A snapshot is
    taken when the log since the last one has ``snapshot_mb`` and as many bytes as the tables, or after
    ``snapshot_seconds`` in which anything has changed. ``before_damage``: a damaged log is used up to its damage.
    """

    folder: str
    sync: bool = False
    snapshot_seconds: float = config.DEFAULT_SNAPSHOT_SECONDS
    snapshot_mb: float = config.DEFAULT_SNAPSHOT_MB
    before_damage: bool = False

    def __post_init__(self) -> None:
        if not self.folder:
            raise InvalidArgument("a durable server needs a folder")
        for name in ("snapshot_seconds", "snapshot_mb"):
            if not 0 < getattr(self, name) < 1e9:
                raise InvalidArgument(f"{name} must be above 0 and below 1e9, not {getattr(self, name)}")


def from_environment(index: int, folder: str = "") -> Durable | None:
    """How the environment wants server ``index`` to be kept, in this folder if one is given; None: not at all. Refused
    where it says how and not where."""
    of_job = config.durable_folder()
    if not folder and not of_job:
        if said := config.how_durable():
            raise InvalidArgument(
                f"{', '.join(said)}: how a server keeps what it holds; say where by {config.DURABLE_DIR} (or --durable)"
            )
        return None
    return Durable(
        folder or str(Path(of_job) / f"server-{index}"),
        sync=config.durable_sync(),
        snapshot_seconds=config.snapshot_seconds(),
        snapshot_mb=config.snapshot_mb(),
        before_damage=config.recover_before_damage(),
    )


def keep_server(options: _core.ServerOptions, given: Durable | None = None) -> None:
    """Fills in where a server keeps what it holds: as given, else as the environment says. Requires: its index."""
    durable = given or from_environment(options.index)
    if durable is None:
        return
    options.durable.folder = durable.folder
    options.durable.sync = durable.sync
    options.durable.snapshot_ms = round(durable.snapshot_seconds * 1000)
    options.durable.snapshot_bytes = round(durable.snapshot_mb * (1 << 20))
    options.durable.before_damage = durable.before_damage
