"""The objects of a job, in the order in which they are made: what all forms share, and servers and workers."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from flota.launch.kubernetes import jobset
from flota.launch.kubernetes.pods import (
    DURABLE,
    Object,
    claim_of,
    claim_spec,
    labels,
    selector,
    sent_script,
    server_pod,
    worker_pod,
)
from flota.launch.kubernetes.settings import HEALTH_PORT, SERVER_PORT, Settings
from flota.launch.kubernetes.work import worker_job

JOB_ANNOTATION = "flota/job"  # on each server's volume: whose rows are in it


def objects_of(settings: Settings, secret: Mapping[str, str] | None) -> list[Object]:
    """``secret``: the contents of the job's Secret; None where it is made by somebody else, or is not to be seen."""
    shared = [
        _account(settings),
        *([_secret(settings, secret)] if secret is not None else []),
        *([_script(settings)] if settings.script_text is not None else []),
        *_policies(settings),
    ]
    if settings.jobset:
        claims = range(settings.server_num) if settings.durable and not settings.resume else ()
        return [*shared, *(_claim(settings, index) for index in claims), jobset.jobset(settings)]
    return [*shared, _service(settings), _servers(settings), _workers(settings)]


def job_described(settings: Settings) -> str:
    """What must be the same where a job goes on with volumes of before."""
    described: dict[str, Any] = {
        "script": settings.script, "args": list(settings.script_args), "paddle": settings.paddle,
        "server_num": settings.server_num, "worker_num": settings.worker_num,
    }  # fmt: skip
    return json.dumps(described, sort_keys=True)


def _metadata(settings: Settings, name: str, component: str = "", **more: Any) -> Object:
    place = {"namespace": settings.namespace} if settings.namespace else {}
    return {"name": name, **place, "labels": labels(settings, component), **more}


def _account(settings: Settings) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": _metadata(settings, settings.name),
        "automountServiceAccountToken": False,
    }


def _secret(settings: Settings, contents: Mapping[str, str]) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(settings, settings.secret_name),
        "type": "Opaque",
        "data": {name: base64.b64encode(text.encode()).decode() for name, text in contents.items()},
    }


def _script(settings: Settings) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(settings, f"{settings.name}-script"),
        "data": sent_script(settings),
    }


def _policies(settings: Settings) -> list[Object]:
    """Servers: their workers, and whoever asks for their health, which is the node's own. Workers: each other. With
    --metrics_port, whoever reaches that: in which namespace Prometheus is, is not known here."""
    metrics = [{"ports": [_port(settings.metrics_port)]}] if settings.metrics_port is not None else []
    return [
        _policy(
            settings,
            "server",
            [
                {"from": [_pods(settings, "worker")], "ports": [_port(SERVER_PORT)]},
                {"ports": [_port(HEALTH_PORT)]},
                *metrics,
            ],
        ),
        _policy(settings, "worker", [{"from": [_pods(settings, "worker")]}, *metrics]),
    ]


def _policy(settings: Settings, component: str, ingress: list[Object]) -> Object:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _metadata(settings, f"{settings.name}-{component}", component),
        "spec": {
            "podSelector": {"matchLabels": selector(settings, component)},
            "policyTypes": ["Ingress"],
            "ingress": ingress,
        },
    }


def _pods(settings: Settings, component: str) -> Object:
    return {"podSelector": {"matchLabels": selector(settings, component)}}


def _port(number: int) -> Object:
    return {"protocol": "TCP", "port": number}


def _service(settings: Settings) -> Object:
    """Gives each server a name that stays when its pod is made anew."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(settings, f"{settings.name}-server", "server"),
        "spec": {
            "clusterIP": "None",
            # A worker that comes early is answered by the server itself, once that listens; not by an unknown name,
            # which resolvers remember for a while.
            "publishNotReadyAddresses": True,
            "selector": selector(settings, "server"),
            "ports": [{"name": "server", "port": SERVER_PORT, "targetPort": "server"}],
        },
    }


def _servers(settings: Settings) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": _metadata(settings, f"{settings.name}-server", "server"),
        "spec": {
            "replicas": settings.server_num,
            "serviceName": f"{settings.name}-server",
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": selector(settings, "server")},
            "template": server_pod(settings),
            # What servers keep outlives the StatefulSet: `flota stop` leaves it to be resumed from.
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
            "volumeClaimTemplates": [_claim(settings, None)],
        },
    }


def _claim(settings: Settings, index: int | None) -> Object:
    """One server's volume; without an index, the template of all of them."""
    name = DURABLE if index is None else claim_of(settings, index)
    metadata: Object = _metadata(settings, name, "server", annotations={JOB_ANNOTATION: job_described(settings)})
    if index is None:
        metadata.pop("namespace", None)
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": claim_spec(settings),
    }


def _workers(settings: Settings) -> Object:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(settings, f"{settings.name}-worker", "worker"),
        "spec": worker_job(settings, worker_pod(settings)),
    }
