"""What a cluster has of a job: its objects, how its pods do, and how it ended."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from flota.launch.kubernetes.kubectl import Kubectl
from flota.launch.kubernetes.pods import NOT_AGAIN

Object = dict[str, Any]

JOBSETS = "jobsets.jobset.x-k8s.io"
_CONTROLLERS = "statefulsets.apps,jobs.batch"
_ACCOUNTS = "serviceaccounts"  # made first: where one is, there is something of a job
_REST = "services,serviceaccounts,secrets,configmaps,networkpolicies.networking.k8s.io"
_VOLUMES = "persistentvolumeclaims"
_INSTANCE, _COMPONENT = "app.kubernetes.io/instance", "app.kubernetes.io/component"
_INDEX = "batch.kubernetes.io/job-completion-index"
_FAILURES = "batch.kubernetes.io/job-index-failure-count"
_LONGEST_WORD = 200
_GONE_SECONDS = 300  # that pods may take to end and volumes to be let go of

RUNNING, FINISHED, FAILED = "running", "finished", "failed"


@dataclass(frozen=True)
class Pod:
    name: str
    role: str
    index: int
    phase: str
    ready: bool
    started: bool  # its container has run, so that there is a log
    restarts: int
    trouble: str  # why it does not run: a reason and a message
    exit_status: int | None  # of its container's last end
    reason: str
    node: str
    created: str
    word: str = ""  # what a worker that ended well has left: see ``late``
    failures: int = 0  # of a worker: of its pods until now, this one included

    @property
    def member(self) -> str:
        return f"{self.role} {self.index}"

    @property
    def state(self) -> str:
        if self.trouble:
            return f"waits: {self.trouble}"
        if self.phase == "Succeeded":
            return self.word or "finished"
        if self.phase == "Failed":
            return f"ended with exit status {self.exit_status}" if self.exit_status is not None else self.reason
        if self.phase != "Running":
            return self.phase.lower()
        word = ("ready" if self.ready else "not ready") if self.role == "server" else "runs"
        return word + (f", {self.restarts} restarts" if self.restarts else "")


@dataclass(frozen=True)
class JobFound:
    """What there was of a job at one time."""

    name: str
    form: str
    state: str  # RUNNING, FINISHED, FAILED; "" where no workers are there
    message: str  # why it failed
    pods: list[Pod]  # servers first, then workers, the oldest of each first
    volumes: list[Object]
    account: bool  # there is something of it, if it is not whole
    workers: int = 0  # how many there shall be; 0: it has no Job of workers
    version: str = ""  # of their Job, as it was seen
    completed: frozenset[int] = frozenset()  # workers that ended well, as the Job's controller has counted
    limit: int = 0  # failures of one worker that do not end the job

    @property
    def exists(self) -> bool:
        return bool(self.account or self.form or self.pods)

    def newest(self) -> list[Pod]:
        """Of each server and worker, the pod that is it now."""
        return list({pod.member: pod for pod in self.pods}.values())

    def worker(self, index: int) -> Pod | None:
        """The pod that is this worker now, or was it last."""
        return next((pod for pod in reversed(self.pods) if (pod.role, pod.index) == ("worker", index)), None)

    def has_left(self, pod: Pod) -> bool:
        """Whether it is of a worker that there shall not be any more."""
        return pod.role == "worker" and self.workers != 0 and pod.index >= self.workers

    @property
    def exit_status(self) -> int:
        """Of a job that failed: that of the pod at fault."""
        failed = [pod.exit_status for pod in self.pods if pod.phase == "Failed" and pod.exit_status]
        failed += [pod.exit_status for pod in self.pods if pod.role == "server" and pod.exit_status in NOT_AGAIN]
        return failed[-1] if failed and failed[-1] is not None else 1


def look(kubectl: Kubectl, name: str, *, jobsets: bool) -> JobFound:
    kinds = f"{_CONTROLLERS},pods,{_VOLUMES},{_ACCOUNTS}" + (f",{JOBSETS}" if jobsets else "")
    return read(name, kubectl.found(kinds, name))


def names(kubectl: Kubectl) -> list[str]:
    """Of all jobs of which anything is there, volumes included."""
    answer = kubectl.listed(f"{_CONTROLLERS},{_VOLUMES},{_ACCOUNTS}", "app.kubernetes.io/name=flota")
    return sorted({_labels(thing).get(_INSTANCE, "") for thing in answer} - {""})


def remove(kubectl: Kubectl, name: str, *, jobsets: bool, volumes: bool) -> None:
    """Takes the job away, pods included, and returns when they have ended; what servers kept only if asked to."""
    chosen = f"--selector=app.kubernetes.io/instance={name},app.kubernetes.io/name=flota"
    controllers = f"{JOBSETS},{_CONTROLLERS}" if jobsets else _CONTROLLERS
    wait = ["--ignore-not-found", "--wait=true", f"--timeout={_GONE_SECONDS}s"]
    # In the foreground: controllers are gone when their pods are.
    kubectl.run(["delete", controllers, chosen, *wait, "--cascade=foreground"], seconds=_GONE_SECONDS)
    rest = f"{_REST},{_VOLUMES}" if volumes else _REST
    kubectl.run(["delete", rest, chosen, *wait], seconds=_GONE_SECONDS)


def read(name: str, things: list[Object]) -> JobFound:
    """From the objects, as the cluster tells them."""
    kinds: dict[str, list[Object]] = {}
    for thing in things:
        kinds.setdefault(thing["kind"], []).append(thing)
    workers = [job for job in kinds.get("Job", []) if _labels(job).get(_COMPONENT) == "worker"]
    pods = [_pod(name, thing) for thing in kinds.get("Pod", [])]
    pods.sort(key=lambda pod: (pod.role, pod.index, pod.created))
    form = "jobset" if "JobSet" in kinds else "statefulset" if "StatefulSet" in kinds or workers else ""
    state, message = _outcome(workers, kinds.get("JobSet", []), pods)
    job: Object = workers[0] if workers else {}
    spec = job.get("spec", {})
    return JobFound(
        name, form, state, message, pods, kinds.get("PersistentVolumeClaim", []), "ServiceAccount" in kinds,
        workers=spec.get("completions", 0),
        version=job.get("metadata", {}).get("resourceVersion", ""),
        completed=_indices(job.get("status", {}).get("completedIndexes", "")),
        limit=spec.get("backoffLimitPerIndex", 0),
    )  # fmt: skip


def _indices(text: str) -> frozenset[int]:
    """As a Job's status names them: 0,2-4."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def _outcome(workers: list[Object], jobsets: list[Object], pods: list[Pod]) -> tuple[str, str]:
    if not workers and not jobsets:
        return "", ""
    for thing in [*workers, *jobsets]:
        for condition in thing.get("status", {}).get("conditions", []):
            if condition.get("status") != "True":
                continue
            if condition["type"] in ("Complete", "Completed"):
                return FINISHED, ""
            if condition["type"] == "Failed":
                return FAILED, condition.get("message", condition.get("reason", ""))
    for pod in pods:
        if pod.role == "server" and pod.exit_status in NOT_AGAIN and pod.restarts:
            return FAILED, f"{pod.member} ({pod.name}) ends with exit status {pod.exit_status} whenever it is started"
    return RUNNING, ""


