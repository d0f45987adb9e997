"""Metrics that are a ratio of two sums: errors, losses, accuracy, calibration."""

import math

import numpy as np
import pytest
import torch

from flota.errors import InvalidArgument
from flota.metrics import MAE, MSE, RMSE, Accuracy, Calibration, LogLoss

sklearn = pytest.importorskip("sklearn.metrics")


def log_loss(labels, predictions, sample_weight=None):
    return sklearn.log_loss(labels, predictions, sample_weight=sample_weight, labels=[0, 1])


def accuracy(labels, predictions, sample_weight=None):
    return sklearn.accuracy_score(labels, predictions > 0.5, sample_weight=sample_weight)


def calibration(labels, predictions, sample_weight=None):
    return np.average(predictions, weights=sample_weight) / np.average(labels, weights=sample_weight)


REFERENCES = {
    MAE: sklearn.mean_absolute_error,
    MSE: sklearn.mean_squared_error,
    RMSE: sklearn.root_mean_squared_error,
    LogLoss: log_loss,
    Accuracy: accuracy,
    Calibration: calibration,
}


@pytest.fixture(params=REFERENCES, ids=lambda kind: kind.__name__)
def kind(request):
    return request.param


@pytest.mark.parametrize("weighted", [False, True])
def test_they_are_those_of_scikit_learn(rng, kind, weighted):
    predictions, labels, weights = rng.random(1000), rng.integers(0, 2, 1000), rng.random(1000)
    metric = kind()
    for part in np.array_split(np.arange(1000), 9):
        extra = {"weights": weights[part]} if weighted else {}
        metric.update(predictions[part], labels[part], **extra)
    expected = REFERENCES[kind](labels, predictions, sample_weight=weights if weighted else None)
    assert metric.compute() == metric.compute_global() == pytest.approx(expected, rel=1e-12)
    assert metric.samples == 1000


def test_tensors_and_columns_are_taken(kind):
    metric, same = kind(), kind()
    metric.update(torch.tensor([[0.25], [0.5]], requires_grad=True), torch.tensor([1, 0]), torch.tensor([[1.0], [3.0]]))
    same.update([0.25, 0.5], [[1], [0]], [1, 3])
    assert metric.compute() == same.compute()


def test_nothing_has_no_mean(kind):
    metric = kind()
    assert math.isnan(metric.compute())
    metric.update([], [])
    assert math.isnan(metric.compute())
    metric.update([0.5], [1], weights=[0])
    assert math.isnan(metric.compute())
    metric.update([0.5], [1])
    assert not math.isnan(metric.compute())
    metric.reset()
    assert math.isnan(metric.compute_global())
    assert metric.samples == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (([0.5, 0.5], [1]), "2 predictions and 1 labels; there must be one for each"),
        (([0.5, np.nan], [1, 1]), "1 of 2 predictions are NaN"),
        (([0.5, 0.5], [1, np.nan]), "1 of 2"),
        (([0.5, 0.5], [1, 0], [1.0]), "2 predictions and 1 weights"),
        (([0.5, 0.5], [1, 0], [1.0, -1.0]), "weights must be finite and not negative; 1 of 2 are not, such as -1"),
        (([0.5, 0.5], [1, 0], [np.inf, 1]), "weights must be finite and not negative; 1 of 2 are not, such as inf"),
        ((["a"], [1]), "predictions must be numbers"),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(kind, arguments, says):
    metric = kind()
    with pytest.raises(InvalidArgument, match=f"{kind.__name__}: .*{says}"):
        metric.update(*arguments)
    assert metric.samples == 0
    assert math.isnan(metric.compute())


@pytest.mark.parametrize("metric", [MAE(), MSE(), RMSE()], ids=repr)
def test_errors_are_those_of_any_numbers_of_the_same_shape(metric):
    metric.update(np.full((2, 3), 5), np.full((2, 3), 2))
    assert metric.compute() == {"MAE": 3, "MSE": 9, "RMSE": 3}[type(metric).__name__]
    with pytest.raises(InvalidArgument, match=r"predictions of shape \[2, 3\] and labels of shape \[3, 2\]"):
        metric.update(np.zeros((2, 3)), np.zeros((3, 2)))
    with pytest.raises(InvalidArgument, match="1 of 1 labels are NaN or infinite"):
        metric.update([1], [np.inf])


