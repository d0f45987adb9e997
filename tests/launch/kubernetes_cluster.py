"""A cluster of the tests, and flota's commands with it: the real kubectl and an API server of ours, which takes and
keeps what kubectl sends. What controllers would do, each test does.
"""

import importlib.util
import shutil
import subprocess
import sys

import pytest
from launched import clean_environment

from waiting import wait_until

NEEDS = [
    pytest.mark.skipif(
        shutil.which("kubectl") is None, reason="not installed: kubectl (make cluster-tests installs it)"
    ),
    pytest.mark.skipif(
        importlib.util.find_spec("kubernetes_validate") is None, reason="not installed: kubernetes-validate"
    ),
]

JOB = ["launch", "--on=kubernetes", "--image=registry.example.com/ads:1", "--server_num=2", "--worker_num=2"]


class Cluster:
    """A cluster, and flota's commands with it."""

    def __init__(self, folder, api):
        self.folder, self.api = folder, api
        (folder / "ads.py").write_text("print('training')\n")
        # kubectl remembers what a server offers in the home folder.
        self.environment = clean_environment(KUBECONFIG=str(api.kubeconfig), HOME=str(folder))

    def command(self, *words):
        return [sys.executable, "-m", "flota.cli", *words]

    def run(self, *words, timeout=60):
        return subprocess.run(
            self.command(*words), cwd=self.folder, env=self.environment, capture_output=True, text=True,
            timeout=timeout, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def start(self, *words):
        return subprocess.Popen(
            self.command(*words), cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def kubectl(self, *words, given=""):
        return subprocess.run(
            ["kubectl", *words], env=self.environment, input=given, capture_output=True, text=True, timeout=60
        )

    # --- what controllers do ---

    def pod(self, role, index, phase="Running", *, suffix="", ready=True, restarts=0, exit_status=None, **status):
        """A pod as its controller and kubelet would have it by now."""
        labels = {
            "app.kubernetes.io/name": "flota", "app.kubernetes.io/instance": "ads", "app.kubernetes.io/component": role,
        }  # fmt: skip
        name = f"ads-{role}-{index}{suffix}"
        if role == "worker":
            labels["batch.kubernetes.io/job-completion-index"] = str(index)
        state = {"running": {}} if phase == "Running" else {"terminated": {"exitCode": exit_status or 0}}
        container = {"name": role, "ready": ready and phase == "Running", "restartCount": restarts, "state": state}
        if restarts:
            container["lastState"] = {"terminated": {"exitCode": exit_status or 0}}
        controller = self.api.of("statefulsets" if role == "server" else "jobs")[0]
        owner = {"uid": controller["metadata"]["uid"]}
        pod = {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": labels, "ownerReferences": [owner]},
            "spec": {"containers": [{"name": role}], "nodeName": f"node-{index}"},
            "status": {"phase": phase, "containerStatuses": [container], **status},
        }  # fmt: skip
        with self.api.lock:
            self.api.objects.pop(("pods", name), None)
            return self.api.add(pod)

    def volumes(self):
        """Those that the StatefulSet's controller makes of its template."""
        spec = self.api.of("statefulsets")[0]["spec"]
        for index in range(spec["replicas"]):
            template = spec["volumeClaimTemplates"][0]
            metadata = {**template["metadata"], "name": f"durable-ads-server-{index}"}
            self.api.add({"kind": "PersistentVolumeClaim", "metadata": metadata, "status": {"phase": "Bound"}})

    def begin(self):
        """The job runs."""
        wait_until(lambda: self.api.of("jobs"), timeout=60)
        self.volumes()
        for index in range(2):
            self.pod("server", index)
            self.pod("worker", index, suffix="-x")

    def end(self, condition, message=""):
        ended = {"type": condition, "status": "True", "message": message}
        self.api.of("jobs")[0].setdefault("status", {})["conditions"] = [ended]

    def kinds(self):
        return sorted({plural for plural, _ in self.api.objects})


def wait_for(process, timeout=60):
    """Its exit status and all it printed."""
    try:
        output = process.communicate(timeout=timeout)[0]
    finally:
        process.kill()
    return process.returncode, output
