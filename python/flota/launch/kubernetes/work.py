"""Jobs whose pods are made anew after a death as flota starts processes again elsewhere (docs/recovery.md)."""

from __future__ import annotations

from flota.launch.kubernetes.pods import NOT_AGAIN, Object
from flota.launch.kubernetes.settings import Settings


def worker_job(settings: Settings, template: Object) -> Object:
    """The spec of an Indexed Job: worker i is the pod of index i, whichever that is now."""
    return {
        "completionMode": "Indexed",
        "completions": settings.worker_num,
        "parallelism": settings.worker_num,
        "backoffLimitPerIndex": settings.max_restarts,
        "maxFailedIndexes": 0,  # a worker that is gone for good ends the job: the others wait for it
        # One worker at a time by its name: a pod on a lost node may still be at work.
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": _rules("worker"),
        "template": template,
    }


def server_job(settings: Settings, template: Object) -> Object:
    """The spec of one server's Job, where a JobSet runs it. Without a durable folder a dead server ends the job."""
    template["spec"]["restartPolicy"] = "Never"
    return {
        "completionMode": "Indexed",  # gives the pod the name that ends with its index
        "completions": 1,
        "parallelism": 1,
        "backoffLimit": settings.max_restarts if settings.durable else 0,
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": _rules("server", evicted="Ignore" if settings.durable else "FailJob"),
        "template": template,
    }


def _rules(container: str, evicted: str = "Ignore") -> Object:
    return {
        "rules": [
            # Evicted, preempted, drained: no failure of its own, and not counted.
            {"action": evicted, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            {
                "action": "FailJob",
                "onExitCodes": {"containerName": container, "operator": "In", "values": list(NOT_AGAIN)},
            },
        ]
    }
