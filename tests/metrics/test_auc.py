"""The AUC in buckets: that of all predictions, and that of the last updates."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from flota.errors import InvalidArgument
from flota.metrics import Auc, roc_auc
from flota.metrics.ranking import area


@pytest.mark.parametrize("thresholds", [1, 7, 4095, 4096, 1 << 20])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_it_is_that_of_scikit_learn_on_the_buckets(rng, thresholds, kind):
    sklearn = pytest.importorskip("sklearn.metrics")
    predictions, labels = rng.random(3000, dtype=kind), rng.integers(0, 2, 3000)
    auc = Auc(thresholds)
    for part in np.array_split(np.arange(3000), 7):
        auc.update(predictions[part], labels[part])
    buckets = np.floor(predictions * kind(thresholds))
    assert auc.compute() == roc_auc(buckets, labels)
    assert auc.compute() == pytest.approx(sklearn.roc_auc_score(labels, buckets), abs=1e-13)
    assert auc.samples == 3000


@given(
    arrays.arrays(np.float32, st.integers(0, 40), elements=st.floats(0, 1, width=32)), st.integers(1, 300), st.data()
)
def test_any_predictions_are_ranked_by_bucket(predictions, thresholds, data):
    labels = data.draw(arrays.arrays(np.bool_, len(predictions)))
    auc = Auc(thresholds)
    auc.update(predictions, labels)
    assert auc.compute() == roc_auc(np.floor(predictions * np.float32(thresholds)), labels)


def test_buckets_are_those_of_paddle():
    auc = Auc(thresholds=4)
    auc.update([0.0, 0.24, 0.25, 0.5, 0.99, 1.0, 1.0], [0, 1, 0, 1, 0, 1, 1])
    assert auc.stat_pos.tolist() == [1, 0, 1, 0, 2]
    assert auc.stat_neg.tolist() == [1, 1, 0, 1, 0]
    assert auc.stat_pos.dtype == auc.stat_neg.dtype == np.int64


@pytest.mark.parametrize(
    "predictions",
    [
        [0.125, 0.875, 0.5],
        [[0.125], [0.875], [0.5]],
        np.array([[0.875, 0.125], [0.125, 0.875], [0.5, 0.5]], np.float16),
        torch.tensor([[0.875, 0.125], [0.125, 0.875], [0.5, 0.5]], requires_grad=True),
        torch.tensor([0.125, 0.875, 0.5], dtype=torch.bfloat16),
    ],
)
@pytest.mark.parametrize("labels", [[0, 1, 1], [[0.0], [1.0], [1.0]], torch.tensor([[False], [True], [True]])])
def test_shapes_and_types(predictions, labels):
    auc = Auc(thresholds=8)
    auc.update(predictions, labels)
    assert auc.stat_neg.tolist() == [0, 1, 0, 0, 0, 0, 0, 0, 0]
    assert auc.stat_pos.tolist() == [0, 0, 0, 0, 1, 0, 0, 1, 0]


def test_one_sample_may_be_a_single_number():
    auc = Auc()
    auc.update(torch.tensor(0.25), torch.tensor(1))
    assert auc.stat_pos[1024] == 1


@pytest.mark.parametrize(
    ("predictions", "labels"),
    [([], []), (np.empty((0, 2)), []), ([0.1, 0.9], [1, 1]), ([0.1, 0.9], [0, 0]), ([0.3] * 4, [0, 1, 0, 0])],
)
def test_without_pairs_in_an_order_it_is_a_half(predictions, labels):
    auc = Auc()
    auc.update(predictions, labels)
    assert auc.compute() == auc.compute_global() == 0.5


def test_the_window_is_that_of_the_last_updates(rng):
    predictions, labels = rng.random((10, 50)), rng.integers(0, 2, (10, 50))
    auc = Auc(thresholds=64, window=3)
    assert auc.compute_window() == 0.5
    for step in range(10):
        auc.update(predictions[step], labels[step])
        last = Auc(thresholds=64)
        last.update(
            predictions[max(0, step - 2) : step + 1].reshape(-1), labels[max(0, step - 2) : step + 1].reshape(-1)
        )
        assert auc.compute_window() == last.compute()
        assert auc.batch_stat_pos.tolist() == last.stat_pos.tolist()
        assert auc.batch_stat_neg.tolist() == last.stat_neg.tolist()
    assert auc.compute() == roc_auc(np.floor(predictions * 64), labels)


def test_an_update_of_nothing_is_one_of_the_window():
    auc = Auc(window=1)
    auc.update([0.1, 0.9], [0, 1])
    auc.update([], [])
    assert (auc.compute(), auc.compute_window()) == (1.0, 0.5)


def test_reset_forgets_everything():
    auc = Auc(window=2)
    auc.update([0.9, 0.1], [0, 1])
    auc.reset()
    assert (auc.compute(), auc.compute_window(), auc.samples) == (0.5, 0.5, 0)
    auc.update([0.1, 0.9], [0, 1])
    assert (auc.compute(), auc.compute_window()) == (1.0, 1.0)


def test_counts_are_exact_beyond_64_bits():
    most = (1 << 62) + 1
    pos, neg = np.array([1, most]), np.array([most, 0])
    pairs = (1 + most) * most
    assert area(pos, neg) == (pairs - most / 2) / pairs
    assert area(np.array([0, 10**13]), np.array([10**13, 1])) == 1 - (10**13 / 2) / (10**13 * (10**13 + 1))


def test_stats_are_copies():
    auc = Auc()
    auc.update([0.1, 0.9], [0, 1])
    auc.stat_pos[:] = 0
    assert auc.compute() == 1.0


def test_its_text_says_what_it_is():
    auc = Auc(window=20)
    auc.update([0.5], [1])
    assert repr(auc) == "<Auc(thresholds=4096, window=20): 1 samples>"


@pytest.mark.parametrize(
    ("predictions", "labels", "says"),
    [
        ([0.1, np.nan], [0, 1], "Auc: 1 of 2 predictions are NaN"),
        ([0.1, 1.5, -2], [0, 1, 1], r"2 of 3 predictions are outside of \[0, 1\]: they go from -2 to 1.5; pass prob"),
        ([0.1, np.inf], [0, 1], "1 of 2 predictions are outside"),
        ([0, 1, 2], [0, 1, 1], "1 of 3 predictions are outside"),
        ([0.1, 0.2], [0, 1, 1], "Auc: 2 predictions and 3 labels; there must be one for each"),
        ([0.1, 0.2], [0, -1], "labels must be 0 or 1; 1 of 2 are not, such as -1"),
        ([[0.1, 0.2, 0.7]], [1], r"predictions must have shape \[N\], \[N, 1\] or \[N, 2\], not \[1, 3\]"),
        ([[0.1, 0.9]], [[0, 1]], r"labels must have shape \[N\] or \[N, 1\], not \[1, 2\]"),
        ([0.5], ["yes"], "labels must be numbers"),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(predictions, labels, says):
    auc = Auc(window=2)
    with pytest.raises(InvalidArgument, match=says):
        auc.update(predictions, labels)
    assert auc.samples == auc.batch_stat_pos.sum() == 0


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: Auc(thresholds=0), "thresholds must be a whole number from 1 to"),
        (lambda: Auc(window=-1), "window must be a whole number from 0 to"),
        (lambda: Auc().compute_window(), r"has no window; create it as Auc\(window=20\)"),
        (lambda: Auc().batch_stat_neg, "has no window"),
    ],
)
def test_settings_that_make_no_sense_are_refused(call, says):
    with pytest.raises(InvalidArgument, match=says):
        call()
