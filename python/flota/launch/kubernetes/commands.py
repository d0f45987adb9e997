"""``flota status``, ``flota logs``, ``flota stop`` and ``flota scale`` for jobs on Kubernetes."""

from __future__ import annotations

import argparse
import re
import subprocess

from flota.errors import InvalidArgument
from flota.launch.kubernetes.cluster import JOBSETS, RUNNING, JobFound, Pod, look, names, remove
from flota.launch.kubernetes.kubectl import Kubectl
from flota.launch.kubernetes.scaling import scale as change_workers
from flota.launch.kubernetes.values import job_name
from flota.launch.saying import show

_MEMBER = re.compile(r"(server|worker)[-. ]?(\d+)")


def place(given: argparse.Namespace) -> Kubectl:
    """Which cluster and namespace the command is about."""
    if given.name:
        job_name("NAME", given.name)
    return Kubectl(given.context, given.namespace)


def status(kubectl: Kubectl, name: str) -> int:
    """Without a name: which jobs there are."""
    if not name:
        found = names(kubectl)
        show("\n".join(_line(_job(kubectl, name)) for name in found) if found else "there are no jobs of flota")
        return 0
    job = _there(kubectl, name)
    rows = [(pod.member, pod.state, pod.node) for pod in job.newest()]
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(2)]
    lines = [_line(job)]
    lines += [f"  {row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]}".rstrip() for row in rows]
    for volume in job.volumes:
        phase = volume.get("status", {}).get("phase", "unknown").lower()
        lines.append(f"  volume {volume['metadata']['name']}: {phase}")
    show("\n".join(lines))
    return 0


def logs(kubectl: Kubectl, name: str, member: str, *, follow: bool, tail: int | None, previous: bool) -> int:
    job = _there(kubectl, name)
    pod = _pod_of(job, member or "worker-0", previous=previous)
    # Of a server the container before this one; of a worker the pod before it, which is another.
    of_before = ["--previous"] if previous and pod.role == "server" else []
    lines = [f"--tail={tail}"] if tail is not None else []
    words = ["logs", f"pod/{pod.name}", *(["--follow"] if follow else []), *lines, *of_before]
    return subprocess.run(kubectl.command(words), stdin=subprocess.DEVNULL, check=False).returncode


def stop(kubectl: Kubectl, name: str, *, volumes: bool) -> int:
    jobsets = kubectl.has(JOBSETS)
    job = look(kubectl, name, jobsets=jobsets)
    if not job.exists and not job.volumes:
        raise InvalidArgument(_nothing(kubectl, name))
    remove(kubectl, name, jobsets=jobsets, volumes=volumes)
    kept = [volume["metadata"]["name"] for volume in job.volumes] if not volumes else []
    show(f"stopped the job {name}" if job.state == RUNNING else f"removed the job {name}")
    if kept:
        show(f"what its servers kept is left in {', '.join(kept)}: flota stop {name} --volumes removes it")
    return 0


def scale(kubectl: Kubectl, name: str, workers: int, timeout: float) -> int:
    return change_workers(kubectl, _there(kubectl, name), workers, timeout)


def _job(kubectl: Kubectl, name: str) -> JobFound:
    return look(kubectl, name, jobsets=kubectl.has(JOBSETS))


def _there(kubectl: Kubectl, name: str) -> JobFound:
    job = _job(kubectl, name)
    if not job.exists and not job.volumes:
        raise InvalidArgument(_nothing(kubectl, name))
    return job


def _nothing(kubectl: Kubectl, name: str) -> str:
    others = names(kubectl)
    place = f" in the namespace {kubectl.namespace}" if kubectl.namespace else ""
    return f"there is no job {name}{place}: " + (f"there is {', '.join(others)}" if others else "there are none")


def _line(job: JobFound) -> str:
    newest = job.newest()
    servers = [pod for pod in newest if pod.role == "server"]
    workers = [pod for pod in newest if pod.role == "worker" and not job.has_left(pod)]
    if not job.exists:
        return f"{job.name}: not running; what its servers kept is left"
    ready = sum(pod.ready for pod in servers)
    finished = sum(pod.phase == "Succeeded" for pod in workers)
    why = f" ({job.message})" if job.message else ""
    return (
        f"{job.name}: {job.state or 'not whole'}{why}; {ready} of {len(servers)} servers ready, {finished} of "
        f"{len(workers)} workers finished"
    )


def _pod_of(job: JobFound, member: str, *, previous: bool) -> Pod:
    found = _MEMBER.fullmatch(member)
    if not found:
        raise InvalidArgument(f"{member} is neither server-N nor worker-N")
    role, index = found[1], int(found[2])
    pods = [pod for pod in job.pods if (pod.role, pod.index) == (role, index)]
    if not pods:
        there = sorted({f"{pod.role}-{pod.index}" for pod in job.pods})
        raise InvalidArgument(f"the job {job.name} has no pod of {member}: there is {', '.join(there) or 'none'}")
    if previous and role == "worker":
        if len(pods) < 2:
            raise InvalidArgument(f"{member} has had one pod only: there is none before it")
        return pods[-2]
    return pods[-1]
