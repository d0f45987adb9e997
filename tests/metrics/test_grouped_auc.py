"""The AUC inside of groups."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flota.errors import InvalidArgument
from flota.metrics import GroupedAuc, roc_auc


def group_by_group(scores, labels, keys):
    """The definition: (the weighted mean, groups in it, groups left out)."""
    scores, labels, keys = np.array(scores), np.array(labels), np.array(keys)
    members = [keys == key for key in np.unique(keys)]
    ranked = [of for of in members if 0 < labels[of].sum() < of.sum()]
    if not ranked:
        return 0.5, 0, len(members)
    mean = np.average([roc_auc(scores[of], labels[of]) for of in ranked], weights=[of.sum() for of in ranked])
    return mean, len(ranked), len(members) - len(ranked)


samples = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1), st.integers(-2, 2)), max_size=40)


@given(samples)
def test_it_is_the_mean_over_groups_weighted_by_samples(samples):
    scores, labels, keys = ([sample[i] for sample in samples] for i in range(3))
    auc = GroupedAuc()
    for score, label, key in samples:
        auc.update([score], [label], [key])
    mean, groups, left_out = group_by_group(scores, labels, keys)
    assert auc.compute() == pytest.approx(mean, abs=1e-14)
    assert (auc.groups, auc.groups_left_out, auc.samples) == (groups, left_out, len(samples))


def test_it_is_that_of_scikit_learn(rng):
    sklearn = pytest.importorskip("sklearn.metrics")
    scores, labels, keys = rng.integers(0, 30, 4000) / 30, rng.integers(0, 2, 4000), rng.integers(0, 100, 4000)
    auc = GroupedAuc()
    auc.update(scores, labels, keys)
    groups = [keys == key for key in range(100)]
    aucs = [sklearn.roc_auc_score(labels[of], scores[of]) for of in groups]
    assert auc.compute() == pytest.approx(np.average(aucs, weights=[of.sum() for of in groups]), abs=1e-13)


def test_one_group_has_the_auc_of_all(rng):
    scores, labels = rng.normal(size=500), rng.integers(0, 2, 500)
    auc = GroupedAuc()
    auc.update(scores, labels, np.full(500, 7))
    assert auc.compute() == roc_auc(scores, labels)


def test_updates_after_a_value_count_and_buffers_may_be_filled_anew():
    auc = GroupedAuc()
    scores, labels, keys = np.array([0.1, 0.9], np.float32), np.array([0, 1]), np.array([5, 5])
    auc.update(scores, labels, keys)
    assert auc.compute() == 1.0
    scores[:], labels[:], keys[:] = 0.5, [1, 0], 6
    auc.update(torch.from_numpy(scores).double(), labels, keys)
    scores[:], labels[:], keys[:] = 0.0, 1, 5
    assert auc.compute() == 0.75
    auc.reset()
    assert (auc.compute(), auc.samples, auc.groups, auc.groups_left_out) == (0.5, 0, 0, 0)


def test_keys_have_64_bits():
    auc = GroupedAuc()
    auc.update([0.1, 0.2], [0, 0], np.array([2**64 - 1, 2**63], np.uint64))
    auc.update([[0.5, 0.5], [0.5, 0.5]], [1, 0], torch.tensor([-1, 3]))
    assert auc.compute() == 1.0
    assert (auc.groups, auc.groups_left_out) == (1, 2)


@pytest.mark.parametrize(("labels", "keys", "left_out"), [([], [], 0), ([1, 1], [1, 2], 2), ([0, 1], [1, 2], 2)])
def test_without_a_group_of_both_classes_it_is_a_half(labels, keys, left_out):
    auc = GroupedAuc()
    auc.update([0.5] * len(labels), labels, keys)
    assert (auc.compute(), auc.groups_left_out) == (0.5, left_out)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (([0.1], [1], [1, 2]), "GroupedAuc: 1 predictions and 2 keys; there must be one for each"),
        (([0.1], [1], [0.5]), "keys must be whole numbers of 64 bits, not float64"),
        (([0.1], [1], ["user"]), "keys must be numbers"),
        (([np.nan], [1], [1]), "1 of 1 predictions are NaN"),
        (([0.1], [3], [1]), "labels must be 0 or 1"),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(arguments, says):
    auc = GroupedAuc()
    with pytest.raises(InvalidArgument, match=says):
        auc.update(*arguments)
    assert auc.samples == 0
