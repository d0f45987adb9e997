"""Bad input bothers nobody but its sender.

A bystander trains beside each test of the shared cluster: after it, the bystander's rows have every bit they had
before, and its client works on.
"""

from collections.abc import Iterator

import numpy as np
import pytest

from flota import Client, SparseTable
from flota.initializer import Uniform
from flota.rules import SGD, Adagrad
from flota.testing import LocalCluster
from raw_peer import RawPeer
from table_contents import contents


@pytest.fixture(scope="module")
def bystander(cluster: LocalCluster) -> SparseTable:
    """A table in use by a client that does nothing wrong."""
    table = cluster.client().create_sparse_table("bystander", dim=4, rule=Adagrad(lr=0.1), init=Uniform(-1, 1))
    table.push(np.arange(50), np.ones((50, 4), dtype=np.float32))
    return table


@pytest.fixture(autouse=True)
def nobody_else_notices(request: pytest.FixtureRequest) -> Iterator[None]:
    if "cluster" not in request.fixturenames:
        yield
        return
    bystander = request.getfixturevalue("bystander")
    before = contents(bystander, range(50))
    yield
    assert contents(bystander, range(50)) == before
    bystander.push([7], [[1.0, 2.0, 3.0, 4.0]], lr=0.5)
    assert len(bystander.pull([7, 8])) == 2


@pytest.fixture
def table(client: Client, name: str) -> SparseTable:
    """Four rows of dim 2, on both servers."""
    table = client.create_sparse_table(name, dim=2, rule=SGD(lr=1.0), seed=0)
    table.push([1, 2, 3, 4], [[1.0, 2.0]] * 4, kind="assign")
    return table


@pytest.fixture
def peer(cluster: LocalCluster) -> Iterator[RawPeer]:
    """A raw peer of server 0 that has proven the secret."""
    with RawPeer(cluster.endpoints[0]) as peer:
        assert peer.handshake(cluster.secret) == 0
        yield peer
