"""The pods of a job: what runs in them, who they are told to be, what they may do and what they can reach."""

from __future__ import annotations

import math
from typing import Any

from flota import config, tls
from flota.launch.kubernetes.settings import HEALTH_PORT, SERVER_PORT, TIMEOUT, Settings
from flota.launch.kubernetes.values import Resources
from flota.prometheus.page import PATH as METRICS_PATH
from flota.roles import environment as roles

Object = dict[str, Any]

SECRET_KEY = "secret"
SERVER_FILES = (tls.SERVER, tls.SERVER_KEY, tls.CLIENT_AUTHORITY)
WORKER_FILES = (tls.AUTHORITY, tls.CLIENT, tls.CLIENT_KEY)

# Not /flota: a script whose folder is / would find it there when it imports flota.
_SECRET_FOLDER, _DURABLE_FOLDER, _SCRIPT_FOLDER = "/run/flota/secret", "/run/flota/durable", "/run/flota/script"
_SENT_SCRIPT = "script.py"
ENDED = "/run/flota/ended"  # the file of a worker's termination message (``late``)
DURABLE = "durable"  # the volume of what servers keep

# Exit statuses after which a pod is not made anew: called wrongly; and 70, with which flota's first process in a pod
# says that the same would happen again (``attend``).
NOT_AGAIN = (2, 70)

# Importing torch and what else a script needs before init_server(), on a cold disk and a busy node.
_START_SECONDS = 600
_PROBE = {"timeoutSeconds": 5}
_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
_FAILURES = "metadata.annotations['batch.kubernetes.io/job-index-failure-count']"


def labels(settings: Settings, component: str = "") -> dict[str, str]:
    """Kubernetes' recommended ones. ``instance`` is what a job's objects have in common."""
    found = {
        "app.kubernetes.io/name": "flota",
        "app.kubernetes.io/instance": settings.name,
        "app.kubernetes.io/managed-by": "flota",
    }
    return {**found, "app.kubernetes.io/component": component} if component else found


def selector(settings: Settings, component: str = "") -> dict[str, str]:
    """What finds the pods, by labels that never change."""
    found = {"app.kubernetes.io/name": "flota", "app.kubernetes.io/instance": settings.name}
    return {**found, "app.kubernetes.io/component": component} if component else found


def server_pod(settings: Settings, index: int | None = None) -> Object:
    """The template of a server's pod: of all servers in a StatefulSet, or of this one where each has its own."""
    # A pod of a StatefulSet has the name that its server has among all; Kubernetes puts it in.
    named = [_field("POD_NAME", "metadata.name")] if index is None else []
    host = f"$(POD_NAME).{settings.name}-server" if index is None else settings.server_host(index)
    env = [
        *named,
        _set(roles.ROLE, "PSERVER"),
        _set(roles.HOST, host),
        _set(roles.PORT, str(SERVER_PORT)),
        _field(config.LISTEN, "status.podIP"),
        _set(config.HEALTH_PORT, str(HEALTH_PORT)),
        *_metrics(settings),
        *_durability(settings),
        *_everybodys(settings, settings.server),
    ]
    container = {
        **_container(settings, "server", env),
        "ports": [
            {"name": "server", "containerPort": SERVER_PORT},
            {"name": "health", "containerPort": HEALTH_PORT},
            *_metrics_ports(settings),
        ],
        # Alive while it recovers, however long that takes; ready once it serves.
        "startupProbe": {**_get("/healthz"), **_PROBE, "periodSeconds": 5, "failureThreshold": _START_SECONDS // 5},
        "livenessProbe": {**_get("/healthz"), **_PROBE, "periodSeconds": 10, "failureThreshold": 6},
        "readinessProbe": {**_get("/readyz"), **_PROBE, "periodSeconds": 5, "failureThreshold": 2},
    }
    volumes = _volumes(settings, "server")
    if settings.durable:
        container["volumeMounts"] = [*container["volumeMounts"], {"name": DURABLE, "mountPath": _DURABLE_FOLDER}]
        if index is not None:
            volumes.append({"name": DURABLE, "persistentVolumeClaim": {"claimName": claim_of(settings, index)}})
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",  # better two on a node than none
        "labelSelector": {"matchLabels": selector(settings, "server")},
    }
    return _template(settings, "server", container, volumes, {"topologySpreadConstraints": [spread]})


