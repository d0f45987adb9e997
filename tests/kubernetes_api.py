"""As much of Kubernetes' API as ``kubectl`` needs: discovery, objects that are created, read, patched and deleted, and
commands in pods (``kubernetes_exec``).

Objects are checked against the schemas of a release (the kubernetes-validate package) as a strict API server would. No
controllers act on them: a test says itself what became of a job, by changing ``objects``. What passes here is what
kubectl sends and a cluster's schemas take; admission, defaults and controllers are those of no cluster.
"""

from __future__ import annotations

import itertools
import json
import threading
import uuid
from collections.abc import Callable
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from kubernetes_exec import execute

RELEASE = "1.37"

# (group/version, plural, kind, short names)
RESOURCES = [
    ("v1", "pods", "Pod", ["po"]),
    ("v1", "services", "Service", ["svc"]),
    ("v1", "secrets", "Secret", []),
    ("v1", "configmaps", "ConfigMap", ["cm"]),
    ("v1", "serviceaccounts", "ServiceAccount", ["sa"]),
    ("v1", "persistentvolumeclaims", "PersistentVolumeClaim", ["pvc"]),
    ("apps/v1", "statefulsets", "StatefulSet", ["sts"]),
    ("batch/v1", "jobs", "Job", []),
    ("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy", ["netpol"]),
]
JOBSET = ("jobset.x-k8s.io/v1alpha2", "jobsets", "JobSet", [])
_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


class Refused(Exception):
    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason = code, reason


