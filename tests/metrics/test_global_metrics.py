"""The metrics of a job are those of all its data, the same bits on every worker."""

import math

import numpy as np
import pytest
import torch

from flota import metrics
from flota.errors import InvalidArgument

METRICS = [
    metrics.Auc,
    metrics.Accuracy,
    metrics.MAE,
    metrics.MSE,
    metrics.RMSE,
    metrics.LogLoss,
    metrics.Calibration,
    metrics.GroupedAuc,
]


def arguments_of(kind, rng, count):
    arguments = [rng.random(count), rng.integers(0, 2, count)]
    return [*arguments, rng.integers(0, 20, count)] if kind is metrics.GroupedAuc else arguments


@pytest.mark.parametrize("kind", METRICS)
@pytest.mark.parametrize("begins", [[0, 100, 350, 600], [0, 0, 600, 600], [0, 0, 0, 0]])
def test_they_are_those_of_all_data(job, rng, kind, begins):
    """The second worker may have all data, or nobody any."""
    data = arguments_of(kind, rng, begins[-1])

    def work(index):
        metric = kind()
        metric.update(*(column[begins[index] : begins[index + 1]] for column in data))
        return metric.compute_global(), metric.compute_global()

    whole = kind()
    whole.update(*data)
    values = {value.hex() for both in job.run(work) for value in both}
    assert len(values) == 1
    assert float.fromhex(values.pop()) == pytest.approx(whole.compute(), rel=1e-13, nan_ok=True)


@pytest.mark.parametrize("kind", [metrics.Auc, metrics.GroupedAuc])
def test_ranks_are_exactly_those_of_all_data(job, rng, kind):
    data = arguments_of(kind, rng, 3000)

    def work(index):
        metric = kind()
        metric.update(*(column[index::3] for column in data))
        return metric.compute_global()

    whole = kind()
    whole.update(*data)
    assert job.run(work) == [whole.compute()] * 3


def test_groups_are_merged_over_workers(job):
    def work(index):
        auc = metrics.GroupedAuc()
        # Group 7 has its label 1 on worker 2; group 8 is with one class, and worker 1 has nothing.
        if index != 1:
            auc.update([0.1 * index, 0.5], [index == 2, 0], [7, 8])
        mine = auc.compute(), auc.groups_left_out
        return mine, auc.compute_global(), auc.groups, auc.groups_left_out

    nothing, two_groups = (0.5, 0), (0.5, 2)
    assert job.run(work) == [(mine, 1.0, 1, 1) for mine in (two_groups, nothing, two_groups)]


def test_what_is_too_long_for_one_gathering_goes_in_pieces(job, rng, monkeypatch):
    monkeypatch.setattr("flota.metrics.exchange._MOST", 1000)
    monkeypatch.setattr("flota.metrics.exchange._LEAST", 1000)
    data = arguments_of(metrics.GroupedAuc, rng, 600)
    begins = [0, 10, 300, 600]

    def work(index):
        metric = metrics.GroupedAuc()
        metric.update(*(column[begins[index] : begins[index + 1]] for column in data))
        return metric.compute_global()

    whole = metrics.GroupedAuc()
    whole.update(*data)
    assert job.run(work) == [whole.compute()] * 3
    assert job.gatherings > 5


def test_workers_that_ask_for_different_things_are_told(job):
    def work(index):
        with pytest.raises(InvalidArgument, match="all workers must call the global metrics in the same order") as told:
            metrics.sum(1) if index == 1 else metrics.Auc(thresholds=10 + index).compute_global()
        return str(told.value).split(": ")[0]

    assert job.run(work) == [
        "this worker asks for Auc(thresholds=10), and worker 1 for metrics.sum",
        "this worker asks for metrics.sum, and worker 0 for Auc(thresholds=10)",
        "this worker asks for Auc(thresholds=12), and worker 0 for Auc(thresholds=10)",
    ]


def test_the_window_of_all_workers(job, rng):
    predictions, labels = rng.random((3, 4, 20)), rng.integers(0, 2, (3, 4, 20))

    def work(index):
        auc = metrics.Auc(window=2)
        for step in range(4):
            auc.update(predictions[index, step], labels[index, step])
        return metrics.auc(auc.batch_stat_pos, auc.batch_stat_neg)

    last = metrics.Auc()
    last.update(predictions[:, 2:].reshape(-1), labels[:, 2:].reshape(-1))
    assert job.run(work) == [last.compute()] * 3


# --- Fleet's functions ---


class OnlyNumpy:
    """What another library's tensor looks like."""

    def __init__(self, values):
        self._values = values

    def numpy(self):
        return np.array(self._values)


