"""Pods without Kubernetes: what was rendered, run on hosts of network namespaces.

A pod is a host with its own address. It has what its template says and nothing else: its command, its environment, the
files of its Secret and ConfigMap, its volume, its user, a read-only root and a /tmp of its own. Names of a headless
Service are in every host's /etc/hosts.
"""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from hosts import Host, Hosts, Running

PRIVATE = ("/run/flota",)  # of Hosts
_FOLDER = Path("private/run/flota")  # of a host, where it lies outside
_SHUT = "mount -t tmpfs tmpfs /tmp && mount -o remount,bind,ro /"

_IMAGE = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}  # what an image sets


class Pod:
    """One pod of a template, on a host. ``fields``: what the downward API tells it."""

    def __init__(self, objects: list[dict], template: dict, host: Host, fields: dict[str, str]) -> None:
        self.host = host
        self._objects = objects
        self._spec = template["spec"]
        self._container = self._spec["containers"][0]
        self._fields = {"status.podIP": host.address, **fields}
        host.run(["sh", "-c", _SHUT])
        self._fill()
        self.running: Running = self._start()

    def start_again(self, **fields: str) -> None:
        """The same worker or server as another pod, on the same host."""
        self._fields.update(fields)
        self.running = self._start()

    def health(self, path: str) -> int:
        """What the kubelet would be answered; 0: nothing."""
        ask = (
            "import http.client as h; c = h.HTTPConnection('{}', {}, timeout=5); c.request('GET', '{}'); "
            "print(c.getresponse().status)"
        )
        port = next(port["containerPort"] for port in self._container["ports"] if port["name"] == "health")
        words = [sys.executable, "-c", ask.format(self.host.address, port, path)]
        return int(answer) if (answer := self.host.run(words, check=False).strip()).isdecimal() else 0

    def execute(self, words: Sequence[str]) -> subprocess.Popen[bytes]:
        """As `kubectl exec` has it done: told what the container is told."""
        pipe = subprocess.PIPE
        return subprocess.Popen(
            self.host.command([*self._shut(), *words], Path("/")), env={**_IMAGE, **self._environment()},
            stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True,
        )  # fmt: skip

    @property
    def message(self) -> str:
        """What it has left where its container says."""
        place = self._container.get("terminationMessagePath", "").removeprefix("/run/flota/")
        return (self.host.folder / _FOLDER / place).read_text() if place else ""

    def move(self, host: Host) -> Pod:
        """The pod on another host, with its volume: as after the death of a node."""
        shutil.copytree(self.host.folder / _FOLDER / "durable", host.folder / _FOLDER / "durable")
        moved = Pod.__new__(Pod)
        moved.__init__(  # type: ignore[misc]
            self._objects, {"spec": self._spec}, host, {**self._fields, "status.podIP": host.address}
        )
        return moved

    def _fill(self) -> None:
        """Mounts what the template names. The job's own volumes are below /run/flota."""
        volumes = {volume["name"]: volume for volume in self._spec["volumes"]}
        for mount in self._container["volumeMounts"]:
            if not mount["mountPath"].startswith("/run/flota/"):
                continue
            folder = self.host.folder / _FOLDER / mount["mountPath"].removeprefix("/run/flota/")
            folder.mkdir(exist_ok=True)
            for name, contents in self._contents(volumes.get(mount["name"], {})).items():
                (folder / name).write_bytes(contents)
                (folder / name).chmod(0o440)
        if place := self._container.get("terminationMessagePath"):
            file = self.host.folder / _FOLDER / place.removeprefix("/run/flota/")
            file.touch()
            file.chmod(0o666)
        group = self._spec["securityContext"]["fsGroup"]
        for path in [self.host.folder / _FOLDER, *(self.host.folder / _FOLDER).rglob("*")]:
            shutil.chown(path, group=group)
            if path.is_dir():
                path.chmod(0o2775)

    def _contents(self, volume: dict) -> dict[str, bytes]:
        if source := volume.get("secret"):
            data = self._object("Secret", source["secretName"])["data"]
            return {item["path"]: base64.b64decode(data[item["key"]]) for item in source["items"]}
        if source := volume.get("configMap"):
            data = self._object("ConfigMap", source["name"])["data"]
            return {name: text.encode() for name, text in data.items()}
        return {}

    def _object(self, kind: str, name: str) -> dict:
        return next(one for one in self._objects if (one["kind"], one["metadata"]["name"]) == (kind, name))

    def _start(self) -> Running:
        words = [*self._container["command"], *(word.replace("$$(", "$(") for word in self._container["args"])]
        return self.host.start([*self._shut(), *words], env={**_IMAGE, **self._environment()}, cwd=Path("/"))

    def _shut(self) -> list[str]:
        """Its user, without capabilities. Where Python lies in root's home, others cannot run it: then it is root, who
        has none either, and so may no more than the owner of root's files."""
        user, group = (str(self._spec["securityContext"][name]) for name in ("runAsUser", "runAsGroup"))
        less = ["--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
        other = ["setpriv", "--reuid", user, "--regid", group, "--clear-groups", *less]
        ask = [*other, "python", "-c", "import flota.health; print('able')"]
        able = self.host.run(ask, check=False, env=_IMAGE, cwd="/")
        return other if able.strip() == "able" else ["setpriv", *less]

    def _environment(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for entry in self._container["env"]:
            if "valueFrom" in entry:
                found[entry["name"]] = self._fields.get(entry["valueFrom"]["fieldRef"]["fieldPath"], "")
            else:
                value = re.sub(r"(?<!\$)\$\((\w+)\)", lambda match: found.get(match[1], match[0]), entry["value"])
                found[entry["name"]] = value.replace("$$(", "$(")
        return found


def name_on_all(hosts: Hosts, names: dict[str, str]) -> None:
    """What a cluster's DNS answers: each name's address now."""
    for host in hosts:
        file = host.folder / "hosts"
        lines = [line for line in file.read_text().splitlines() if line.split()[1] not in names]
        # In place: the file itself is what the host has mounted.
        file.write_text("\n".join([*lines, *(f"{address} {name}" for name, address in names.items())]) + "\n")
