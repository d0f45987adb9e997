"""``flota scale NAME --workers N``: another number of workers for a job on a cluster.

Server 0 decides and is told first (``asking``). Then the numbers of the workers' Job follow, ``completions`` and
``parallelism`` together, which is what Kubernetes calls an elastic Indexed Job: raised as soon as server 0 lets more
join; lowered only when those above have left, since the Job's controller kills what it has too many of.

Each look says what is to be done next, from what there is: so a command that was killed half way is mended by another,
and nothing has to be undone. What it leaves until then does no harm: an index whose worker has left stays done, and
nobody waits for a worker that has not joined.
"""

from __future__ import annotations

import time

from flota.errors import DeadlineExceeded, InvalidArgument, SystemFailure
from flota.launch.envoys import Said
from flota.launch.kubernetes.asking import Watching, pod_to_ask, tell
from flota.launch.kubernetes.cluster import FAILED, RUNNING, JobFound, look
from flota.launch.kubernetes.kubectl import Kubectl
from flota.launch.kubernetes.pods import DURABLE
from flota.launch.kubernetes.settings import MOST_WORKERS
from flota.launch.saying import show
from flota.launch.scaling import names, workers_text

WORKERS_ANNOTATION = "flota/workers"  # on server 0's volume: how many there are to be where the job goes on

_EVERY = 1.0  # seconds between two looks at the cluster
_TURNS = 3
_THE_CLUSTER = "the cluster to take the number"
_GO_AGAIN = "it goes on without this command, and the same command again takes it up"


def scale(kubectl: Kubectl, job: JobFound, workers: int, patience: float) -> int:
    """``job``: as it is now, in either form. ``patience``: seconds to wait for anything new."""
    if workers > MOST_WORKERS:
        raise InvalidArgument(f"--workers={workers}: a job on Kubernetes has at most {MOST_WORKERS}")
    _check(job)
    change = _Change(kubectl, job.name, patience)
    try:
        return change.run(workers)
    finally:
        change.close()


def number_kept(found: JobFound) -> int | None:
    """How many workers there were to be of a job whose volumes are there; None: as many as it began with."""
    for volume in found.volumes:
        if volume["metadata"]["name"] == _volume(found.name):
            text = volume["metadata"].get("annotations", {}).get(WORKERS_ANNOTATION, "")
            return int(text) if text.isdecimal() and 1 <= int(text) <= MOST_WORKERS else None
    return None


def set_number(kubectl: Kubectl, found: JobFound, workers: int) -> bool:
    """False: somebody else was faster, and one has to look again."""
    spec = {"completions": workers, "parallelism": workers}
    changes = {"metadata": {"resourceVersion": found.version}, "spec": spec}
    return kubectl.patch(f"jobs.batch/{found.name}-worker", changes)


def not_needed_from(found: JobFound, first: int) -> int | None:
    """The index from which on workers have not begun, where all below have finished and the job waits for nothing else.
    ``first``: those from there on came while it ran."""
    done = next((index for index in range(found.workers) if index not in found.completed), found.workers)
    if not first <= done < found.workers:
        return None
    late = [found.worker(index) for index in range(done, found.workers)]
    return None if any(pod is not None and pod.started for pod in late) else done


def _check(found: JobFound) -> None:
    if found.form == "jobset":
        raise InvalidArgument(
            f"{found.name} is a JobSet, whose jobs keep the numbers that it was made with; a job that is to be scaled "
            "is started without --form=jobset"
        )
    if found.state != RUNNING:
        what = f"has {found.state}" if found.state else "has no workers"
        raise InvalidArgument(f"the job {found.name} {what}: flota status {found.name}")


def _check_holds(told: Said, target: int) -> None:
    if told.wanted != target:
        raise SystemFailure(f"another command asks for {workers_text(told.wanted)}: that holds")


def _volume(name: str) -> str:
    return f"{DURABLE}-{name}-server-0"


def _empty(found: JobFound, told: Said, begun: set[int]) -> int | None:
    """The lowest index of the Job that is done, though its worker is none of the job's any more; or that would end the
    job with one more failure, where it came while the job ran."""
    for index in range(min(found.workers, told.wanted)):
        pod = found.worker(index)
        if index in found.completed and (pod.word != "" if pod is not None else index >= told.workers):
            return index
        late = index in begun and index >= told.workers
        if late and pod is not None and 0 < found.limit <= pod.failures:
            return index
    return None


