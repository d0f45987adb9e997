"""The AUC of scores is exact, ties included, at any size."""

import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flota.errors import InvalidArgument
from flota.metrics import Auc, roc_auc


def by_pairs(scores, labels):
    """The definition: every pair of a 1 and a 0."""
    ones = [score for score, label in zip(scores, labels, strict=True) if label]
    zeros = [score for score, label in zip(scores, labels, strict=True) if not label]
    twice = sum(2 * (one > zero) + (one == zero) for one in ones for zero in zeros)
    return float(Fraction(twice, 2 * len(ones) * len(zeros))) if ones and zeros else 0.5


@pytest.mark.parametrize(
    ("scores", "labels", "expected"),
    [
        ([0.1, 0.9], [0, 1], 1.0),
        ([0.9, 0.1], [0, 1], 0.0),
        ([0.5, 0.5], [0, 1], 0.5),
        ([1, 2, 3, 4], [0, 1, 0, 1], 0.75),
        ([-np.inf, 0.0, np.inf], [0, 0, 1], 1.0),
        ([-0.0, 0.0], [0, 1], 0.5),
        ([2**53, 2**53 + 1], [0, 1], 1.0),
        ([1.0, 2.0], [1, 1], 0.5),
        ([1.0, 2.0], [0, 0], 0.5),
        ([], [], 0.5),
    ],
)
def test_small_cases(scores, labels, expected):
    assert roc_auc(scores, labels) == expected


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), max_size=30))
def test_it_is_the_share_of_pairs_in_order(samples):
    scores, labels = [score / 7 for score, _ in samples], [label for _, label in samples]
    assert roc_auc(scores, labels) == by_pairs(scores, labels)


@pytest.mark.parametrize("share", [0.03, 0.5, 0.97])
@pytest.mark.parametrize("distinct", [1, 2, 10, 10_000])
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.int64])
def test_it_is_that_of_scikit_learn(rng, distinct, kind, share):
    sklearn = pytest.importorskip("sklearn.metrics")
    scores = rng.integers(0, distinct, 3000).astype(kind)
    labels = (rng.random(3000) < share).astype(np.float32)
    assert roc_auc(scores, labels) == pytest.approx(sklearn.roc_auc_score(labels, scores), abs=1e-13)


def test_ten_million_predictions(rng):
    sklearn = pytest.importorskip("sklearn.metrics")
    count = 10_000_000
    predictions = rng.random(count, dtype=np.float32)
    labels = rng.random(count, dtype=np.float32) < predictions
    auc = Auc()
    auc.update(predictions, labels)
    in_buckets = np.floor(predictions * 4096).astype(np.int16)
    assert auc.compute() == roc_auc(in_buckets, labels)
    assert auc.compute() == pytest.approx(sklearn.roc_auc_score(labels, in_buckets), abs=1e-12)
    assert auc.compute() == pytest.approx(roc_auc(predictions, labels), abs=1e-5)


def test_sums_are_taken_in_parts(rng, monkeypatch):
    scores, labels = rng.integers(0, 50, 1000), rng.integers(0, 2, 1000)
    whole = roc_auc(scores, labels)
    monkeypatch.setattr("flota.metrics.ranking._NEEDLES", 7)
    assert roc_auc(scores, labels) == whole


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_tensors_are_taken_with_or_without_gradients(kind):
    scores = torch.tensor([[0.2], [0.8], [0.4]], dtype=kind, requires_grad=True)
    assert roc_auc(scores, torch.tensor([False, True, False])) == 1.0


def test_it_is_the_same_on_any_scale_and_in_any_order(rng):
    scores, labels = rng.normal(size=1000), rng.integers(0, 2, 1000)
    order = rng.permutation(1000)
    assert roc_auc(scores, labels) == roc_auc(1 / (1 + np.exp(-scores[order])), labels[order])


@pytest.mark.parametrize(
    ("scores", "labels", "says"),
    [
        ([1.0, 2.0], [1], "roc_auc: 2 scores and 1 labels; there must be one for each"),
        ([1.0, np.nan], [0, 1], "roc_auc: 1 of 2 scores are NaN"),
        ([1.0, 2.0], [0, 2], "labels must be 0 or 1; 1 of 2 are not, such as 2"),
        ([1.0, 2.0], [0, np.nan], "labels must be 0 or 1; 1 of 2 are not, such as nan"),
        (np.zeros((2, 3)), np.zeros((3, 2)), r"scores of shape \[2, 3\] and labels of shape \[3, 2\]"),
        (["a"], [1], "scores must be numbers"),
        ([[1.0], [2.0, 3.0]], [1, 0], "scores must be numbers: "),
        ([None], [1], "scores must be numbers, not object"),
    ],
)
def test_what_has_no_auc_is_refused(scores, labels, says):
    with pytest.raises(InvalidArgument, match=says):
        roc_auc(scores, labels)


def test_metrics_of_one_process_need_no_torch():
    script = "import sys, flota.metrics; flota.metrics.roc_auc([1, 2], [0, 1]); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], timeout=60, check=False).returncode == 0
