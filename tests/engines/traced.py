"""Jobs on hosts whose network fails, started on each of them as one would by hand."""

import itertools
import json
import os
import sys
from pathlib import Path

from waiting import wait_until

SCRIPT = Path(__file__).with_name("traced_job.py")
SECRET = "what only the hosts of this job know"
# What the environment of whoever runs the tests may say about jobs.
_JOB_NAMES = ("FLOTA_", "PADDLE_", "FLAGS_", "POD_IP", "TRAINING_ROLE", "OMP_")
_PORTS = itertools.count(6200, 20)
BATCH = 10


class TracedJob:
    """``servers`` and ``workers``: the hosts of each; a worker makes ``steps`` steps of ``pace`` seconds and more."""

    def __init__(
        self, folder, mode, servers, workers, *, steps=100, pace=0.02, timeout=30.0, files=0, certificates=None,
        arguments=(),
    ):  # fmt: skip
        self.folder = folder / f"{mode}-{next(_PORTS)}"
        self.folder.mkdir(parents=True)
        self.workers = workers
        self.samples = steps * BATCH * len(workers)
        names = []
        for number in range(files):
            names.append(str(self.folder / f"part-{number}"))
            keys = range(number * self.samples // files, (number + 1) * self.samples // files)
            Path(names[-1]).write_text("".join(f"1 {key}\n" for key in keys))
        settings = {"out": str(self.folder), "mode": mode, "samples": self.samples, "batch": BATCH, "pace": pace}
        (self.folder / "settings.json").write_text(json.dumps({**settings, "files": names}))
        first = next(_PORTS)
        hosts = list(dict.fromkeys([*servers, *workers]))
        lists = [
            "--servers=" + ",".join(f"{host.address}:{first + i}" for i, host in enumerate(servers)),
            "--workers=" + ",".join(f"{host.address}:{first + 10 + i}" for i, host in enumerate(workers)),
        ]
        clean = {name: value for name, value in os.environ.items() if not name.startswith(_JOB_NAMES)}
        protected = {"FLOTA_CERTS": str(certificates)} if certificates else {"FLOTA_INSECURE": "1"}
        self.launches = {
            host: host.start(
                [sys.executable, "-m", "flota.launch", *lists, *arguments, f"--log_dir={self.folder}/log-{host.name}",
                 SCRIPT, self.folder / "settings.json"],
                cwd=self.folder,
                env={**clean, **protected, "FLOTA_SECRET": SECRET, "POD_IP": host.address, "OMP_NUM_THREADS": "1",
                     "FLOTA_TIMEOUT": str(timeout)},
            )
            for host in hosts
        }  # fmt: skip

    def times(self, worker):
        """When the worker has made each of its steps."""
        file = self.folder / f"steps.{worker}"
        return [float(line) for line in file.read_text().split()] if file.exists() else []

    def wait_for_step(self, step, timeout=90.0):
        """Until every worker has made so many steps."""
        workers = range(len(self.workers))
        wait_until(lambda: all(len(self.times(i)) >= step for i in workers) or self._has_failed(), timeout)
        assert not self._has_failed(), self.output

    def _has_failed(self):
        return any(launch.status for launch in self.launches.values())

    def wait(self, timeout=120.0):
        """To the end of all its launches: their exit statuses, by host."""
        return {host: launch.wait(timeout) for host, launch in self.launches.items()}

    def result(self):
        return json.loads((self.folder / "result.json").read_text())

    @property
    def output(self):
        return "\n".join(f"--- {host.name}\n{launch.output}" for host, launch in self.launches.items())

    def log(self, host, name):
        return (self.folder / f"log-{host.name}" / name).read_text()
