"""One launch on Ray: from its arguments to its exit status."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from flota.errors import InvalidArgument
from flota.launch import dashboard
from flota.launch.arguments import Arguments
from flota.launch.environment import configuration, configuration_table
from flota.launch.folders import prepare_logs, private_folder
from flota.launch.ray.keeping import Keeping
from flota.launch.ray.protection import Protection, check_protection
from flota.launch.ray.settings import Settings, read_settings
from flota.launch.rows import Job
from flota.launch.saying import say, show_table
from flota.launch.signals import Signals
from flota.launch.view import View, kind_of_view, make_view


def run(asked: Arguments) -> int:
    if find_spec("ray") is None:
        raise InvalidArgument("--on ray needs Ray, which is not installed: pip install 'flota[ray]'")
    view: Callable[[Job], View] = functools.partial(make_view, kind_of_view(asked.view))
    check_protection(asked)
    with contextlib.ExitStack() as held:
        page = held.enter_context(dashboard.asked_for(asked))
        view = view if page is None else page.beside(view)
        keeping = held.enter_context(contextlib.closing(Keeping(asked)))
        asked = keeping.complete(asked)
        settings = read_settings(asked)
        return _Run(asked, settings, keeping, held).run(view)


class _Run:
    """What is there while the job is; ``held`` ends it, last first."""

    def __init__(self, asked: Arguments, settings: Settings, keeping: Keeping, held: contextlib.ExitStack) -> None:
        self._asked = asked
        self._settings = settings
        self._keeping = keeping
        self._held = held

    def run(self, view: Callable[[Job], View]) -> int:
        # Ray takes half a second to import: what is refused above is refused before.
        from flota.launch.ray import cluster, placing, seats
        from flota.launch.ray.crew import RayCrew
        from flota.launch.ray.watching import RayLaunch

        settings, keeping = self._settings, self._keeping
        sent = f"sending it {settings.package}" if settings.package else f"the script is in {settings.workspace} there"
        say(f"asking Ray ({settings.address}) for room; {sent}")
        self._held.enter_context(cluster.connected(settings, self._left_out(), Path(self._asked.log_dir, "ray.log")))
        signals = Signals()  # after Ray, which puts handlers of its own in place of some
        asked = placing.with_numbers(self._asked, len(cluster.nodes()))
        names = placing.names_of(asked)
        place = seats.Place(settings, names, replaced=asked.max_restarts > 0)
        self._held.callback(place.close, keeping.leavings)
        taken = place.take(lambda: bool(signals.received))
        if taken is None:
            return 128 + signals.received[0]
        placing.check_seats(names, taken, settings)
        plan = placing.make_plan(asked, names, taken)
        prepare_logs(plan)
        notes = keeping.begin(asked, plan)
        keeping.check_shared(placing.readers(taken[: len(plan.servers)]))
        show_table("configuration", "what is in effect", configuration_table(asked), configuration(asked))
        for note in notes:
            say(note)
        folder = self._held.enter_context(private_folder())
        protection = Protection(asked, [server.address for server in plan.servers], folder)
        crew = RayCrew(plan, settings, folder, place, taken, keeping, protection)
        return RayLaunch(plan, crew, folder, signals, keeping.durable, settings, protection.note).run(view)

    def _left_out(self) -> list[str]:
        """What of the script's folder is not sent: what this launch itself writes there."""
        package = self._settings.package
        if package is None:
            return []
        own = [Path(self._asked.log_dir).resolve(), *([Path(self._keeping.folder)] if self._keeping.durable else [])]
        inside = [folder.relative_to(package) for folder in own if folder.is_relative_to(package)]
        return [f"/{folder}/" for folder in inside if folder.parts] + ["__pycache__/"]
