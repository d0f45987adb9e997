"""Workers of one launch that come and go, as ``scaling`` asks for them."""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection, Mapping

from flota.launch.crew import Crew
from flota.launch.durable import DurableFolder
from flota.launch.envoys import Envoy, NoEnvoy, Watch
from flota.launch.plan import Plan
from flota.launch.processes import Process
from flota.launch.reviving import Reviver
from flota.launch.saying import say, tell
from flota.launch.turns import is_here, takes_workers

Dress = Callable[[Plan, Process], dict[str, str]]
Resize = Callable[[Plan, int], Plan]


class LocalWorkplace:
    """``scaling.Workplace`` of a launch that has all of its job's workers, or those of one host. ``dress``: what a
    process is told by its environment; ``asking``: and one that asks the servers; ``resize``: the plan with another
    number of workers; ``added``: called with each process that is new."""

    def __init__(
        self,
        plan: Plan,
        crew: Crew,
        reviver: Reviver,
        durable: DurableFolder | None,
        dress: Dress,
        asking: Callable[[], Mapping[str, str]],
        resize: Resize,
        added: Callable[[Process], None],
    ) -> None:
        self._plan = plan
        self._crew = crew
        self._reviver = reviver
        self._durable = durable
        self._dress = dress
        self._asking = asking
        self._resize = resize
        self._added = added
        self._workers = {process.member.index: process for process in crew.workers}

    @property
    def workers(self) -> int:
        return len(self._plan.workers)

    def set_workers(self, workers: int) -> None:
        before = self.workers
        self._plan = self._resize(self._plan, workers)
        if self.is_here(0):  # on one of several hosts
            line = f"the job has {workers} worker{'s' * (workers > 1)} from now on ({before} before)"
            say(line, "scaled", workers=workers, before=before)
        if self._durable is not None:
            tell(self._durable.scaled(workers))
        # What is started again is told the new number.
        for member in self._plan.members:
            if member.role == "worker" and member.index in self._workers:
                process = self._workers[member.index]
                process.member, process.leaving = member, False
                self._crew.environments[process.name] = self._dress(self._plan, process)

    def start_worker(self, index: int) -> str:
        process = self._workers.get(index)
        if process is None:
            member = next(one for one in self._plan.members if one.role == "worker" and one.index == index)
            process = self._workers[index] = self._crew.add_worker(member)
            self._added(process)
        self._crew.environments[process.name] = self._dress(self._plan, process)
        process.leaving = False
        self._crew.coming.add(index)
        self._crew.progress.begin_again(index)  # what one of its number said before is none of its own
        self._reviver.start_new(process)
        line = f"{process.name} {'is' if process.running else 'will be'} started: {process.log}"
        say(line)
        return line

    def ask_to_leave(self, index: int) -> None:
        process = self._workers[index]
        process.leaving = True
        process.due = None
        if index in self._crew.coming:
            self._crew.coming.discard(index)
            process.signal(signal.SIGTERM)

    def runs(self, index: int) -> bool:
        return self._workers[index].running or self._workers[index].waiting

    def joined(self, index: int) -> bool:
        joined = self._crew.progress.workers[index].joined
        if joined and index in self._crew.coming:
            self._crew.coming.discard(index)
            say(f"worker {index} has joined", "joined", process=f"worker {index}")
        return joined

    def said_goodbye(self, index: int) -> bool:
        return self._crew.progress.workers[index].left

    def send_envoy(self, *words: str) -> Envoy:
        try:
            return Envoy(self._asking(), *words)
        except OSError as error:
            return NoEnvoy(error)

    # --- of one host of several ---

    def is_here(self, index: int) -> bool:
        return is_here(self._plan, index)

    @property
    def takes_workers(self) -> bool:
        return takes_workers(self._plan)

    @property
    def indices(self) -> Collection[int]:
        return self._workers.keys()

    def send_watch(self) -> Watch | None:
        try:
            return Watch(self._asking())
        except OSError:  # no room for another process; it is tried again
            return None
