"""Where an engine's command is asked for another number of workers: on the host where it was given, which runs none.

The launches on the job's hosts are not asked themselves: they hear of it from server 0.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from flota.launch import dashboard
from flota.launch.arguments import Arguments
from flota.launch.attaching import tell_lookers
from flota.launch.changes import Changes
from flota.launch.control import Control
from flota.launch.folders import private_folder
from flota.launch.guard import Guard
from flota.launch.saying import tell


@contextlib.contextmanager
def control(log_dir: str) -> Iterator[Control]:
    """Requires: no threads yet (see ``Guard``)."""
    logs = Path(log_dir)
    with contextlib.suppress(OSError):  # then the file in it cannot be written either, and that is told
        logs.mkdir(parents=True, exist_ok=True)
    with (
        private_folder() as folder,
        contextlib.closing(Guard(folder)),  # takes the folder away when this is killed
        contextlib.closing(Control(folder, logs)) as made,
    ):
        tell(made.trouble)
        yield made


@contextlib.contextmanager
def asked(arguments: Arguments, environment: Mapping[str, str]) -> Iterator[Callable[[], None]]:
    """Answers by asking server 0, which this host has to reach. ``environment``: that of one who asks servers. Gives
    what is to be called several times a second."""
    log_dir, title = arguments.log_dir, Path(arguments.training_script).name
    with (
        dashboard.asked_for(arguments) as page,
        control(log_dir) as heard,
        contextlib.closing(Changes(lambda: environment)) as changes,
    ):
        tell_lookers(heard, title, Path(log_dir), environment)
        if page is not None:
            page.start()

        def tend() -> None:
            for workers, asker in heard.numbers():
                changes.begin(workers, asker)
            changes.update()
            if page is not None:
                page.update()

        yield tend
