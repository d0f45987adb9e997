"""How a worker that is started again comes back: lives of one worker, one after another in this process.

A life ends by being left where it is: nothing is told, nothing is closed.
"""

import pytest
import torch

import flota
from flota import saving
from flota.checkpoint.reader import Checkpoint
from flota.data import QueueDataset, Slot, dataset
from flota.errors import FlotaError
from flota.fleet.process import Fleet
from flota.nn.naming import reset_names
from flota.testing import LocalCluster

LR = 0.5
MODES = {"sync": flota.Sync(), "async": flota.Async(), "geo": flota.Geo(k_steps=100)}


class Life:
    """Of worker 0, the only one. A step adds 1 to the count of a key."""

    def __init__(self, cluster, mode):
        dataset._twins.clear()
        reset_names()
        self.fleet = Fleet()
        place = flota.UserDefinedRoleMaker(
            current_id=0, role=flota.Role.WORKER, worker_num=1, server_endpoints=cluster.endpoints
        )
        self.fleet.init(place)
        self.counts = flota.nn.Embedding(None, 1, name="counts", init=flota.initializer.Constant(0.0))
        self.optimizer = self.fleet.distributed_optimizer(torch.optim.SGD(self.counts.parameters(), lr=LR), MODES[mode])
        self.fleet.init_worker()

    def step(self, key=1):
        self.optimizer.zero_grad()
        self.counts(torch.tensor([key])).sum().backward()
        self.optimizer.step()

    def gathers(self, value):
        """What all have brought, here or when it was here before."""
        return int(self.fleet.all_reduce([value])[0])

    def counted(self, key=1):
        self.fleet.settle()
        return -self.counts.pull(torch.tensor([key])).item() / LR

    def rows(self):
        return sum(server.tables["counts"]["rows"] for server in self.fleet.connected().statistics())


@pytest.fixture
def cluster(monkeypatch):
    with LocalCluster(servers=2) as cluster:
        monkeypatch.setenv("FLOTA_SECRET", cluster.secret)
        yield cluster


@pytest.fixture
def lives(cluster):
    lived = []

    def live(mode):
        lived.append(Life(cluster, mode))
        return lived[-1]

    yield live
    for life in lived:
        life.fleet.connected().close()


# --- epochs ---


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "part"
    path.write_text("1 1\n")
    return str(path)


def many_epochs(life, file, meets, epochs=70):
    """How many batches there were, and what workers gathered after each epoch."""
    data = QueueDataset()
    data.init(1, use_var=[Slot("key", (1,))])
    data.set_filelist([file])
    batches, gathered = 0, []
    for epoch in range(epochs):
        for _ in data:
            life.step()
            batches += 1
            if meets:
                life.gathers(-1)
        gathered.append(life.gathers(epoch))
    return batches, gathered


@pytest.mark.parametrize("mode", MODES)
def test_more_epochs_than_are_told_are_over(lives, file, mode):
    for batches in (70, 0, 0):
        life = lives(mode)
        assert many_epochs(life, file, meets=False) == (batches, list(range(70)))
        life.fleet._pause()  # it ends on its way into a barrier
    life = lives(mode)
    many_epochs(life, file, meets=False)
    life.fleet.barrier_worker()
    assert many_epochs(life, file, meets=False, epochs=2) == (2, [0, 1])
    assert life.counted() == 72


@pytest.mark.parametrize("mode", MODES)
def test_what_workers_gathered_within_epochs_is_jumped_with_them(lives, file, mode):
    assert many_epochs(lives(mode), file, meets=True, epochs=3) == (3, list(range(3)))
    assert many_epochs(lives(mode), file, meets=True, epochs=3) == (0, list(range(3)))
    assert many_epochs(lives(mode), file, meets=True, epochs=5) == (2, list(range(5)))


def test_who_met_in_epochs_that_are_not_told_is_told_so(lives, file):
    many_epochs(lives("sync"), file, meets=True)
    with pytest.raises(FlotaError, match=r"epoch 0 of a data set, which was over long before, and workers met"):
        many_epochs(lives("sync"), file, meets=True)


# --- plain loops ---


def loop(life, first, last, *, after=False):
    """Workers gather the number of steps, before or after every third; what they had then."""
    found = {}
    for number in range(first, last):
        if not after and number % 3 == 0:
            found[number] = life.gathers(number)
        life.step()
        if after and number % 3 == 2:
            found[number] = life.gathers(number)
    return found


