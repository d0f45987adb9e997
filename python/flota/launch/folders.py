"""Folders of a launch: its logs, and one that only this user can enter and that ends with it."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from flota.errors import SystemFailure
from flota.launch.plan import Plan

_MAX_SOCKET_PATH = 100  # bytes; the kernel's limit is 108


def prepare_logs(plan: Plan, *, tidy: bool = True) -> None:
    """Makes the folder. ``tidy``: takes away logs of processes that an earlier, larger job had and this one has not."""
    folder = Path(plan.arguments.log_dir)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for role, count in (("server", len(plan.servers)), ("worker", len(plan.workers))) if tidy else ():
            for log in folder.glob(f"{role}log.*"):
                index = log.name.partition(".")[2]
                if index.isdecimal() and int(index) >= count:
                    log.unlink()
    except OSError as error:
        raise SystemFailure(f"--log_dir={folder}: {error.strerror}: {error.filename}") from error


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """A folder that only this user can enter, for the reports and for PADDLE_GLOO_FS_PATH."""
    place = tempfile.gettempdir() if len(tempfile.gettempdir()) < _MAX_SOCKET_PATH - 30 else "/tmp"
    folder = Path(tempfile.mkdtemp(prefix="flota-launch-", dir=place))
    try:
        (folder / "shared").mkdir()
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
