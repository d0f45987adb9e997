"""LocalCluster itself: users test with it, so it must crash, pause and clean up as it says."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from flota.errors import DeadlineExceeded, InvalidArgument, ServerUnavailable, SystemFailure, UnknownTable
from flota.rules import SGD
from flota.testing import LocalCluster
from waiting import wait_until


def alive(pid):
    """Whether the process is there and no zombie."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(servers=2) as cluster:
        yield cluster


def test_servers_are_processes_of_their_own_on_ports_of_their_own(cluster):
    pids = [server.pid for server in cluster.servers]
    assert len({os.getpid(), *pids}) == 3
    assert all(alive(pid) for pid in pids)
    assert all(server.running for server in cluster.servers)
    assert len(set(cluster.endpoints)) == 2
    assert all(endpoint.startswith("127.0.0.1:") for endpoint in cluster.endpoints)


def test_clusters_do_not_meet(cluster):
    with LocalCluster(servers=2) as another:
        assert not set(cluster.endpoints) & set(another.endpoints)
        assert cluster.secret != another.secret


def test_a_crashed_server_is_gone_at_once_and_comes_back_empty_on_its_port(cluster, name):
    client = cluster.client()
    table = client.create_sparse_table(name, dim=1, rule=SGD())
    endpoint, pid = cluster.endpoints[1], cluster.servers[1].pid
    cluster.crash(1)
    assert not alive(pid)
    assert not cluster.servers[1].running
    with pytest.raises(ServerUnavailable, match=rf"server 1 \({endpoint}\)"):
        client.statistics(timeout=0.1)
    cluster.restart(1)
    assert cluster.endpoints[1] == endpoint
    assert cluster.servers[1].pid != pid
    with pytest.raises(UnknownTable):
        table.pull([1, 2, 3, 4])


def test_a_call_survives_a_restart(cluster, name):
    """A server that comes back within the deadline is found again, by a call that was under way."""
    client = cluster.client()
    cluster.crash(0)
    back = threading.Timer(0.1, cluster.restart, [0])
    back.start()
    assert len(client.statistics(timeout=20)) == 2
    back.join()


def test_a_paused_server_does_not_answer_until_it_is_resumed(cluster, name):
    client = cluster.client()
    table = client.create_sparse_table(name, dim=1, rule=SGD(lr=1.0))
    for _ in range(3):
        cluster.pause(0)
        cluster.pause(0)
        with pytest.raises(DeadlineExceeded, match="server 0"):
            client.statistics(timeout=0.05)
        cluster.resume(0)
        table.push(range(10), torch.ones(10, 1))
    assert torch.all(table.pull(range(10)) == -3)


def test_a_paused_server_can_crash(cluster):
    cluster.pause(1)
    pid = cluster.servers[1].pid
    cluster.crash(1)
    assert not alive(pid)
    cluster.restart(1)


def test_what_makes_no_sense_is_refused(cluster):
    with pytest.raises(InvalidArgument, match="at least one server, not 0"):
        LocalCluster(servers=0)
    with pytest.raises(InvalidArgument, match="server 0 is running already"):
        cluster.restart(0)
    cluster.crash(0)
    cluster.crash(0)
    for call in (cluster.pause, cluster.resume):
        with pytest.raises(InvalidArgument, match="server 0 is not running"):
            call(0)
    cluster.restart(0)
    with pytest.raises(IndexError):
        cluster.crash(2)


def test_nothing_is_left_when_the_block_ends(name):
    with LocalCluster(servers=2) as cluster:
        client = cluster.client()
        table = client.create_sparse_table(name, dim=1, rule=SGD())
        cluster.pause(1)
        cluster.crash(0)
        pids = [cluster.servers[1].pid]
        folder = cluster.log_dir
        assert folder.exists()
    assert not any(alive(pid) for pid in pids)
    assert not folder.exists()
    with pytest.raises(Exception, match="closed"):
        table.pull([1])
    cluster.stop()


def test_servers_end_when_the_test_is_killed():
    """SIGKILL leaves no time for clean-up: the kernel ends the servers."""
    script = """
import sys, time
from flota.testing import LocalCluster
cluster = LocalCluster(servers=2)
cluster.start()
print(*[server.pid for server in cluster.servers], flush=True)
time.sleep(600)
"""
    test = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    pids = [int(pid) for pid in test.stdout.readline().split()]
    assert len(pids) == 2
    assert all(alive(pid) for pid in pids)
    test.send_signal(signal.SIGKILL)
    test.wait()
    wait_until(lambda: not any(alive(pid) for pid in pids))
    test.stdout.close()


def test_a_cluster_outlives_the_thread_that_started_it():
    """The kernel's "parent" is a thread, not a process."""
    cluster = LocalCluster()
    starter = threading.Thread(target=cluster.start)
    starter.start()
    starter.join()
    try:
        assert len(cluster.client(timeout=5).statistics()) == 1
    finally:
        cluster.stop()


def test_a_server_that_does_not_start_shows_the_end_of_its_log():
    with pytest.raises(
        SystemFailure, match=r"(?s)server 0 did not start; its log ends:.*unrecognized arguments: --fast"
    ):
        LocalCluster(arguments=["--fast"]).start()


def test_one_server_that_does_not_start_takes_the_others_with_it():
    with LocalCluster() as other:
        port = other.endpoints[0].rpartition(":")[2]
        # Server 0 gets no port from here, server 1 one that is taken.
        cluster = LocalCluster(servers=2)
        cluster.servers[1].endpoint = other.endpoints[0]
        with pytest.raises(SystemFailure, match=f"port {port} .* is in use"):
            cluster.start()
        assert not any(server.running for server in cluster.servers)


def test_a_server_that_is_too_slow_to_start_is_given_up():
    cluster = LocalCluster(timeout=0.2)
    cluster.servers[0]._command = ["sleep", "60"]
    with pytest.raises(DeadlineExceeded, match=r"server 0 did not listen within 0\.\d+ s; its log ends:"):
        cluster.start()
    assert not cluster.servers[0].running


def test_logs_are_kept_where_they_were_asked_for(tmp_path):
    with LocalCluster(servers=2, log_dir=tmp_path / "logs") as cluster:
        cluster.client()
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == ["serverlog.0", "serverlog.1"]


def test_a_secret_can_be_given():
    with LocalCluster(secret="a secret of one's own") as cluster:
        assert cluster.client().servers == 1
        assert cluster.client(secret="a secret of one's own").servers == 1
