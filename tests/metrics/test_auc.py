"""AUC is exact, ties included."""

import numpy as np
import pytest
import torch

from flota.errors import InvalidArgument
from flota.metrics import auc


def by_pairs(scores, labels):
    """The definition: every pair of a 1 and a 0."""
    ones, zeros = scores[labels == 1][:, None], scores[labels == 0][None, :]
    return ((ones > zeros) + 0.5 * (ones == zeros)).mean()


@pytest.mark.parametrize(
    ("scores", "labels", "expected"),
    [
        ([0.1, 0.9], [0, 1], 1.0),
        ([0.9, 0.1], [0, 1], 0.0),
        ([0.5, 0.5], [0, 1], 0.5),
        ([1, 2, 3, 4], [0, 1, 0, 1], 0.75),
        ([-np.inf, 0.0, np.inf], [0, 0, 1], 1.0),
    ],
)
def test_small_cases(scores, labels, expected):
    assert auc(scores, labels) == expected


@pytest.mark.parametrize("distinct", [2, 10, 10_000])
def test_it_is_the_share_of_pairs_in_order(rng, distinct):
    scores = rng.integers(0, distinct, 500) / 7.0
    labels = (rng.random(500) < 0.3).astype(np.float32)
    assert auc(scores, labels) == pytest.approx(by_pairs(scores, labels), abs=1e-12)


def test_tensors_are_taken_with_or_without_gradients():
    scores = torch.tensor([[0.2], [0.8], [0.4]], requires_grad=True)
    assert auc(scores, torch.tensor([False, True, False])) == 1.0


def test_it_is_the_same_on_any_scale_and_in_any_order(rng):
    scores, labels = rng.normal(size=1000), rng.integers(0, 2, 1000)
    order = rng.permutation(1000)
    assert auc(scores, labels) == auc(1 / (1 + np.exp(-scores[order])), labels[order])


@pytest.mark.parametrize(
    ("scores", "labels", "says"),
    [
        ([1.0, 2.0], [1], "2 scores and 1 labels"),
        ([1.0, np.nan], [0, 1], "1 of 2 scores are NaN"),
        ([1.0, 2.0], [0, 2], "labels must be 0 or 1"),
        ([1.0, 2.0], [1, 1], "all 2 labels are the same"),
        ([], [], "all 0 labels are the same"),
        (["a"], [1], "scores must be numbers"),
    ],
)
def test_what_has_no_auc_is_refused(scores, labels, says):
    with pytest.raises(InvalidArgument, match=says):
        auc(scores, labels)