def worker_pod(settings: Settings) -> Object:
    """The template of the workers' pods, in an Indexed Job."""
    env = [
        _set(roles.ROLE, "TRAINER"),
        _field(roles.WORKER_ID, _INDEX),
        _field(config.RESTARTS, _FAILURES),
        *_metrics(settings),
        *_everybodys(settings, settings.worker),
    ]
    container = {**_container(settings, "worker", env), "terminationMessagePath": ENDED}
    if ports := _metrics_ports(settings):
        container["ports"] = ports
    volumes = _volumes(settings, "worker")
    # Readers of data hand batches over in shared memory, of which a pod has 64 MiB unless something is mounted there.
    container["volumeMounts"] = [*container["volumeMounts"], {"name": "shm", "mountPath": "/dev/shm"}]
    volumes.append({"name": "shm", "emptyDir": {"medium": "Memory"}})
    return _template(settings, "worker", container, volumes, {"restartPolicy": "Never"})


def claim_of(settings: Settings, index: int) -> str:
    """The volume of one server's durable folder, by the name that a StatefulSet gives it."""
    return f"{DURABLE}-{settings.name}-server-{index}"


def claim_spec(settings: Settings) -> Object:
    storage = {"storageClassName": settings.storage_class} if settings.storage_class else {}
    return {
        "accessModes": ["ReadWriteOnce"],
        **storage,
        "resources": {"requests": {"storage": settings.volume_size}},
    }


def _template(settings: Settings, role: str, container: Object, volumes: list[Object], more: Object) -> Object:
    pull = {"imagePullSecrets": [{"name": settings.pull_secret}]} if settings.pull_secret else {}
    nodes = {"nodeSelector": dict(settings.node_selector)} if settings.node_selector else {}
    return {
        "metadata": {"labels": labels(settings, role), **_scraped(settings)},
        "spec": {
            "serviceAccountName": settings.name,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": settings.grace,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": settings.user,
                "runAsGroup": settings.user,
                "fsGroup": settings.user,
                "fsGroupChangePolicy": "OnRootMismatch",
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            **pull,
            **nodes,
            **more,
            "containers": [container],
            "volumes": volumes,
        },
    }


def _container(settings: Settings, role: str, env: list[Object]) -> Object:
    runner = ["-m", "flota.paddle"] if settings.paddle else []
    script = settings.script if settings.script_text is None else f"{_SCRIPT_FOLDER}/{_SENT_SCRIPT}"
    # A server of a StatefulSet is started again whatever its exit status: it stays instead, and holds no rows.
    stay = ["--stay"] if role == "server" and not settings.jobset else []
    restarts = [f"--restarts={settings.max_restarts}"] if role == "worker" else []
    policy = {"imagePullPolicy": settings.pull_policy} if settings.pull_policy else {}
    mounts = [
        {"name": "secret", "mountPath": _SECRET_FOLDER, "readOnly": True},
        {"name": "tmp", "mountPath": "/tmp"},
        *(
            [{"name": "script", "mountPath": _SCRIPT_FOLDER, "readOnly": True}]
            if settings.script_text is not None
            else []
        ),
        *(
            {"name": f"mount-{i}", "mountPath": mount.path, **({"readOnly": True} if mount.read_only else {})}
            for i, mount in enumerate(settings.mounts)
        ),
    ]
    return {
        "name": role,
        "image": settings.image,
        **policy,
        "command": ["python", "-u", "-m", "flota.launch.kubernetes.attend", role, *stay, *restarts, "--"],
        "args": [_as_written(word) for word in (*runner, script, *settings.script_args)],
        "env": env,
        "resources": _requests(settings.server if role == "server" else settings.worker),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    }