@pytest.mark.parametrize(
    ("mode", "after"), [("sync", False), ("async", False), ("geo", False), ("async", True), ("geo", True)]
)
def test_who_skips_steps_skips_what_was_gathered_among_them(lives, mode, after):
    loop(lives(mode), 0, 6, after=after)
    again = lives(mode)
    first = again.fleet.restarted().skip()
    found = loop(again, first, 13, after=after)
    assert found == {number: number for number in found}
    assert again.counted() == 13 if mode != "async" else again.counted() >= 13


@pytest.mark.parametrize("mode", ["async", "geo"])
def test_steps_before_a_barrier_are_not_made_again(lives, mode):
    loop(lives(mode), 0, 5, after=True)
    again = lives(mode)
    assert again.fleet.restarted().steps == 3
    loop(again, 0, 3, after=True)
    assert again.counted() == (3 if mode == "geo" else 5), "in geo, moves that were not sent are gone"
    again.step()
    assert again.counted() == (4 if mode == "geo" else 6)


@pytest.mark.parametrize("mode", ["async", "geo"])
def test_a_model_that_was_loaded_takes_the_count_of_steps_back(lives, tmp_path, mode):
    def script(life, steps_after):
        loop(life, 0, 2)
        life.fleet.save_persistables(tmp_path / "saved")
        loop(life, 2, 6)
        life.fleet.load_model(tmp_path / "saved")
        for _ in range(steps_after):
            life.step()
        life.fleet.barrier_worker()

    script(lives(mode), 3)
    again = lives(mode)
    assert again.fleet.restarted().steps == 5
    script(again, 4)
    assert again.optimizer.steps == 6
    assert again.counted() == 6


def test_lookups_on_the_way_make_no_rows_in_geo(lives):
    first = lives("geo")
    first.step(1)
    first.step(2)
    first.fleet.barrier_worker()
    again = lives("geo")
    again.step(3)
    assert again.rows() == 2
    again.step(2)
    again.step(3)
    again.fleet.settle()
    assert again.rows() == 3
    assert [again.counted(key) for key in (1, 2, 3)] == [1, 1, 1]


@pytest.mark.parametrize("mode", MODES)
def test_steps_of_the_checkpoint_that_servers_began_with_are_no_way(lives, monkeypatch, mode):
    monkeypatch.setattr(saving, "restored", lambda client: saving.Restored(1000, {"counts"}))
    lives(mode).fleet.barrier_worker()
    for steps in (1000, 1001):
        again = lives(mode)
        assert again.fleet.restarted().steps == steps
        again.fleet.barrier_worker()
        again.step()
        again.fleet.settle()
    assert again.rows() == 1
    assert again.optimizer.steps == 1001
    again.step(2)
    again.fleet.settle()
    assert again.rows() == 2


# --- saves ---


@pytest.mark.parametrize("mode", MODES)
def test_deltas_go_on_from_saves_that_were_skipped(lives, tmp_path, mode):
    first = lives(mode)
    first.step()
    first.fleet.save_persistables(tmp_path / "base", mode="base")
    first.step(2)
    first.fleet.save_persistables(tmp_path / "one", mode="delta")
    first.step(3)
    first.fleet.barrier_worker()
    again = lives(mode)
    assert again.fleet.restarted().skip() == 3
    again.fleet.barrier_worker()
    again.step(4)
    again.fleet.save_persistables(tmp_path / "two", mode="delta")
    assert [parent["path"] for parent in Checkpoint(tmp_path / "two").manifest.parents] == ["../base", "../one"]


def test_a_base_of_another_job_is_not_this_ones(lives, tmp_path):
    with LocalCluster(servers=1) as yesterday, pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLOTA_SECRET", yesterday.secret)
        other = Life(yesterday, "sync")
        other.step(7)
        other.fleet.save_persistables(tmp_path / "base", mode="base")
    lives("sync").step()
    again = lives("sync")
    again.step()
    again.fleet.save_persistables(tmp_path / "base", mode="base")
    again.step()
    again.fleet.save_persistables(tmp_path / "delta", mode="delta")
    again.fleet.load_model(tmp_path / "delta")
    assert (again.counted(1), again.counted(7)) == (2, 0)


def test_a_base_that_was_finished_stays(lives, tmp_path):
    first = lives("sync")
    first.step()
    first.fleet.save_persistables(tmp_path / "base", mode="base")
    saved = Checkpoint(tmp_path / "base").manifest.mark
    again = lives("sync")
    again.step()
    again.fleet.save_persistables(tmp_path / "base", mode="base")
    assert Checkpoint(tmp_path / "base").manifest.mark == saved
