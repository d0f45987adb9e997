"""Keys that get rows only when enough was seen of them: counted exactly once, over servers and restarts."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from flota.admission import Count, Probability, ShowClick
from flota.client import Client
from flota.eras import RowsOf, Shrinking
from flota.errors import InvalidArgument
from flota.initializer import Constant, Uniform
from flota.rules import SGD, Adagrad
from flota.testing import LocalCluster


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(servers=2) as made:
        yield made


@pytest.fixture
def client(cluster):
    with cluster.client() as made:
        yield made


def _table(client: Client, name: str, **settings):
    settings.setdefault("rule", SGD(lr=1.0))
    return client.create_sparse_table(name, dim=2, init=Constant(5.0), **settings)


def _ones(count: int) -> np.ndarray:
    return np.ones((count, 2), dtype=np.float32)


def test_a_key_gets_its_row_when_it_was_pushed_often_enough(client):
    table = _table(client, "count", admission=Count(3))
    keys = np.array([7, 8])
    for _ in range(2):
        table.push(keys, _ones(2))
        assert table.rows() == 0
        assert (table.pull(keys) == 0).all()
    table.push(np.array([7]), _ones(1))
    assert table.rows() == 1
    # The row begins as rows do; the gradients that let it in were computed without it.
    assert table.pull(keys).tolist() == [[5.0, 5.0], [0.0, 0.0]]
    table.push(keys, _ones(2))
    assert table.pull(keys).tolist() == [[4.0, 4.0], [5.0, 5.0]]


def test_pulls_count_nothing(client):
    table = _table(client, "pulls", admission=Count(1))
    for _ in range(10):
        table.pull(np.array([1]))
    assert table.rows() == 0


def test_duplicates_in_a_push_are_counted_each(client):
    table = _table(client, "duplicates", admission=Count(3))
    table.push(np.array([4, 4, 4, 5]), _ones(4))
    assert table.pull(np.array([4, 5])).tolist() == [[5.0, 5.0], [0.0, 0.0]]


def test_a_probability_lets_in_about_as_many(client):
    table = _table(client, "probability", admission=Probability(0.25))
    keys = np.arange(20_000)
    table.push(keys, _ones(len(keys)))
    share = table.rows() / len(keys)
    assert 0.23 < share < 0.27
    for _ in range(3):
        table.push(keys, _ones(len(keys)))
    assert abs(table.rows() / len(keys) - (1 - 0.75**4)) < 0.02


def test_assigned_rows_are_let_in(client):
    table = _table(client, "assigned", admission=Count(100))
    table.push(np.array([1]), _ones(1), kind="assign")
    assert table.pull(np.array([1])).tolist() == [[1.0, 1.0]]


def test_keys_that_wait_are_bounded(client):
    table = _table(client, "bounded", admission=Count(2, waiting=2048))
    for begin in range(0, 100_000, 10_000):
        table.push(np.arange(begin, begin + 10_000), _ones(10_000))
    waiting = sum(server.tables["bounded"]["waiting"] for server in client.statistics())
    forgotten = sum(server.tables["bounded"]["waiting_forgotten"] for server in client.statistics())
    assert waiting <= 2048
    assert waiting + forgotten == 100_000
    # The newest are remembered.
    table.push(np.arange(99_900, 100_000), _ones(100))
    assert table.rows() > 0


def test_waiting_keys_are_exported_and_imported(client):
    table = _table(client, "exported", admission=Count(3))
    keys = np.arange(1000)
    table.push(keys, _ones(1000))
    pages = [part.page for part in table.export_shards(part=RowsOf.waiting)]
    assert sorted(np.concatenate([page.keys for page in pages]).tolist()) == keys.tolist()
    other = _table(client, "imported", admission=Count(3))
    for page in pages:
        other.import_rows(page, part=RowsOf.waiting)
    for _ in range(2):
        other.push(keys, _ones(1000))
    assert other.rows() == 1000


def test_a_table_with_other_admission_is_another_table(client):
    _table(client, "same", admission=Count(3))
    with pytest.raises(Exception, match="admission is count 3 0 0 0"):
        _table(client, "same", admission=Count(4))


@pytest.mark.parametrize(
    "wrong", [lambda: Count(0), lambda: Probability(0.0), lambda: ShowClick(-1.0), lambda: Count(True)]
)
def test_senseless_admissions_are_refused(wrong):
    with pytest.raises(InvalidArgument):
        wrong()


def test_rows_that_were_not_seen_go(client):
    table = _table(client, "aged")
    table.push(np.array([1, 2]), _ones(2), step=1)
    assert table.shrink(Shrinking(max_age=1), 10) == 0  # there was no shrink before
    table.push(np.array([2]), _ones(1), step=2)  # a worker that is behind: seen after the shrink all the same
    assert table.shrink(Shrinking(max_age=1), 20) == 1
    assert table.rows() == 1
    assert table.pull(np.array([1, 2]), create=False).tolist() == [[5.0, 5.0], [3.0, 3.0]]
    assert table.stand().shrinks == (10, 20)
    assert table.shrink(Shrinking(max_age=1), 30) == 1
    table.push(np.array([1]), _ones(1))
    assert table.pull(np.array([1])).tolist() == [[4.0, 4.0]]


def test_rows_of_a_small_norm_go(client):
    table = _table(client, "norm")
    table.push(np.array([1, 2]), np.array([[4.5, 4.5], [1.0, 1.0]], dtype=np.float32))
    assert table.shrink(Shrinking(min_norm=2.0), 10) == 1
    assert table.pull(np.array([1, 2]), create=False).tolist() == [[5.0, 5.0], [4.0, 4.0]]


def test_scores_need_a_table_that_keeps_them(client):
    with pytest.raises(InvalidArgument, match="keeps no scores"):
        _table(client, "plain").shrink(Shrinking(min_score=1.0), 10)


def test_many_rows_go_and_come_back(client):
    """Everything else about the table stays as it was: rows, state, counters, and room for new ones."""
    table = _table(client, "many", rule=Adagrad(lr=0.5))
    random = np.random.default_rng(3)
    keys = random.integers(-(2**62), 2**62, 50_000)
    keys = np.unique(keys)
    table.push(keys, random.normal(size=(len(keys), 2)).astype(np.float32), step=1)
    table.shrink(Shrinking(max_age=1), 5)
    stay = keys[random.random(len(keys)) < 0.3]
    table.push(stay, random.normal(size=(len(stay), 2)).astype(np.float32), step=6)
    before = {
        key: row for page in table.export() for key, row in zip(page.keys.tolist(), page.state.tolist(), strict=True)
    }
    assert table.shrink(Shrinking(max_age=1), 9) == len(keys) - len(stay)
    after = {
        key: row for page in table.export() for key, row in zip(page.keys.tolist(), page.state.tolist(), strict=True)
    }
    assert sorted(after) == sorted(stay.tolist())
    assert all(before[key] == row for key, row in after.items())
    table.push(keys, _ones(len(keys)), step=10)
    assert table.rows() == len(keys)


def test_what_changed_since_an_era_is_told(client):
    table = _table(client, "changes")
    table.push(np.arange(100), _ones(100), step=50)
    era = table.stand().newest + 1
    table.stand(begin=era, mark=77, keep_since=era)
    table.push(np.arange(90, 110), _ones(20), step=3)
    changed = sorted(key for part in table.export_shards(since=era) for key in part.page.keys.tolist())
    assert changed == list(range(90, 110))
    later = table.stand().newest + 1
    table.shrink(Shrinking(min_norm=6.0), later)  # rows of 4 and 3
    removed = sorted(
        key for part in table.export_shards(part=RowsOf.removed, since=era) for key in part.page.keys.tolist()
    )
    assert removed == list(range(110))
    assert table.stand().marks == (77,)


def test_pulls_that_make_rows_never_see_anothers(client):
    """While rows go and others take their places."""
    table = client.create_sparse_table("taken", dim=1, rule=SGD(lr=0.0), init=Uniform(-1.0, 1.0))
    keys = np.arange(3000)
    first = {int(key): float(row[0]) for key, row in zip(keys, table.pull(keys), strict=True)}
    stop = threading.Event()

    def remove():
        era = 10
        while not stop.is_set():
            era += 1
            table.shrink(Shrinking(min_norm=float(np.random.rand())), era)

    removers = [threading.Thread(target=remove) for _ in range(2)]
    for thread in removers:
        thread.start()
    wrong = []

    def pull(seed):
        random = np.random.default_rng(seed)
        for _ in range(150):
            some = random.integers(0, 3000, 400)
            found = table.pull(some)
            wrong.extend(key for key, row in zip(some.tolist(), found.tolist(), strict=True) if row[0] != first[key])

    pullers = [threading.Thread(target=pull, args=(seed,)) for seed in range(3)]
    for thread in pullers:
        thread.start()
    for thread in pullers:
        thread.join()
    stop.set()
    for thread in removers:
        thread.join()
    assert not wrong


def test_steps_and_eras_have_an_end(client):
    table = _table(client, "ends")
    with pytest.raises(InvalidArgument, match="step must be a whole number"):
        table.push(np.array([1]), _ones(1), step=2**63)
    with pytest.raises(InvalidArgument, match="up to 2"):
        table.stand(begin=2**63)