def _everybodys(settings: Settings, resources: Resources) -> list[Object]:
    """What servers and workers are told alike; the user's own last, who may say another FLOTA_TIMEOUT."""
    servers = ",".join(f"{host}:{SERVER_PORT}" for host in settings.server_hosts)
    found = {
        roles.SERVERS: servers,
        roles.WORKER_NUM: str(settings.worker_num),
        config.SECRET_FILE: f"{_SECRET_FOLDER}/{SECRET_KEY}",
        config.INSECURE if settings.insecure else config.CERTS: "1" if settings.insecure else _SECRET_FOLDER,
        config.TIMEOUT: str(TIMEOUT),
        config.THREADS: str(_threads(resources.cpu)),  # torch would take all cores of the node
        **config.log_settings(),
        "HOME": "/tmp",
        **{name: _as_written(value) for name, value in settings.env},
    }
    return [_set(name, value) for name, value in found.items()]


def _metrics(settings: Settings) -> list[Object]:
    if settings.metrics_port is None:
        return []
    port = str(settings.metrics_port)
    return [_set(config.METRICS_PORT, port), _field(config.METRICS_HOST, "status.podIP")]


def _metrics_ports(settings: Settings) -> list[Object]:
    return [] if settings.metrics_port is None else [{"name": "metrics", "containerPort": settings.metrics_port}]


def _scraped(settings: Settings) -> Object:
    """By these annotations Prometheus finds pods, where it is configured as its examples are."""
    if settings.metrics_port is None:
        return {}
    found = {"scrape": "true", "port": str(settings.metrics_port), "path": METRICS_PATH}
    return {"annotations": {f"prometheus.io/{name}": value for name, value in found.items()}}


def _durability(settings: Settings) -> list[Object]:
    if not settings.durable:
        return []
    found = [_set(config.DURABLE_DIR, _DURABLE_FOLDER)]
    if settings.durable_sync:
        found.append(_set(config.DURABLE_SYNC, "1"))
    if settings.snapshot_seconds is not None:
        found.append(_set(config.SNAPSHOT_SECONDS, f"{settings.snapshot_seconds:.10g}"))
    if settings.snapshot_mb is not None:
        found.append(_set(config.SNAPSHOT_MB, f"{settings.snapshot_mb:.10g}"))
    return found


def _volumes(settings: Settings, role: str) -> list[Object]:
    files = (SERVER_FILES if role == "server" else WORKER_FILES) if not settings.insecure else ()
    secret = {
        "secretName": settings.secret_name,
        "defaultMode": 0o440,  # root's, and the pod's group's
        "items": [{"key": name, "path": name} for name in (SECRET_KEY, *files)],
    }
    found: list[Object] = [{"name": "secret", "secret": secret}, {"name": "tmp", "emptyDir": {}}]
    if settings.script_text is not None:
        found.append({"name": "script", "configMap": {"name": f"{settings.name}-script"}})
    for i, mount in enumerate(settings.mounts):
        claim = {"claimName": mount.claim, **({"readOnly": True} if mount.read_only else {})}
        found.append({"name": f"mount-{i}", "persistentVolumeClaim": claim})
    return found


def _requests(resources: Resources) -> Object:
    found: Object = {"requests": {"cpu": resources.cpu, "memory": resources.memory}}
    # No limit for cores: a pod that is throttled keeps all others waiting, and idle cores are nobody's.
    limits = {
        **({"memory": resources.memory} if resources.memory_is_limit else {}),
        **({"nvidia.com/gpu": str(resources.gpus)} if resources.gpus else {}),
    }
    return {**found, "limits": limits} if limits else found


def _threads(cpu: str) -> int:
    cores = float(cpu[:-1]) / 1000 if cpu.endswith("m") else float(cpu)
    return max(1, math.floor(cores))


def _as_written(text: str) -> str:
    """Kubernetes puts variables' values for $(NAME); a user's text comes to the process as it was given."""
    return text.replace("$(", "$$(")


def _set(name: str, value: str) -> Object:
    return {"name": name, "value": value}


def _field(name: str, path: str) -> Object:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _get(path: str) -> Object:
    return {"httpGet": {"path": path, "port": "health"}}


def sent_script(settings: Settings) -> dict[str, str]:
    assert settings.script_text is not None
    return {_SENT_SCRIPT: settings.script_text}
