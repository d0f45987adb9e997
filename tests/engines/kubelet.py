"""Nodes for the API server of the tests: what is created there runs as pods on hosts of network namespaces.

It does of a StatefulSet's and an Indexed Job's controllers, and of a kubelet, what a job of flota relies on: names and
volumes of servers, indexes of workers, readiness, pods made anew as the Job's policy says, logs, and an end for pods
whose controller is gone. Each is written down from Kubernetes' documentation, by hand: it is no proof of what a
cluster does, but that a job needs no more than this.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator

from hosts import Host, Hosts
from pods import Pod, name_on_all

from kubernetes_api import KubernetesApi

_LOOK = 0.2
_INDEX = "batch.kubernetes.io/job-completion-index"
_FAILURES = "batch.kubernetes.io/job-index-failure-count"


class Kubelet:
    def __init__(self, api: KubernetesApi, hosts: Hosts) -> None:
        self.pods: dict[str, Pod] = {}  # by name
        self._api, self._hosts = api, hosts
        self._free: list[Host] = list(hosts)
        self._failures: dict[int, int] = {}
        self._at_work: set[int] = set()  # indices of the Job, with a pod that has not ended
        self._serial = 0
        self._made: list[dict] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._tend, daemon=True)
        api.created = self._made.append
        api.log_of = self._log
        api.exec_in = lambda name, words: self.pods[name].execute(words)

    def __enter__(self) -> Kubelet:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(60)

    def worker(self, index: int) -> Pod:
        """The pod that is it now."""
        told = {
            of["metadata"]["name"]: of["metadata"].get("annotations", {}).get(_INDEX) for of in self._api.of("pods")
        }
        return self.pods[[name for name in self.pods if told.get(name) == str(index)][-1]]

    def node_dies(self, pod: str) -> None:
        """The machine under a server's pod loses power, and the pod comes back on another with its volume."""
        gone = self.pods[pod]
        gone.host.kill()
        moved = gone.move(self._free.pop(0))
        self.pods[pod] = moved
        self._name(pod, moved)

    def _name(self, pod: str, running: Pod) -> None:
        name_on_all(self._hosts, {f"{pod}.{pod.rpartition('-')[0]}": running.host.address})

    def _tend(self) -> None:
        while not self._ended.wait(_LOOK):
            while self._made:
                thing = self._made.pop(0)
                if thing["kind"] == "StatefulSet":
                    self._servers(thing)
            for job in self._api.of("jobs"):
                self._workers(job)
            for name, pod in list(self.pods.items()):
                self._look_at(name, pod)

    def _servers(self, thing: dict) -> None:
        spec = thing["spec"]
        for index in range(spec["replicas"]):
            name = f"{thing['metadata']['name']}-{index}"
            for template in spec["volumeClaimTemplates"]:
                metadata = {**template["metadata"], "name": f"{template['metadata']['name']}-{name}"}
                self._api.add({"kind": "PersistentVolumeClaim", "metadata": metadata, "status": {"phase": "Bound"}})
            self._begin(thing, name, self._free.pop(0), {"metadata.name": name}, {})
            self._name(name, self.pods[name])

    def _workers(self, job: dict) -> None:
        """As many as the Job asks for, each index until it has succeeded once."""
        wanted = job["spec"]["completions"]
        status = job.setdefault("status", {})
        done = {int(index) for index in status.get("completedIndexes", "").split(",") if index}
        status["completedIndexes"] = ",".join(str(index) for index in sorted(done) if index < wanted)
        for index in sorted(set(range(wanted)) - done - self._at_work):
            self._worker(job, index, self._free.pop(0))
        for index in [index for index in self._at_work if index >= wanted]:
            self._at_work.discard(index)
            self._failures.pop(index, None)
            for pod in self._api.of("pods"):
                if pod["metadata"].get("annotations", {}).get(_INDEX) == str(index) and _at_work(pod):
                    self._api.delete("pods", pod["metadata"]["name"])
        if len(done) == wanted and not self._at_work:
            self._conclude(job, "Complete", "")

    def _worker(self, job: dict, index: int, host: Host) -> None:
        failures = str(self._failures.get(index, 0))
        self._at_work.add(index)
        self._serial += 1
        name = f"{job['metadata']['name']}-{index}-{self._serial}"
        told = {_INDEX: str(index), _FAILURES: failures}
        fields = {f"metadata.annotations['{key}']": value for key, value in told.items()}
        self._begin(job, name, host, fields, told)

    def _begin(self, owner: dict, name: str, host: Host, fields: dict[str, str], annotations: dict[str, str]) -> None:
        template = owner["spec"]["template"]
        everything = [thing for kind in ("secrets", "configmaps") for thing in self._api.of(kind)]
        self.pods[name] = Pod(everything, template, host, fields)
        metadata = {**template["metadata"], "name": name, "annotations": annotations}
        metadata["ownerReferences"] = [{"uid": owner["metadata"]["uid"]}]
        spec = {**template["spec"], "nodeName": host.name}
        self._api.add({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {}})

    def _look_at(self, name: str, pod: Pod) -> None:
        with self._api.lock:
            thing = self._api.objects.get(("pods", name))
        if thing is None:  # deleted
            del self.pods[name]
            with contextlib.suppress(OSError):
                pod.running.signal(signal.SIGTERM)
            return
        ended = pod.running.status
        role = thing["spec"]["containers"][0]["name"]
        state = {"running": {}} if ended is None else {"terminated": {"exitCode": ended, "message": pod.message}}
        ready = ended is None and (role == "worker" or pod.health("/readyz") == 200)
        phase = "Running" if ended is None else "Failed" if ended else "Succeeded"
        container = {"name": role, "ready": ready, "restartCount": 0, "state": state}
        was = thing["status"].get("phase")
        thing["status"] = {"phase": phase, "containerStatuses": [container]}
        if role == "worker" and phase != was and ended is not None:
            self._worker_ended(int(thing["metadata"]["annotations"][_INDEX]), pod, ended)

    def _worker_ended(self, index: int, pod: Pod, status: int) -> None:
        (job,) = self._api.of("jobs")
        spec = job["spec"]
        if index not in self._at_work:
            return  # the Job wants it no more
        if status == 0:
            self._at_work.discard(index)
            done = {*job["status"].get("completedIndexes", "").split(","), str(index)} - {""}
            job["status"]["completedIndexes"] = ",".join(sorted(done, key=int))
            return
        self._failures[index] = self._failures.get(index, 0) + 1
        rules = spec["podFailurePolicy"]["rules"]
        never = {known for rule in rules for known in rule.get("onExitCodes", {}).get("values", [])}
        if status in never or self._failures[index] > spec["backoffLimitPerIndex"]:
            self._conclude(job, "Failed", f"worker {index} failed with exit code {status}")
        else:
            self._worker(job, index, pod.host)

    @staticmethod
    def _conclude(job: dict, kind: str, message: str) -> None:
        job.setdefault("status", {})["conditions"] = [{"type": kind, "status": "True", "message": message}]

    def _log(self, name: str, query: dict[str, str]) -> Iterator[bytes]:
        pod = self.pods.get(name)
        sent = 0
        while pod is not None:
            ended = pod.running.status is not None or self._ended.is_set()
            lines = pod.running.output.splitlines(keepends=True)
            whole = lines if ended else [line for line in lines if line.endswith("\n")]
            for number in range(sent, len(whole)):
                # A second for each line is as good as any other: the same whenever it is asked for.
                stamp = f"2026-01-01T{number // 3600:02d}:{number // 60 % 60:02d}:{number % 60:02d}.000000000Z "
                yield f"{stamp if query.get('timestamps') else ''}{whole[number]}".encode()
            sent = len(whole)
            if ended or query.get("follow") != "true":
                return
            time.sleep(_LOOK)


def _at_work(pod: dict) -> bool:
    return pod["status"].get("phase") not in ("Succeeded", "Failed")
