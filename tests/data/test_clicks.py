"""Made-up clicks: the same everywhere, shared out exactly, zipf, and with a truth that can be learned."""

import itertools
import zlib
from dataclasses import replace

import numpy as np
import pytest
import torch

from flota.data import Batch
from flota.data.synthetic import Clicks
from flota.errors import InvalidArgument

SMALL = Clicks(1000, seed=5, vocabulary=5000)


def whole(clicks, **settings):
    """All samples of a data set as one batch, in numpy's arrays."""
    (batch,) = clicks.batches(clicks.rows, **settings)
    return Batch(*(part.numpy() for part in batch))


def samples(*batches):
    """Samples that can be counted and compared, whatever batches they came in."""
    return [
        tuple(ids) + tuple(dense) + (label,)
        for batch in batches
        for dense, ids, label in zip(batch.dense.tolist(), batch.ids.tolist(), batch.label.tolist(), strict=True)
    ]


def auc(scores, labels):
    """The chance that a click has a higher score than what is none; ties count half."""
    order, ranks = np.unique(scores, return_inverse=True)
    clicks = np.bincount(ranks, weights=labels, minlength=len(order))
    others = np.bincount(ranks, weights=1 - labels, minlength=len(order))
    below = np.cumsum(others) - others
    return float((clicks * (below + others / 2)).sum() / (clicks.sum() * others.sum()))


# --- the same everywhere ---


def test_batches_have_the_promised_shapes_and_types():
    batch = next(SMALL.batches(32))
    assert (batch.dense.shape, batch.ids.shape, batch.label.shape) == ((32, 13), (32, 26), (32,))
    assert (batch.dense.dtype, batch.ids.dtype, batch.label.dtype) == (torch.float32, torch.int64, torch.float32)
    assert set(batch.label.tolist()) == {0.0, 1.0}


def test_samples_are_the_same_for_ever():
    """Golden: checkpoints, tables in documents and other machines rely on these very samples."""
    batch = whole(Clicks(1000, seed=7))
    parts = (batch.ids, np.rint(np.expm1(batch.dense)).astype(np.int64), batch.label.astype(np.int64))
    assert [zlib.crc32(np.ascontiguousarray(part, dtype="<i8").tobytes()) for part in parts] == [
        3039579979,
        3962184479,
        2154002161,
    ]


def test_the_same_settings_make_the_same_samples():
    again = whole(Clicks(1000, seed=5, vocabulary=5000))
    assert all(np.array_equal(*pair) for pair in zip(whole(SMALL), again, strict=True))


def test_another_seed_makes_others():
    other = whole(replace(SMALL, seed=6))
    assert not np.array_equal(whole(SMALL).ids, other.ids)
    assert not np.array_equal(whole(SMALL).label, other.label)


def test_a_sample_does_not_depend_on_the_batch_it_comes_in():
    assert samples(*SMALL.batches(7)) == samples(whole(SMALL)) == samples(*SMALL.batches(999))


# --- shared out ---


@pytest.mark.parametrize("epoch", [0, 1, 5])
@pytest.mark.parametrize(("worker_num", "batch_size"), [(1, 64), (2, 64), (3, 100), (4, 1), (7, 400)])
def test_each_sample_has_exactly_one_worker(worker_num, batch_size, epoch):
    parts = [list(SMALL.batches(batch_size, index, worker_num, epoch)) for index in range(worker_num)]
    assert sorted(samples(*itertools.chain(*parts))) == sorted(samples(whole(SMALL)))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_workers_batches_of_a_step_make_up_the_batch_of_one_process():
    workers = [SMALL.batches(48, index, 2) for index in range(2)]
    for batch, *parts in itertools.zip_longest(SMALL.batches(96), *workers):
        assert samples(batch) == samples(*parts)


def test_more_workers_than_samples_leave_some_without():
    tiny = Clicks(2, vocabulary=100)
    assert sorted(len(list(tiny.batches(8, index, 3))) for index in range(3)) == [0, 1, 1]


def test_each_epoch_has_an_order_of_its_own():
    orders = [whole(SMALL, epoch=epoch).ids.tobytes() for epoch in range(4)]
    assert len(set(orders)) == 4
    assert whole(SMALL, epoch=3).ids.tobytes() == orders[3]


def test_training_and_test_rows_are_apart_and_make_up_all():
    train, test = SMALL.split(test=0.25)
    assert (train.rows, test.rows) == (750, 250)
    assert samples(whole(train), whole(test)) == samples(whole(SMALL))
    once_more, _ = test.split(0.5)
    assert samples(whole(once_more)) == samples(whole(SMALL))[750:875]


# --- what is in them ---


def test_ids_are_numbered_through_the_features():
    clicks = Clicks(20_000, vocabulary=5000)
    assert (sum(clicks.sizes), clicks.id_count) == (5000, 5000)
    begins = np.concatenate([[0], np.cumsum(clicks.sizes)])
    ids = whole(clicks).ids
    assert (ids >= begins[:-1]).all()
    assert (ids < begins[1:]).all()


def test_each_feature_may_have_a_size_of_its_own():
    clicks = Clicks(2000, features=3, dense=0, vocabulary=[2, 10, 1])
    batch = whole(clicks)
    assert batch.dense.shape == (2000, 0)
    assert [set(column) for column in batch.ids.T] == [{0, 1}, set(range(2, 12)), {12}]


