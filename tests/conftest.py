"""What all Python tests share: real servers, and random numbers that are the same in every run."""

import re
import signal
import zlib
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch

from flota import Client, workers
from flota.testing import LocalCluster

# Small arithmetic in many processes: threads of torch's own would only be in the way.
torch.set_num_threads(1)
# A shell's job in the background has Ctrl-C ignored, one under nohup the end of the terminal; and so would all
# processes of the tests.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="module")
def start_cluster() -> Iterator[Callable[..., LocalCluster]]:
    """Starts clusters that live until the module's tests are done."""
    started: list[LocalCluster] = []

    def start(servers: int = 2, **options: object) -> LocalCluster:
        cluster = LocalCluster(servers, **options)
        cluster.start()
        started.append(cluster)
        return cluster

    yield start
    for cluster in started:
        cluster.stop()


@pytest.fixture(scope="module")
def cluster(start_cluster: Callable[..., LocalCluster]) -> LocalCluster:
    """Two servers, shared by the module's tests: those that crash them start a cluster of their own."""
    return start_cluster(servers=2)


@pytest.fixture(autouse=True)
def forget_the_job() -> Iterator[None]:
    """A test that was a job's worker leaves none behind."""
    yield
    workers.meet(workers.Alone())


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with Client(cluster.endpoints, secret=cluster.secret) as client:
        yield client


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A table's name that no other test of the module uses."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", request.node.name).strip("-")


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers that depend on the test's name only."""
    return np.random.default_rng(zlib.crc32(request.node.name.encode()))
