"""The workers of a job in the cluster of the tests: their Job's controller, written from Kubernetes' documentation, and
workers that are members of a real server's team, and train nothing.
"""

import os
import subprocess
import sys
import threading
import time

from flota import _core
from flota.errors import FlotaError

PART, MODE = _core.TeamPart, _core.TeamMode
_LOOK = 0.02
_BACK_OFF = 3.0  # seconds after the first failure; of a cluster 10. Twice as much after each other
SECRET = "0123456789abcdef" * 4


class Worker(threading.Thread):
    """One pod's: it joins, and leaves when it is asked to."""

    def __init__(self, port, index, world, mode, stays):
        super().__init__(daemon=True)
        self._told = port, index, world, mode
        self._stays = stays  # goes on after its goodbye, until this is set
        self.word = ""
        self.ended = False
        self.killed = threading.Event()
        self.start()

    def run(self):
        port, index, world, mode = self._told
        options = _core.ClientOptions()
        options.endpoints, options.secret, options.worker = [f"127.0.0.1:{port}"], SECRET, index + 1
        client = _core.Client.connect(options, 10_000)
        try:
            client.team(PART.join, 10_000, index, world, mode)
            while not self.killed.wait(_LOOK):
                if index >= client.team(PART.ask, 10_000).wanted:
                    client.team(PART.leave, 10_000, index)
                    self._stays.wait()
                    self.word = "left"
                    break
        except FlotaError as error:
            self.word = f"could not join: {error}"
        self.ended = True


class Workers:
    """As many pods as the workers' Job asks for, from a server's start to the end of the ``with`` block."""

    def __init__(self, cluster, *, mode=MODE.asynchronous):
        self.cluster, self.api, self.mode = cluster, cluster.api, mode
        self.no_room: set[int] = set()  # indices whose pods wait
        self.fail: set[int] = set()  # whose workers cannot join
        self.killed: set[int] = set()  # whose pods are killed before they have joined
        self.after_goodbye = threading.Event()
        self.after_goodbye.set()
        self.started: list[int] = []  # every pod's index
        self.broken: list[str] = []  # what a controller would have killed or started twice
        self.counts = True  # the controller looks at its Job
        self._running: dict[str, tuple[int, Worker]] = {}
        self._due: dict[int, float] = {}  # when another pod is made
        self._serial = 0
        options = _core.ServerOptions()
        options.endpoint, options.secret, options.index, options.count = "127.0.0.1:0", SECRET, 0, 1
        self.server = _core.Server.start(options)
        self.api.exec_in = self._execute
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tend, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self.after_goodbye.set()
        self._thread.join(20)
        for _, worker in self._running.values():
            worker.killed.set()
        for _, worker in self._running.values():
            worker.join(20)
        self.server.stop()

    def team(self):
        """How many there are, and shall be, as server 0 has it."""
        options = _core.ClientOptions()
        options.endpoints, options.secret = [f"127.0.0.1:{self.server.port}"], SECRET
        told = _core.Client.connect(options, 10_000).team(PART.ask, 10_000)
        return told.workers, told.wanted

    @property
    def job(self):
        return self.api.of("jobs")[0]

    @property
    def numbers(self):
        spec = self.job["spec"]
        assert spec["completions"] == spec["parallelism"]
        return spec["completions"]

    @property
    def completed(self):
        text = self.job.get("status", {}).get("completedIndexes", "")
        return {int(part) for part in text.split(",") if part}

    def finish(self, index):
        """Its script has come to its end, as a member."""
        for of, worker in self._running.values():
            if of == index:
                worker.killed.set()

    def _execute(self, pod, words):
        index = next(of for name, (of, _) in self._running.items() if name == pod)
        place = {
            "TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(index), "PADDLE_TRAINERS_NUM": "2",
            "PADDLE_PSERVERS_IP_PORT_LIST": f"127.0.0.1:{self.server.port}", "FLOTA_SECRET": SECRET,
            "FLOTA_TIMEOUT": "600",
        }  # fmt: skip
        pipe = subprocess.PIPE
        assert words[0] == "python"
        return subprocess.Popen(
            [sys.executable, *words[1:]], env={**os.environ, **place}, stdin=pipe, stdout=pipe, stderr=pipe
        )

    # --- the Job's controller ---

    def _tend(self):
        while not self._over.wait(_LOOK):
            with self.api.lock:
                if self.counts and self.api.of("jobs"):
                    self._look()

    def _look(self):
        self.job.setdefault("status", {})
        wanted, done = self.numbers, self.completed
        for name, (index, worker) in list(self._running.items()):
            pod = self.api.objects.get(("pods", name))
            if pod is None:
                del self._running[name]
                worker.killed.set()
            elif worker.ended:
                del self._running[name]
                state = {"terminated": {"exitCode": 0, "message": worker.word}}
                pod["status"] = {"phase": "Succeeded", "containerStatuses": [{"name": "worker", "state": state}]}
                done.add(index)
        live = self._live()
        for index in sorted(live):
            if index >= wanted:
                running = [worker for of, worker in self._running.values() if of == index]
                if running:
                    self.broken.append(f"worker {index} was killed")
                self.api.delete("pods", live.pop(index))
        done = {index for index in done if index < wanted}
        self.job["status"]["completedIndexes"] = ",".join(map(str, sorted(done)))
        for index in set(range(wanted)) - done - set(live):
            if time.monotonic() >= self._due.get(index, 0):
                self._start(index)
        if len(done) == wanted:
            self.cluster.end("Complete")

    def _live(self):
        found = {}
        for pod in self.api.of("pods"):
            index = pod["metadata"]["labels"].get("batch.kubernetes.io/job-completion-index")
            if index is not None and pod["status"]["phase"] in ("Pending", "Running"):
                found[int(index)] = pod["metadata"]["name"]
        return found

    def _start(self, index):
        self._serial += 1
        suffix = f"-{self._serial:03d}"
        if index in self.no_room:
            message = "0/3 nodes are available: 3 Insufficient cpu."
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
            pod = self.cluster.pod("worker", index, "Pending", suffix=suffix, conditions=[condition])
            pod["status"]["containerStatuses"] = []
            return
        self.started.append(index)
        if index in self.killed:
            before = sum(1 for of in self.started if of == index) - 1
            pod = self.cluster.pod("worker", index, "Failed", suffix=suffix, exit_status=137)
            pod["metadata"]["annotations"] = {"batch.kubernetes.io/job-index-failure-count": str(before)}
            if before >= self.job["spec"]["backoffLimitPerIndex"]:
                self.cluster.end("Failed", "Job has exceeded the specified maximal number of failed indexes")
            self._due[index] = time.monotonic() + _BACK_OFF * 2**before
            return
        pod = self.cluster.pod("worker", index, suffix=suffix)
        if index in self.fail:
            state = {"terminated": {"exitCode": 0, "message": "could not join: it ended with exit status 1"}}
            pod["status"] = {"phase": "Succeeded", "containerStatuses": [{"name": "worker", "state": state}]}
            self.job["status"]["completedIndexes"] = ",".join(map(str, sorted({*self.completed, index})))
            return
        worker = Worker(self.server.port, index, max(2, index + 1), self.mode, self.after_goodbye)
        self._running[pod["metadata"]["name"]] = (index, worker)
