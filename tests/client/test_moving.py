"""A server that comes back elsewhere, while its clients run."""

import os
import socket

import pytest

from flota import Client
from flota.errors import ServerUnavailable
from flota.rules import SGD
from flota.testing import LocalCluster
from waiting import wait_until


def tell(file, *endpoints):
    draft = file.with_name("draft")
    draft.write_text("".join(f"{endpoint}\n" for endpoint in endpoints))
    os.replace(draft, file)


@pytest.fixture
def kept(tmp_path):
    return tmp_path / "kept"


@pytest.fixture
def moved(kept, tmp_path):
    """Ends a cluster's servers with SIGKILL, and starts others with what they had, at other ports."""
    clusters = []

    def moved(cluster):
        for index in range(len(cluster.servers)):
            cluster.crash(index)
        clusters.append(LocalCluster(len(cluster.servers), secret=cluster.secret, durable=kept))
        clusters[-1].start()
        return clusters[-1]

    yield moved
    for cluster in clusters:
        cluster.stop()


@pytest.mark.parametrize("transport", ["auto", "tcp"])
def test_a_client_finds_a_server_that_came_back_elsewhere(kept, moved, tmp_path, transport):
    file = tmp_path / "endpoints"
    with LocalCluster(2, durable=kept) as before:
        client = before.client(endpoints_file=str(file), transport=transport)
        table = client.create_sparse_table("rows", dim=1, rule=SGD(lr=1.0), seed=1)
        table.push(range(100), [[1.0]] * 100)
        after = moved(before)
        pushing = table.push_async(range(100), [[1.0]] * 100)
        tell(file, *after.endpoints)
        pushing.result()
        assert table.pull(range(100)).flatten().tolist() == [-2.0] * 100


def test_a_file_that_is_not_the_jobs_changes_nothing(kept, tmp_path):
    file = tmp_path / "endpoints"
    with LocalCluster(2, durable=kept) as cluster:
        for text in (
            "",
            "127.0.0.1:1\n",
            "127.0.0.1:1\n127.0.0.1:2\n127.0.0.1:3\n",
            "nonsense\nhost:port\n",
            "\0" * 9999,
        ):
            file.write_text(text)
            with Client(cluster.endpoints, secret=cluster.secret, endpoints_file=str(file)) as client:
                assert client.servers == 2
        with Client(cluster.endpoints, secret=cluster.secret, endpoints_file=str(tmp_path)) as client:
            assert client.servers == 2


def test_the_file_wins_over_the_list(kept, tmp_path):
    file = tmp_path / "endpoints"
    with LocalCluster(1, durable=kept) as cluster:
        tell(file, *cluster.endpoints)
        with Client(["127.0.0.1:1"], secret=cluster.secret, endpoints_file=str(file)) as client:
            assert client.servers == 1
        tell(file, "127.0.0.1:1")
        with pytest.raises(ServerUnavailable, match=r"server 0 \(127.0.0.1:1\)"):
            Client(cluster.endpoints, secret=cluster.secret, timeout=0.5, endpoints_file=str(file))


def test_a_place_where_nobody_answers_is_not_waited_for(kept, tmp_path):
    """A full queue of connections drops what comes, as a host does that is gone: no refusal, only silence."""
    file = tmp_path / "endpoints"
    with LocalCluster(1, durable=kept) as cluster, socket.socket() as full, socket.socket() as first:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        first.connect(full.getsockname())
        tell(file, f"127.0.0.1:{full.getsockname()[1]}")
        second = socket.socket()
        second.setblocking(False)
        second.connect_ex(full.getsockname())
        from concurrent.futures import ThreadPoolExecutor

        with second, ThreadPoolExecutor() as threads:
            connecting = threads.submit(
                Client, cluster.endpoints, secret=cluster.secret, timeout=60, endpoints_file=str(file), transport="tcp"
            )
            wait_until(lambda: sockets_of(full.getsockname()[1]).count("02 ") >= 2)
            tell(file, *cluster.endpoints)
            with connecting.result(20) as client:
                assert client.servers == 1


def sockets_of(port: int) -> str:
    """The states of sockets that are connected to a port, or try to be: 02 is one that has had no answer."""
    wanted = f":{port:04X}"
    with open("/proc/net/tcp") as table:
        return "".join(f"{line.split()[3]} " for line in table if line.split()[2].endswith(wanted))
