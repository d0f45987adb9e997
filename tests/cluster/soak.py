"""One long run: two workers and two servers in async mode, keys that grow, a snapshot every 30 s, and every 60 s one of
the processes is killed. At the end the tables, what servers count, and what they tell Prometheus must be what the
workers have sent.

    python tests/cluster/soak.py                                # 30 minutes
    python tests/cluster/soak.py --minutes 2 --kill_every 10
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np
from clusterjobs import environment, no_core_files
from soak_steps import Sent

import flota
from flota.observe.attach import attach

SCRIPT = Path(__file__).with_name("soak_job.py")
VICTIMS = ("server 1", "worker 0", "server 0", "worker 1")
PAGE = 1 << 17
END = 120  # seconds that a job has to come to its end


class Soak:
    def __init__(self, folder, seconds, kill_every, snapshot_seconds, port=0):
        self.folder, self.seconds, self.kill_every = folder, seconds, kill_every
        self.snapshot_seconds, self.port = snapshot_seconds, port
        self.kills = 0
        self.memory = []  # of all processes together, MiB, after each kill
        (folder / "pids").mkdir(parents=True)

    def run(self):
        """What is wrong, line by line."""
        self.until = time.time() + self.seconds
        settings = self.folder / "settings.json"
        settings.write_text(json.dumps({"out": str(self.folder), "until": self.until}))
        command = [
            *(sys.executable, "-m", "flota.cli", "launch", "--server_num=2", "--worker_num=2", "--view=none"),
            *("--log_dir=log", "--max_restarts=1000", f"--snapshot_seconds={self.snapshot_seconds}"),
            *([f"--metrics_port={self.port}"] if self.port else []),
            *(str(SCRIPT), str(settings)),
        ]
        with (self.folder / "output").open("w") as output:
            launcher = subprocess.Popen(
                command, cwd=self.folder, env=environment(30.0), stdout=output, stderr=subprocess.STDOUT
            )
        try:
            return self._watch(launcher)
        finally:
            if launcher.poll() is None:
                launcher.send_signal(signal.SIGTERM)
                launcher.wait(60)

    def _watch(self, launcher):
        due = time.time() + self.kill_every
        while not (self.folder / "trained").exists():
            if launcher.poll() is not None:
                return [f"the job ended with status {launcher.returncode}: see {self.folder / 'output'}"]
            if time.time() > self.until + END:
                return [f"the job did not come to its end within {END} s"]
            if time.time() >= due and time.time() < self.until - self.kill_every / 4:
                self._kill(VICTIMS[self.kills % len(VICTIMS)])
                due += self.kill_every
            time.sleep(0.05)
        wrong = self._compare()
        (self.folder / "looked").touch()
        try:
            status = launcher.wait(END)
        except subprocess.TimeoutExpired:
            return [*wrong, "the job did not end once all was trained"]
        return [*wrong, *([f"the job ended with status {status}"] if status else [])]

    def _kill(self, victim):
        self.memory.append(sum(map(_resident, self._pids())))
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            os.kill(int((self.folder / "pids" / victim).read_text()), signal.SIGKILL)
            self.kills += 1
            print(f"killed {victim}; all processes together had {self.memory[-1]:.0f} MiB", flush=True)

    def _pids(self):
        return [int(file.read_text()) for file in (self.folder / "pids").glob("[!.]*")]

    def _compare(self):
        sent = Sent(self.folder)
        job = attach(argparse.Namespace(servers="", log_dir=str(self.folder / "log")))
        with contextlib.closing(flota.Client(job.servers, timeout=30)) as client:
            found = -np.concatenate(
                [
                    np.asarray(client.table("counts").pull(np.arange(at, min(at + PAGE, len(sent.most))), create=False))
                    for at in range(0, len(sent.most), PAGE)
                ]
            ).reshape(-1)
            counted = {
                name: sum(server.tables["counts"][name] for server in client.statistics())
                for name in ("pushes", "rows_pushed", "rows")
            }
        wrong = []
        for what, bad in (("lost", found < sent.least), ("doubled", found > sent.most)):
            if bad.any():
                key = int(np.flatnonzero(bad)[0])
                wrong.append(
                    f"{what}: {int(bad.sum())} keys, such as {key}: {found[key]:g}, "
                    f"and {sent.least[key]} to {sent.most[key]} were sent"
                )
        learnt = int(found.sum(dtype=np.float64))  # of millions: float32 would round
        if counted["rows_pushed"] != learnt:
            wrong.append(f"servers count {counted['rows_pushed']} rows pushed, and the rows say {learnt}")
        if not (sent.least > 0).sum() <= counted["rows"] <= len(sent.most):
            wrong.append(f"servers have {counted['rows']} rows, and {(sent.least > 0).sum()} keys were sent for sure")
        wrong += self._scraped(counted)
        print(
            f"{sent.steps} steps, {len(sent.most)} keys, {learnt} rows learnt from; {self.kills} kills, "
            f"{sent.deaths} of them of workers, in {sent.doubtful} of whose steps it was open whether they counted",
            flush=True,
        )
        return wrong

    def _scraped(self, counted):
        if not self.port:
            return []
        told = dict.fromkeys(counted, 0.0)
        for server in (1, 2):
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port + server}/metrics", timeout=10) as answer:
                text = answer.read().decode()
            for name in told:
                found = re.search(rf'^flota_table_{name}(?:_total)?\{{[^}}]*table="counts"[^}}]*\}} (\S+)$', text, re.M)
                told[name] += float(found[1]) if found else float("nan")
        return [
            f"Prometheus is told {told[name]:g} {name}, and the servers count {number}"
            for name, number in counted.items()
            if told[name] != number
        ]


def _resident(pid):
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 2**20
    return 0.0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30, help="how long it trains (default: %(default)s)")
    parser.add_argument("--kill_every", type=float, default=60, metavar="S", help="seconds (default: %(default)s)")
    parser.add_argument("--snapshot_seconds", type=float, default=30, metavar="S", help="(default: %(default)s)")
    parser.add_argument("--metrics_port", type=int, default=9400, help="the first of five (default: %(default)s)")
    arguments = parser.parse_args()
    no_core_files()
    folder = Path(tempfile.mkdtemp(prefix="flota-soak-"))
    soak = Soak(
        folder, arguments.minutes * 60, arguments.kill_every, arguments.snapshot_seconds, arguments.metrics_port
    )
    wrong = soak.run()
    if wrong:
        print("\n".join(wrong), f"what it left is in {folder}", sep="\n")
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    print("the tables, what servers count and what Prometheus is told agree with what was sent")
    return 0


if __name__ == "__main__":
    sys.exit(main())
