"""Jobs on several hosts go on when the network between them comes back, and say what is missing when it does not."""

import subprocess
import sys
import time

import pytest
from hosts import Hosts, missing
from traced import BATCH, TracedJob

pytestmark = [
    pytest.mark.skipif(bool(missing("bridge", "ethtool")), reason=missing("bridge", "ethtool") or "all is there"),
    pytest.mark.timeout(240),
]


@pytest.fixture
def hosts(tmp_path):
    with Hosts(tmp_path, 3) as hosts:
        yield hosts


@pytest.fixture
def start(hosts, tmp_path):
    """Starts a job: a server on the first host, a worker on each of the others, TLS between them."""
    certificates = tmp_path / "certs"
    named = [f"--host={host.address}" for host in hosts]
    subprocess.run([sys.executable, "-m", "flota.cli", "certs", certificates, *named], check=True, timeout=60)

    def begin(mode, **settings):
        return TracedJob(tmp_path, mode, [hosts[0]], [hosts[1], hosts[2]], certificates=certificates, **settings)

    return begin


def steps_after(job, moment):
    return [len([at for at in job.times(worker) if at > moment]) for worker in range(2)]


def test_a_cable_that_is_out_for_ten_seconds_costs_the_job_these_seconds(hosts, start):
    steps = 600
    undisturbed = start("sync", steps=steps, pace=0)
    jobs = {mode: start(mode, steps=steps) for mode in ("sync", "async", "geo")}
    assert set(undisturbed.wait().values()) == {0}
    for job in jobs.values():
        job.wait_for_step(20)

    hosts.cut(hosts[2])  # a worker's
    cut = time.time()
    time.sleep(10)
    # A step that was on its way, and none after it.
    assert all(steps_after(job, cut + 1)[1] == 0 for job in jobs.values())
    assert steps_after(jobs["sync"], cut + 1)[0] == 0
    assert steps_after(jobs["async"], cut + 1)[0] > 20  # needs nobody
    hosts.mend(hosts[2])
    for job in jobs.values():
        job.wait_for_step(len(job.times(1)) + 20)

    hosts.silence(hosts[0])  # the server's, further away: nobody's network card notices
    time.sleep(6)  # longer than a connection is believed in
    hosts.silence(hosts[0], False)

    for mode, job in jobs.items():
        assert set(job.wait().values()) == {0}, job.output
        assert "was killed" not in job.output
        # Each sample was learnt from once.
        assert set(job.result()["counts"]) == {-1.0 if mode == "async" else -0.5}
    assert jobs["sync"].result() == undisturbed.result()


def test_a_host_that_is_gone_for_good_is_named(hosts, start):
    sync = start("sync", steps=1000, timeout=4, arguments=["--max_restarts=0"])
    async_ = start("async", steps=150, timeout=4, files=8, arguments=["--max_restarts=0"])
    for job in (sync, async_):
        job.wait_for_step(20)
    hosts.cut(hosts[2])
    for job in (sync, async_):
        assert job.launches[hosts[1]].wait(90) == 1
        assert job.launches[hosts[2]].wait(90) == 1
        # Each side names the host that it does not reach.
        assert f"worker 1 is on {hosts[2].address}" in job.launches[hosts[1]].output
        assert f"server 0 ({hosts[0].address}:" in job.launches[hosts[2]].output
        assert job.launches[hosts[0]].status is None  # the host may come back, and --resume goes on
    # In async the other worker has taken over what the one that is gone had not trained, before it missed it.
    assert "barrier 'flota/workers'" in async_.launches[hosts[1]].output
    assert sum(len(async_.times(worker)) for worker in range(2)) * BATCH >= async_.samples


def test_a_tenth_of_a_second_and_lost_packets_change_nothing_of_what_is_learnt(hosts, start):
    near = start("sync", steps=12, pace=0)
    assert set(near.wait().values()) == {0}, near.output
    hosts.slow(hosts[1], 100, loss=0.01)
    hosts.slow(hosts[2], 100, loss=0.01, seed=1)
    far = {mode: start(mode, steps=12, pace=0) for mode in ("sync", "async", "geo")}
    for mode, job in far.items():
        assert set(job.wait().values()) == {0}, job.output
        # Each sample was learnt from once.
        assert set(job.result()["counts"]) == {-1.0 if mode == "async" else -0.5}
    assert far["sync"].result() == near.result()  # bit for bit
