"""Jobs that have a page, and how it is asked without a browser."""

import contextlib
import http.client
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from launched import Launch, clean_environment

from waiting import wait_until

CHROMIUM = "/usr/bin/chromium"
LINK = re.compile(r"the dashboard is at (\S+)")

# It ends when the file "end" is there. Worker 1 says something that a careless page would run.
TRAIN = """
from pathlib import Path
import sys, time, torch, flota

flota.init()
model = flota.nn.EmbeddingCollection(features=3, dim=4, name="users")
optimizer = flota.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.01), flota.Async())
if flota.is_server():
    flota.init_server()
    flota.run_server()
else:
    flota.init_worker()
    print("arguments", sys.argv[1:])
    print("worker", flota.worker_index(), "<img src=x onerror=alert(1)>", flush=True)
    drawn = torch.Generator().manual_seed(flota.worker_index())
    # One that was started again goes on at least to where it had been.
    been = Path(f"steps.{flota.worker_index()}")
    step, least = 0, int(been.read_text()) + 20 if been.exists() else 0
    while step < least or not Path("end").exists():
        keys = torch.randint(0, 10_000, (256, 3), generator=drawn)
        keys[:, 0] = 7
        loss = model(keys).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 20 == 0 and step > least:
            Path(f"{been}.new").write_text(str(step))
            Path(f"{been}.new").rename(been)
        flota.log_metrics(auc=0.75)
        if step == 100:
            flota.save_persistables("saved")
        time.sleep(0.005)  # else it would take the machine from other tests
    flota.stop_worker()
"""


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.text = response.read().decode()


def ask(origin, path, *, method="GET", **headers):
    """One request, on a connection of its own."""
    connection = http.client.HTTPConnection(urlsplit(origin).netloc, timeout=20)
    with contextlib.closing(connection):
        connection.putrequest(method, path, skip_host="host" in headers)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        return Answer(connection.getresponse())


def cookie_of(link):
    """What a browser gets for the link."""
    parts = urlsplit(link)
    answer = ask(f"{parts.scheme}://{parts.netloc}", f"{parts.path}?{parts.query}")
    assert answer.status == 200
    return answer.headers["set-cookie"].partition(";")[0]


class Page:
    """``flota dashboard``, as a process."""

    def __init__(self, *flags, folder=None, **settings):
        self._folder = tempfile.TemporaryDirectory()
        self._output = Path(self._folder.name, "output")
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "flota.cli", "dashboard", *flags],
                cwd=folder, env=clean_environment(**settings), stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip

    @property
    def output(self):
        return self._output.read_text()

    def wait(self):
        wait_until(lambda: LINK.search(self.output) or self.process.poll() is not None, timeout=60)
        assert self.process.poll() is None, self.output
        self.link = LINK.search(self.output)[1]
        self.origin = self.link.partition("/login")[0]
        self.cookie = cookie_of(self.link)
        return self

    def get(self, path, **headers):
        return ask(self.origin, path, cookie=self.cookie, **headers)

    def close(self):
        self.process.kill()
        self.process.wait()
        self._folder.cleanup()


class PagedJob(Launch):
    """A launch with ``--dashboard``."""

    def __init__(self, folder, flags, settings):
        (folder / "train.py").write_text(TRAIN)
        words = [flag for flag in flags if flag.startswith("--")]
        numbers = [flag for flag in ("--server_num=2", "--worker_num=2") if flag.partition("=")[0] not in str(words)]
        dashboard = [] if "--dashboard" in str(words) else ["--dashboard"]
        command = [
            sys.executable, "-m", "flota.launch", *numbers, *dashboard, "--view=none", *flags, "train.py", "--dashboard"
        ]  # fmt: skip
        super().__init__(folder, command, clean_environment(**settings))

    def link(self):
        wait_until(lambda: LINK.search(self.output) or self.process.poll() is not None, timeout=90)
        assert self.process.poll() is None, self.output
        return LINK.search(self.output)[1]

    def finish(self):
        (self.folder / "end").touch()
        return self.wait(60)

    def page_pid(self):
        """Of the page's process, which only its launch knows otherwise."""
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (folder / "cmdline").read_text().split("\0")
                if "flota.observe.page" in words and f"--launcher={self.process.pid}" in words:
                    return int(folder.name)
        return None