def _labels(thing: Object) -> dict[str, str]:
    return dict(thing["metadata"].get("labels", {}))


def _pod(name: str, thing: Object) -> Pod:
    metadata, status = thing["metadata"], thing.get("status", {})
    role = _labels(thing).get(_COMPONENT, "")
    container: Object = next(iter(status.get("containerStatuses", [])), {})
    now, last = container.get("state", {}), container.get("lastState", {})
    ended = now.get("terminated") or last.get("terminated") or {}
    phase = status.get("phase", "Pending")
    failed_before = metadata.get("annotations", {}).get(_FAILURES, "")
    return Pod(
        name=metadata["name"],
        role=role,
        index=_index(name, role, metadata),
        phase=phase,
        ready=bool(container.get("ready")),
        started="running" in now or "terminated" in now or bool(last),
        restarts=int(container.get("restartCount", 0)),
        trouble=_trouble(status, now),
        exit_status=ended.get("exitCode"),
        reason=status.get("reason") or ended.get("reason") or "failed",
        node=thing.get("spec", {}).get("nodeName", ""),
        created=metadata.get("creationTimestamp", ""),
        word=_word(ended.get("message", "")) if phase == "Succeeded" else "",
        failures=(int(failed_before) if failed_before.isdecimal() else 0) + (phase == "Failed"),
    )


def _word(message: str) -> str:
    # A script may write there, too.
    return next(iter(message.splitlines()), "")[:_LONGEST_WORD]


def _index(name: str, role: str, metadata: Object) -> int:
    if role == "worker":
        said = {**metadata.get("labels", {}), **metadata.get("annotations", {})}.get(_INDEX, "")
        return int(said) if said.isdecimal() else -1
    found = re.match(rf"{re.escape(name)}-server-(\d+)", metadata["name"])
    return int(found[1]) if found else -1


def _trouble(status: Object, now: Object) -> str:
    waiting = now.get("waiting", {})
    if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
        return ": ".join(filter(None, (waiting["reason"], waiting.get("message", ""))))
    for condition in status.get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return ": ".join(filter(None, (condition.get("reason", ""), condition.get("message", ""))))
    return ""