def test_errors_too_great_for_a_float_are_infinite():
    metric = RMSE()
    metric.update([1e308, 1.0], [-1e308, 1.0])
    metric.update([0.0], [1e200])
    assert metric.compute() == math.inf


def test_probabilities_are_those_of_class_1():
    for kind in (LogLoss, Calibration):
        metric, same = kind(), kind()
        metric.update([[0.75, 0.25], [0.5, 0.5]], [1, 0])
        same.update([0.25, 0.5], [1, 0])
        assert metric.compute() == same.compute()
        with pytest.raises(InvalidArgument, match="1 of 1 predictions are outside"):
            metric.update([1.5], [1])


def test_a_certain_and_wrong_prediction_costs_as_much_as_epsilon_says():
    for epsilon in (1e-15, 1e-7):
        loss = LogLoss(epsilon)
        loss.update(np.array([0.0, 1.0, 1.0, 0.0], np.float32), [1, 0, 1, 0])
        assert loss.compute() == pytest.approx(-math.log(epsilon) / 2, rel=1e-12)
    with pytest.raises(InvalidArgument, match=r"epsilon must be a number from 1e-300 to 0\.5, not 0"):
        LogLoss(0)


def test_calibration_without_clicks_is_not_a_number():
    metric = Calibration()
    metric.update([0.1, 0.2], [0, 0])
    assert math.isnan(metric.compute())
    metric.update([0.2], [1])
    assert metric.compute() == pytest.approx(0.5)


def test_accuracy_predicts_1_above_the_threshold():
    metric = Accuracy(threshold=0.3)
    metric.update(np.array([0.3, 0.31, 0.2], np.float32), [0, 1, 1])
    assert metric.compute() == pytest.approx(2 / 3)
    assert repr(metric) == "<Accuracy(threshold=0.3): 3 samples>"


@pytest.mark.parametrize("top_k", [None, 1, 2, 5])
@pytest.mark.parametrize("distinct", [3, 1000])
def test_accuracy_of_classes_is_whether_the_label_is_among_the_highest(rng, top_k, distinct):
    scores, labels = rng.integers(0, distinct, (500, 5)), rng.integers(0, 5, 500)
    order = np.argsort(-scores, axis=1, kind="stable")[:, : top_k or 1]
    metric = Accuracy(top_k=top_k)
    metric.update(torch.from_numpy(scores - 7.5), labels[:, None])
    assert metric.compute() == (order == labels[:, None]).any(axis=1).mean()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: Accuracy(threshold=0.5, top_k=1), "give one"),
        (lambda: Accuracy(threshold=2), "threshold must be a number from 0 to 1"),
        (lambda: Accuracy(top_k=0), "top_k must be a whole number from 1"),
        (lambda: Accuracy(top_k=2).update([0.5], [1]), r"top_k=2 is for predictions of shape \[N, C\], not \[1\]"),
        (lambda: Accuracy(top_k=3).update([[0.5, 0.5]], [1]), "top_k=3 of 2 classes"),
        (lambda: Accuracy(threshold=0.5).update([[1, 2, 3]], [1]), r"shape \[N\] or \[N, 1\], not \[1, 3\]"),
        (lambda: Accuracy().update([[1, 2, 3]], [3]), "labels must be classes from 0 to 2; 1 of 1 are not, such as 3"),
        (lambda: Accuracy().update([[1, 2, 3]], [0.5]), "such as 0.5"),
        (lambda: Accuracy().update([[1, 2, 3]], [np.nan]), "such as nan"),
        (lambda: Accuracy().update([[1, 2, np.nan]], [0]), "1 of 3 predictions are NaN"),
        (lambda: Accuracy().update([[[0.5]]], [0]), r"not \[1, 1, 1\]"),
        (lambda: Accuracy().update([1.5], [0]), "outside"),
    ],
)
def test_accuracy_refuses_what_has_no_effect_or_no_sense(call, says):
    with pytest.raises(InvalidArgument, match=says):
        call()