class _Change:
    """One command's, as far as it comes."""

    def __init__(self, kubectl: Kubectl, name: str, patience: float) -> None:
        self._kubectl = kubectl
        self._name = name
        self._patience = patience
        self._watch = Watching(kubectl)
        self._news = time.monotonic()
        self._states: dict[str, str] = {}  # of those that are waited for, by member
        self._begun: set[int] = set()  # that this command has had started
        self._before: int | None = None
        self._fresh = False  # server 0 was told right now

    def close(self) -> None:
        self._watch.close()

    def run(self, workers: int) -> int:
        for _ in range(_TURNS):
            empty = self._go(workers)
            if empty is None:
                self._say(f"{workers_text(workers)} ({self._before} before)")
                return 0
            if empty in self._begun:
                why = self._why(empty)
                self._go(empty)
                raise SystemFailure(f"worker {empty} {why}; the job goes on with {workers_text(empty)}")
            self._say(f"worker {empty} had left, and begins anew: first the job goes down to {workers_text(empty)}")
            self._go(empty)
        raise SystemFailure("other commands change the number as well; look with flota status, and try again")

    def _go(self, target: int) -> int | None:
        """Returns when there are as many, or with the index that has to be taken out of the Job first."""
        told = self._tell(target)
        members = there = told.workers  # some of whom may have left already, between the others
        if members > target:
            self._say(f"{names(range(target, members))} will leave after the batch at hand")
        while True:
            found = self._look()
            if found.state != RUNNING:
                if there == target and found.state != FAILED:
                    return None  # and the job has come to its end since
                raise SystemFailure(f"the job has ended meanwhile: flota status {self._name}")
            heard = self._watch.told(found)
            if not heard.wanted and not self._fresh:
                # Somebody else may have asked for another number by now, and this command would be in their way.
                self._check_not_over(found, there)
                self._wait("server 0 to be heard, from a worker that runs")
                continue
            told = heard if heard.wanted else told
            _check_holds(told, target)
            self._say_who(there, told.workers)
            there = told.workers
            empty = _empty(found, told, self._begun)
            if empty is not None and self._still_holds(found, target):
                return empty
            waits = self._step(found, there, target, members)
            if waits is None:
                return None
            self._fresh = False
            self._wait(waits)

    def _still_holds(self, found: JobFound, target: int) -> bool:
        """Asked before a change, as what was heard may be of before another command. False: there is nobody to ask."""
        if self._fresh:
            return True
        pod = pod_to_ask(found)
        if pod is None:
            return False
        try:
            told = tell(self._kubectl, pod, "watch")  # without an input it tells once
        except SystemFailure:
            return False  # its pod has ended, or server 0 is about to come back
        if told.error:
            return False
        _check_holds(told, target)
        self._news = time.monotonic()  # what is changed now takes its time
        return True

    def _step(self, found: JobFound, there: int, target: int, members: int) -> str | None:
        """Does the next thing to do; returns what is waited for then, or None where all is done."""
        now = found.workers
        if now > target:
            if there > target:
                return f"{names(range(target, there))} to leave"
            left = range(target, min(now, members))
            busy = [index for index in left if index not in found.completed and found.worker(index) is not None]
            if busy:
                # Their scripts may have something to do after their goodbye.
                return f"{names(busy)} to end, after having left"
            if self._still_holds(found, target):
                set_number(self._kubectl, found, target)
            return _THE_CLUSTER
        if any(index >= now for index in found.completed):
            return "the cluster to forget the workers that have left"  # else it would not start them again
        if now < target:
            if self._still_holds(found, target):
                self._keep(found, target)  # before anybody comes: who resumes the job must not leave one out
                if set_number(self._kubectl, found, target):
                    self._begun.update(range(now, target))
            return _THE_CLUSTER
        if there == target:
            self._keep(found, target)
            return None
        self._check_not_over(found, there)
        return self._say_states(found, range(there, target))

    def _check_not_over(self, found: JobFound, there: int) -> None:
        if (done := not_needed_from(found, there)) is not None and set_number(self._kubectl, found, done):
            raise SystemFailure(f"the job is over, and {names(range(done, found.workers))} never came")

    def _keep(self, found: JobFound, workers: int) -> None:
        """Writes down how many there are to be where the job is resumed."""
        names_there = [volume["metadata"]["name"] for volume in found.volumes]
        if number_kept(found) != workers and _volume(self._name) in names_there:
            changes = {"metadata": {"annotations": {WORKERS_ANNOTATION: str(workers)}}}
            self._kubectl.patch(f"persistentvolumeclaims/{_volume(self._name)}", changes)

    def _tell(self, target: int) -> Said:
        found = self._look()
        pod = pod_to_ask(found)
        if pod is None:
            raise SystemFailure(
                f"no worker of the job {self._name} runs, and from outside nobody can ask its servers: try again when "
                f"one does (flota status {self._name})"
            )
        said = tell(self._kubectl, pod, "scale", str(target))
        if said.error:
            raise SystemFailure(said.error)
        self._watch.forget()
        self._fresh = True
        if self._before is None:
            self._before = said.workers
        return said

    def _look(self) -> JobFound:
        """What there is; a cluster that does not answer is asked again."""
        while True:
            try:
                return look(self._kubectl, self._name, jobsets=False)
            except SystemFailure:
                if time.monotonic() - self._news > self._patience:
                    raise
                time.sleep(_EVERY)

    def _why(self, index: int) -> str:
        pod = self._look().worker(index)
        if pod is None or not pod.word:
            return f"could not join: its pods failed {pod.failures if pod is not None else 'several'} times"
        return pod.word

    def _say(self, line: str) -> None:
        self._news = time.monotonic()
        show(line)

    def _say_who(self, before: int, now: int) -> None:
        for index in range(before, now):
            self._say(f"worker {index} has joined")
        for index in reversed(range(now, before)):
            self._say(f"worker {index} has left")

    def _say_states(self, found: JobFound, coming: range) -> str:
        """Says what has become of those that are to come; returns whom they wait for, in words."""
        parts = []
        for index in coming:
            pod = found.worker(index)
            state = "has no pod yet" if pod is None else pod.state
            if self._states.get(f"worker {index}") != state:
                self._states[f"worker {index}"] = state
                self._say(f"worker {index} {state}")
            parts.append(f"worker {index} ({state})")
        return f"{', '.join(parts)} to join"

    def _wait(self, waits: str) -> None:
        if time.monotonic() - self._news > self._patience:
            raise DeadlineExceeded(f"nothing new for {self._patience:g} s: waited for {waits}; {_GO_AGAIN}")
        time.sleep(_EVERY)