class KubernetesApi:
    """Serves while the ``with`` block runs. ``kubeconfig`` is a file for ``KUBECONFIG``."""

    def __init__(self, folder: Path, *, jobsets: bool = True) -> None:
        self.objects: dict[tuple[str, str], dict] = {}  # by (plural, name)
        self.lock = threading.RLock()
        self.requests: list[str] = []
        self._versions = itertools.count(1)
        self.created: Callable[[dict], None] = lambda thing: None  # called with each new object
        self.log_of: Callable[[str, dict], object] = lambda name, query: [b"no log\n"]
        self.exec_in: Callable[[str, list[str]], object] = lambda name, words: None  # gives the process
        self.no_exec = ""  # why nobody may have commands executed
        self.resources = [*RESOURCES, *([JOBSET] if jobsets else [])]
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"api": self}))
        self._server.daemon_threads = True
        self.kubeconfig = folder / "kubeconfig"
        where = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.kubeconfig.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "test", "cluster": {"server": where}}],
                    "users": [{"name": "test", "user": {}}],
                    "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": "ml"}}],
                    "current-context": "test",
                }
            )
        )

    def __enter__(self) -> KubernetesApi:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def of(self, plural: str) -> list[dict]:
        with self.lock:
            return [thing for (kind, _), thing in sorted(self.objects.items()) if kind == plural]

    def add(self, thing: dict) -> dict:
        """An object from inside the cluster, such as a pod from a controller."""
        plural = next(plural for _, plural, kind, _ in self.resources if kind == thing["kind"])
        metadata = thing["metadata"]
        metadata.setdefault("namespace", "ml")
        metadata["resourceVersion"] = str(next(self._versions))
        metadata.setdefault("uid", str(uuid.uuid4()))
        metadata.setdefault("creationTimestamp", datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
        with self.lock:
            if (plural, metadata["name"]) in self.objects:
                raise Refused(409, "AlreadyExists", f'{plural} "{metadata["name"]}" already exists')
            self.objects[plural, metadata["name"]] = thing
        return thing

    def create(self, thing: dict) -> dict:
        """One that a user sends: checked, kept, told."""
        import kubernetes_validate

        plural = next(plural for _, plural, kind, _ in self.resources if kind == thing["kind"])
        if plural != "jobsets":
            try:
                kubernetes_validate.validate(thing, RELEASE, strict=True)
            except kubernetes_validate.ValidationError as error:
                raise Refused(422, "Invalid", f"{thing['kind']} {thing['metadata']['name']}: {error.message}") from None
        made = self.add(thing)
        self.created(made)
        return made

    def patch(self, plural: str, name: str, changes: dict) -> dict:
        """A merge patch that a user sends."""
        import kubernetes_validate

        with self.lock:
            thing = self.objects[plural, name]
            version = changes.get("metadata", {}).get("resourceVersion", thing["metadata"]["resourceVersion"])
            if version != thing["metadata"]["resourceVersion"]:
                raise Refused(409, "Conflict", f'{plural} "{name}": the object has been modified')
            new = _merged(thing, changes)
            new["metadata"]["resourceVersion"] = str(next(self._versions))
            _check_numbers(thing, new)
            if "spec" in changes:
                kubernetes_validate.validate({**new, "status": {}}, RELEASE, strict=True)
            thing.update(new)
        return thing

    def delete(self, plural: str, name: str) -> dict:
        with self.lock:
            thing = self.objects.pop((plural, name), None)
            if thing is None:
                raise Refused(404, "NotFound", f'{plural} "{name}" not found')
            # As the garbage collector would: a controller's pods go with it.
            for key, other in list(self.objects.items()):
                owners = [owner["uid"] for owner in other["metadata"].get("ownerReferences", [])]
                if thing["metadata"]["uid"] in owners:
                    self.delete(*key)
        return thing


class _Handler(BaseHTTPRequestHandler):
    api: KubernetesApi
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_DELETE = do_PATCH = do_PUT = do_GET  # noqa: N815

    def _answer(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.api.requests.append(f"{self.command} {self.path}")
        words = url.path.strip("/").split("/")
        try:
            if words[-1] == "log":
                self._stream(self.api.log_of(words[-2], query))
                return
            if words[-1] == "exec":
                self._execute(words[-2], parse_qs(url.query)["command"])
                return
            answer = self._discovery(words)
            if answer is None:
                answer = self._object(words, query, json.loads(body) if body.startswith(b"{") else {})
            self._send(200 if self.command != "POST" else 201, answer)
        except (Refused, LookupError, ValueError) as found:
            error = found if isinstance(found, Refused) else Refused(404, "NotFound", f"there is no {self.path}")
            status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "metadata": {}}
            self._send(error.code, {**status, "message": str(error), "reason": error.reason, "code": error.code})

    def _send(self, code: int, answer: dict) -> None:
        text = json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _stream(self, pieces) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Connection", "close")
        self.end_headers()
        for piece in pieces:
            self.wfile.write(piece)
            self.wfile.flush()
        self.close_connection = True

    def _execute(self, pod: str, words: list[str]) -> None:
        with self.api.lock:
            if self.api.objects["pods", pod]["status"].get("phase") != "Running":
                raise Refused(400, "BadRequest", f"cannot exec into a container of {pod}: it does not run")
        if self.api.no_exec:
            raise Refused(403, "Forbidden", self.api.no_exec)
        if not execute(self, words, lambda words: self.api.exec_in(pod, words), fed="stdin=true" in self.path):
            raise Refused(400, "BadRequest", "only WebSockets are spoken here")

    def _discovery(self, words: list[str]) -> dict | None:
        if self.command != "GET":
            return None
        versions = list(dict.fromkeys(version for version, *_ in self.api.resources))
        match words:
            case ["version"]:
                major, minor = RELEASE.split(".")
                return {"major": major, "minor": minor, "gitVersion": f"v{RELEASE}.0"}
            case ["api"]:
                return {"kind": "APIVersions", "versions": ["v1"]}
            case ["apis"]:
                groups = [_group(version) for version in versions if "/" in version]
                return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
            case ["openapi", "v3"]:
                paths = {f"{'apis' if '/' in version else 'api'}/{version}" for version in versions}
                return {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}"} for path in paths}}
            case ["openapi", "v3", _, *version]:
                return _openapi("/".join(version), self.api.resources)
            case ["api", version] | ["apis", _, version]:
                wanted = version if words[0] == "api" else f"{words[1]}/{version}"
                found = [
                    {
                        "name": plural, "singularName": kind.lower(), "namespaced": True, "kind": kind, "verbs": _VERBS,
                        "shortNames": short,
                    }
                    for of, plural, kind, short in self.api.resources
                    if of == wanted
                ]  # fmt: skip
                return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": wanted, "resources": found}
        return None

    def _object(self, words: list[str], query: dict[str, str], body: dict) -> dict:
        plural, name = (
            words[words.index("namespaces") + 2 :][:1][0],
            "".join(words[words.index("namespaces") + 3 :][:1]),
        )
        version, kind = next((of, kind) for of, of_plural, kind, _ in self.api.resources if of_plural == plural)
        if self.command == "POST":
            return self.api.create(body)
        if self.command == "PATCH":
            assert self.headers["Content-Type"] == "application/merge-patch+json", "no other is needed here"
            return {"apiVersion": version, "kind": kind, **self.api.patch(plural, name, body)}
        if self.command == "DELETE":
            if name:
                return self.api.delete(plural, name)
            for thing in self._chosen(plural, query):
                self.api.delete(plural, thing["metadata"]["name"])
            return {"kind": "Status", "apiVersion": "v1", "status": "Success"}
        if name:
            with self.api.lock:
                if (plural, name) not in self.api.objects:
                    raise Refused(404, "NotFound", f'{plural} "{name}" not found')
                return {"apiVersion": version, "kind": kind, **self.api.objects[plural, name]}
        return {
            "kind": f"{kind}List", "apiVersion": version, "metadata": {"resourceVersion": "1"},
            "items": [{"apiVersion": version, "kind": kind, **thing} for thing in self._chosen(plural, query)],
        }  # fmt: skip

    def _chosen(self, plural: str, query: dict[str, str]) -> list[dict]:
        wanted = [label.split("=", 1) for label in query.get("labelSelector", "").split(",") if label]
        names = [
            field.split("=", 1)[1] for field in query.get("fieldSelector", "").split(",") if "metadata.name" in field
        ]
        return [
            thing
            for thing in self.api.of(plural)
            if all(thing["metadata"].get("labels", {}).get(label) == value for label, value in wanted)
            and (not names or thing["metadata"]["name"] in names)
        ]


def _merged(thing: object, changes: object) -> object:
    """RFC 7386."""
    if not isinstance(changes, dict):
        return changes
    found = dict(thing) if isinstance(thing, dict) else {}
    for name, value in changes.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = _merged(found.get(name), value)
    return found


def _check_numbers(old: dict, new: dict) -> None:
    """What a cluster asks of an Indexed Job whose completions change, and that it takes no other change of what was
    decided when the Job was made."""
    if old["kind"] != "Job":
        return
    was, spec = old["spec"], new["spec"]
    if was["completions"] != spec["completions"] and (
        spec["completionMode"] != "Indexed"
        or was["completions"] != was["parallelism"]
        or spec["completions"] != spec["parallelism"]
    ):
        raise Refused(422, "Invalid", f"Job {old['metadata']['name']}: spec.completions: field is immutable")
    if any(was[name] != spec[name] for name in was if name not in ("completions", "parallelism")):
        raise Refused(422, "Invalid", f"Job {old['metadata']['name']}: field is immutable")


def _openapi(version: str, resources: list) -> dict:
    """That fields are checked here: kubectl looks for this before it leaves that to the server."""
    group, _, of = version.rpartition("/")
    asks = [{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}]
    paths = {}
    for kinds_version, plural, kind, _ in resources:
        if kinds_version == version:
            told = {"group": group, "version": of, "kind": kind}
            patch = {"parameters": asks, "x-kubernetes-group-version-kind": told, "responses": {}}
            paths[f"/{'apis' if group else 'api'}/{version}/namespaces/{{namespace}}/{plural}/{{name}}"] = {
                "patch": patch
            }
    return {"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": RELEASE}, "paths": paths}


def _group(version: str) -> dict:
    group, of = version.split("/")
    entry = {"groupVersion": version, "version": of}
    return {"name": group, "versions": [entry], "preferredVersion": entry}
