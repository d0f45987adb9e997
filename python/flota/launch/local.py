"""One launch on one host: from its arguments to its exit status."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable

from flota.errors import SystemFailure
from flota.launch import dashboard
from flota.launch.arguments import Arguments
from flota.launch.crew import LocalCrew
from flota.launch.durable import OLD, DurableFolder
from flota.launch.environment import configuration, configuration_table
from flota.launch.folders import prepare_logs, private_folder
from flota.launch.guard import Guard
from flota.launch.outlets import check_outlets
from flota.launch.plan import Plan, make_plan
from flota.launch.protection import check_protection
from flota.launch.resuming import durable_place, how_to_resume, new_record, resumed_plan, resumed_record
from flota.launch.rows import Job
from flota.launch.running import Launch
from flota.launch.saying import say, show_table
from flota.launch.signals import Signals
from flota.launch.view import View, kind_of_view, make_view


def _begin(asked: Arguments, plan: Plan, *, tidy: bool) -> tuple[DurableFolder | None, list[str]]:
    """Makes a new job's folders: that of the logs, and the one to resume it from. Also returns what is to be said."""
    check_protection(plan)
    check_outlets(plan)
    prepare_logs(plan, tidy=tidy)
    if asked.no_durable:
        return None, []
    durable = DurableFolder.claim(durable_place(plan), make=True)
    try:
        notes = []
        moved = durable.make_room(functools.partial(durable_place, plan))
        if moved == OLD:
            notes.append(
                f"the job in {durable.path} did not finish: it is in {durable_place(plan, OLD)} now, and goes on with "
                f"{how_to_resume(plan, OLD)}"
            )
        elif moved:
            notes.append(f"what was kept in {durable.path} (--keep_durable) is in {durable_place(plan, moved)} now")
        trouble = durable.begin(new_record(asked, plan))
        if trouble:
            # Not gone on with: what servers keep would be taken for the job's that is written down there, or nobody's.
            raise SystemFailure("; ".join([*notes, trouble, "make room there, or do without it: --no_durable"]))
        return durable, notes
    except BaseException:
        durable.close()
        raise


def _resume(asked: Arguments, plan: Plan) -> tuple[Plan, DurableFolder, list[str]]:
    """The same for a job that goes on. ``plan``: what can be said before it is known what that is; its hosts."""
    durable = DurableFolder.claim(durable_place(plan), make=False)
    try:
        record = durable.resume()
        plan = resumed_plan(asked, record, durable.path)
        check_protection(plan)
        check_outlets(plan)
        prepare_logs(plan, tidy=False)
        trouble = durable.begin(resumed_record(record, asked, plan))
        notes = [f"going on with the job in {durable.path}, started {record.started}, which was {record.state}"]
        return plan, durable, [*notes, *([trouble] if trouble else [])]
    except BaseException:
        durable.close()
        raise


def launch(
    asked: Arguments, view: Callable[[Job], View] | None = None, *, asked_here: bool = True, tidy: bool = True
) -> int:
    """Runs the job, or this host's part of it, to its end. ``view``: what shows it, where that is not ``--view``;
    ``asked_here``: this launch hears what ``flota scale`` asks, and not the engine that has started it; ``tidy``: logs
    that a larger job before this one has left are taken away."""
    view = view or functools.partial(make_view, kind_of_view(asked.view))
    plan = make_plan(asked)
    durable: DurableFolder | None
    with contextlib.ExitStack() as held:
        page = held.enter_context(dashboard.asked_for(asked))
        view = view if page is None else page.beside(view)
        if asked.resume:
            plan, durable, notes = _resume(asked, plan)
        else:
            durable, notes = _begin(asked, plan, tidy=tidy)
        if durable is not None:
            held.callback(durable.close)
        in_effect = plan.arguments
        show_table("configuration", "what is in effect", configuration_table(in_effect), configuration(in_effect))
        for note in [*plan.notes, *notes]:
            say(note)
        signals = Signals()
        folder = held.enter_context(private_folder())
        guard = held.enter_context(contextlib.closing(Guard(folder, durable.lock if durable else None)))
        crew = LocalCrew(plan, folder / "report", guard, durable.restarts if durable else {})
        return Launch(plan, crew, folder, signals, durable, asked_here=asked_here).run(view)