@pytest.mark.parametrize("as_", [np.array, list, torch.tensor, OnlyNumpy])
def test_values_are_reduced_element_by_element(job, as_):
    def work(index):
        value = as_([index + 1, 10 - index])
        return [reduced(value).tolist() for reduced in (metrics.sum, metrics.max, metrics.min)]

    assert job.run(work) == [[[6, 27], [3, 10], [1, 8]]] * 3


def test_numbers_give_numbers_and_shapes_stay(job):
    def work(index):
        return (
            metrics.sum(2**60 + index),
            metrics.max(0.5 * index),
            metrics.min(torch.tensor(index)),
            metrics.sum(index == 1),
            metrics.sum(np.ones((2, 1, 3))).shape,
            metrics.sum(np.empty((0, 2))).shape,
        )

    assert job.run(work) == [(3 * 2**60 + 3, 1.0, 0, 1, (2, 1, 3), (0, 2))] * 3


def test_floats_are_added_in_the_order_of_the_workers(job):
    # A worker that saw nothing may bring the 0 it began with.
    values = [1e16, 1.0, 0]
    assert job.run(lambda index: metrics.sum(values[index])) == [1e16] * 3
    values = [math.inf, -math.inf, 0]
    assert all(math.isnan(value) for value in job.run(lambda index: metrics.sum(values[index])))
    values = [math.nan, 1.0, 2.0]
    assert all(math.isnan(value) for value in job.run(lambda index: metrics.max(values[index])))


def test_auc_of_buckets(job, rng):
    predictions, labels = rng.random(900, dtype=np.float32), rng.integers(0, 2, 900)

    def work(index):
        auc = metrics.Auc()
        auc.update(predictions[index::3], labels[index::3])
        pos, neg = auc.stat_pos, auc.stat_neg
        return metrics.auc(pos, neg), metrics.auc(pos[None].astype(float), torch.from_numpy(neg)[None])

    expected = metrics.roc_auc(np.floor(predictions * 4096), labels)
    assert job.run(work) == [(expected, expected)] * 3


def test_auc_of_one_class_or_nothing_is_a_half():
    assert metrics.auc([0, 0], [0, 0]) == metrics.auc([1, 2], [0, 0]) == metrics.auc([], []) == 0.5


def test_means(job):
    def work(index):
        error, count = np.array([[float(index)]]), index + 1
        return (
            metrics.mae(error, count),
            metrics.mse(error, [count]),
            metrics.rmse(torch.tensor(3.0 * index), torch.tensor(count)),
            metrics.acc(index, count),
        )

    assert job.run(work) == [(0.5, 0.5, math.sqrt(1.5), 0.5)] * 3


@pytest.mark.parametrize("mean", [metrics.mae, metrics.mse, metrics.rmse, metrics.acc])
def test_means_of_nothing_are_not_a_number(mean):
    assert math.isnan(mean(0, 0))
    assert math.isnan(mean(math.nan, 10))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda bad: metrics.sum([1, 2] if bad else [1]), r"shape \[1\] on worker 0 and \[2\] on worker 1"),
        (lambda bad: metrics.sum(2**62), "beyond 64 bits"),
        (lambda bad: metrics.auc([-1 if bad else 1], [1]), "stat_pos of worker 1 must be counts .*; 1 of 1 are not"),
        (lambda bad: metrics.auc([1], [0.5 if bad else 1]), "stat_neg of worker 1 must be counts .* such as 0.5"),
        (lambda bad: metrics.auc([1], [math.nan if bad else 1]), "such as nan"),
        (lambda bad: metrics.auc([[1], [2]] if bad else [1], [1]), r"worker 1 must have shape \[B\] or \[1, B\], not"),
        (lambda bad: metrics.auc([1, 2], [1]), "2 buckets in stat_pos and 1 in stat_neg"),
        (lambda bad: metrics.mae([1, 2] if bad else 1, 3), r"abserr of worker 1 must be one number .* not \[1, 2\]"),
        (lambda bad: metrics.acc(1, -1 if bad else 1), "total of worker 1 must be one number that is not negative"),
    ],
)
def test_what_one_worker_got_wrong_all_refuse(job, call, says):
    def work(index):
        with pytest.raises(InvalidArgument, match=says):
            call(index == 1)
        return "refused"

    assert job.run(work) == ["refused"] * 3


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: metrics.sum("text"), "metrics.sum: value must be numbers"),
        (lambda: metrics.max(2**63), "numbers of 2\\*\\*63 and more; the greatest is 9223372036854775808"),
        (lambda: metrics.auc([1j], [1]), "metrics.auc: stat_pos must be numbers, not complex128"),
    ],
)
def test_what_cannot_be_sent_is_refused(call, says):
    with pytest.raises(InvalidArgument, match=says):
        call()
