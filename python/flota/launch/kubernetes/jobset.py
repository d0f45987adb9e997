"""The same job as one JobSet (jobset.sigs.k8s.io, part of Kubeflow Trainer), which ends servers with workers."""

from __future__ import annotations

from flota.launch.kubernetes.pods import Object, labels, server_pod, worker_pod
from flota.launch.kubernetes.settings import Settings
from flota.launch.kubernetes.work import server_job, worker_job

API_VERSION = "jobset.x-k8s.io/v1alpha2"
WORKER = "worker"


def jobset(settings: Settings) -> Object:
    """Each server is a replicated job of its own, since it has a volume of its own, and templates know no numbers."""
    place = {"namespace": settings.namespace} if settings.namespace else {}
    servers = [
        _replicated(f"server-{index}", server_job(settings, server_pod(settings, index)))
        for index in range(settings.server_num)
    ]
    return {
        "apiVersion": API_VERSION,
        "kind": "JobSet",
        "metadata": {"name": settings.name, **place, "labels": labels(settings)},
        "spec": {
            "network": {"enableDNSHostnames": True, "subdomain": settings.name, "publishNotReadyAddresses": True},
            # All at once: in order, each server would be waited for before the next is made. Workers wait themselves.
            "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
            "successPolicy": {"operator": "All", "targetReplicatedJobs": [WORKER]},
            # Pods are made anew by their Jobs; to make all of them anew would train what is trained again.
            "failurePolicy": {"maxRestarts": 0},
            "replicatedJobs": [*servers, _replicated(WORKER, worker_job(settings, worker_pod(settings)))],
        },
    }


def _replicated(name: str, spec: Object) -> Object:
    labels_ = spec["template"]["metadata"]["labels"]
    return {"name": name, "replicas": 1, "template": {"metadata": {"labels": labels_}, "spec": spec}}
