"""Workers that come to a job on several hosts and leave it, where each host has a launch of its own."""

import json
import os
import signal
import subprocess
import sys

import pytest
from launched import PRELUDE, Launch, alive, clean_environment
from test_scaling import LIGHT, LIGHT_JOB, pid_of, scale

from flota.launch.hosts import free_ports
from waiting import wait_until

SETTINGS = {"FLOTA_SECRET": "0123456789abcdef0123456789abcdef", "FLOTA_INSECURE": "1"}
HOSTS = ("127.0.0.1", "127.0.0.2")


class HostLaunch(Launch):
    """Beside those of other hosts in one folder."""

    @property
    def output(self):
        return (self.folder / f"output-{self.address}").read_text()


@pytest.fixture
def start(tmp_path):
    """Starts a job with a server on the first host and a worker on each, POD_IP telling the hosts apart."""
    started = []
    ports = free_ports(HOSTS[0], 3)

    def start(script, *flags, hosts=HOSTS, workers=HOSTS, **settings):
        if script is not None:
            (tmp_path / "train.py").write_text(PRELUDE + script)
        lists = [f"--servers={HOSTS[0]}:{ports[0]}"]
        lists += ["--workers=" + ",".join(f"{host}:{port}" for host, port in zip(workers, ports[1:], strict=False))]
        command = [sys.executable, "-m", "flota.launch", *lists, *flags, *(["train.py"] if script is not None else [])]
        launches = []
        for host in hosts:
            environment = clean_environment(**SETTINGS, **settings, POD_IP=host)
            launches.append(HostLaunch(tmp_path, command, environment))
            (tmp_path / "output").rename(tmp_path / f"output-{host}")
            launches[-1].address = host
        started.extend(launches)
        return launches

    yield start
    for launch in started:
        launch.clean_up()


def scaled(launch, workers):
    done = scale(launch, workers)
    assert done.returncode == 0, done.stderr + launch.output
    return done.stdout.splitlines()


def test_workers_come_to_the_hosts_in_turn_and_leave_them(start):
    first, second = start(LIGHT_JOB)
    first.pids("worker.0", "worker.1")
    assert scaled(first, 4) == ["worker 2 has joined", "worker 3 has joined", "4 workers (2 before)"]
    print(first.output); print(second.output)
    assert False