@pytest.mark.parametrize("exponent", [0.8, 1.0, 1.05, 1.5])
def test_ids_follow_the_zipf_law(exponent):
    ids = whole(Clicks(200_000, features=1, dense=0, vocabulary=100_000, exponent=exponent)).ids
    counts = np.bincount(ids.ravel())[:100]
    assert (counts > 0).all()
    # Weighted by count: the rarest of the hundred are known least well.
    slope = np.polyfit(np.log(np.arange(1, 101)), np.log(counts), 1, w=np.sqrt(counts))[0]
    assert slope == pytest.approx(-exponent, abs=0.06)


def test_an_exponent_of_0_makes_all_ids_alike():
    counts = np.bincount(whole(Clicks(100_000, features=1, dense=0, vocabulary=100, exponent=0)).ids.ravel())
    assert len(counts) == 100
    assert counts.min() > 850
    assert counts.max() < 1150


def test_dense_values_are_logarithms_of_counts():
    counts = np.expm1(whole(SMALL).dense.astype(np.float64))
    assert np.abs(counts - np.rint(counts)).max() < 1e-3
    assert counts.min() >= 0
    assert counts.max() > 100


# --- the truth ---


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_labels_follow_the_planted_probabilities(seed):
    clicks = Clicks(100_000, seed=seed)
    label, likely = whole(clicks).label, clicks.probabilities()
    assert label.mean() == pytest.approx(likely.mean(), abs=0.005)
    assert 0.2 < label.mean() < 0.35
    for low in np.arange(0.0, 1.0, 0.2):
        here = (likely >= low) & (likely < low + 0.2)
        assert label[here].mean() == pytest.approx(likely[here].mean(), abs=0.02)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_ceiling_is_what_the_true_probabilities_reach(seed):
    clicks = Clicks(100_000, seed=seed)
    reached = auc(clicks.probabilities(), whole(clicks).label)
    assert clicks.bayes_auc() == pytest.approx(reached, abs=0.005)
    assert 0.83 < reached < 0.86
    assert Clicks(100_000, seed=seed).bayes_auc() == clicks.bayes_auc()


def test_the_truth_can_be_learned_from_the_ids_alone():
    """Adding up how often each id was clicked, with no regard for the rest, is far better than chance."""
    train, test = Clicks(150_000, vocabulary=10_000).split(0.1)
    seen = whole(train)
    clicked = np.repeat(seen.label, 26)
    yes = np.bincount(seen.ids.ravel(), weights=clicked, minlength=train.id_count)
    no = np.bincount(seen.ids.ravel(), weights=1 - clicked, minlength=train.id_count)
    rate = seen.label.mean()
    weights = np.log((yes + 20 * rate) / (no + 20 * (1 - rate)))
    unseen = whole(test)
    assert 0.7 < auc(weights[unseen.ids].sum(axis=1), unseen.label) < test.bayes_auc()


def test_neighbouring_features_act_together():
    """What two ids do is not the sum of what each of them does: the product is there to be found."""
    clicks = Clicks(200_000, features=2, dense=0, vocabulary=[4, 4], exponent=0.0)
    ids = whole(clicks).ids
    odds = clicks.probabilities()
    odds = np.log(odds / (1 - odds))
    table = np.array([[odds[(ids == (a, b + 4)).all(axis=1)].mean() for b in range(4)] for a in range(4)])
    products = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()
    assert np.abs(products).max() > 0.1
    assert np.linalg.matrix_rank(products, tol=1e-6) == 1


def test_where_all_samples_are_alike_there_is_nothing_to_know():
    clicks = Clicks(1000, features=1, dense=0, vocabulary=[1])
    assert len(set(clicks.probabilities())) == 1
    assert clicks.bayes_auc() == pytest.approx(0.5)


# --- what makes no sense ---


REFUSED = {
    "no rows": (lambda: Clicks(0), "rows must be a whole number from 1"),
    "rows of another type": (lambda: Clicks(1e6), "rows must be a whole number"),
    "no features": (lambda: Clicks(1, features=0), "features must be a whole number from 1"),
    "few ids": (lambda: Clicks(1, vocabulary=51), "vocabulary must be a whole number from 52"),
    "ids of another type": (lambda: Clicks(1, vocabulary=1e6), "vocabulary must be a whole number"),
    "sizes for others": (lambda: Clicks(1, vocabulary=[1, 2]), "vocabulary has 2 sizes for 26 features"),
    "size 0": (lambda: Clicks(1, features=1, vocabulary=[0]), "each size in vocabulary must be a whole number from 1"),
    "exponent": (lambda: Clicks(1, exponent=-1), "exponent must be a number from 0 to 4, not -1"),
    "exponent nan": (lambda: Clicks(1, exponent=float("nan")), "exponent must be a number from 0 to 4, not nan"),
    "batch size": (lambda: SMALL.batches(0), "batch_size must be a whole number from 1"),
    "worker": (lambda: SMALL.batches(1, 2, 2), "worker_index must be a whole number from 0 to 1, not 2"),
    "epoch": (lambda: SMALL.batches(1, epoch=-1), "epoch must be a whole number from 0"),
    "no test rows": (lambda: SMALL.split(0.0001), "test=0.0001 of 1000 rows leaves a part without rows"),
    "only test rows": (lambda: SMALL.split(1.0), "leaves a part without rows"),
    "test rows": (lambda: SMALL.split(100), "test must be a number from 0 to 1, not 100"),
}


@pytest.mark.parametrize(("make", "says"), REFUSED.values(), ids=REFUSED)
def test_settings_that_make_no_sense_are_refused_at_once(make, says):
    with pytest.raises(InvalidArgument, match=says):
        make()
