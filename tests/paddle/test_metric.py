"""Metrics of one process: the numbers are those of release 2.6.2."""

import numpy as np
import pytest

import flota.paddle as paddle
from flota.errors import InvalidArgument

NUMBERS = np.arange(60)
SCORES = ((NUMBERS * 37 % 61) / 61).astype("float32")
LABELS = ((NUMBERS * NUMBERS * 7 % 11) < 5).astype("int64")
BOTH = np.stack([1 - SCORES, SCORES], 1)
MANY = np.sin(np.arange(200) * 1.7).reshape(40, 5).astype("float32")
CLASSES = (np.arange(40) * 3 % 5).astype("int64").reshape(40, 1)


@pytest.fixture(autouse=True)
def eagerly():
    """What imports 1.x leaves the process with programs."""
    paddle.disable_static()
    yield
    paddle.disable_static()


@pytest.mark.parametrize(
    ("topk", "of_batches", "of_all"),
    [
        ((1,), [1 / 15, 5 / 15, 0.2], 0.2),
        ((1, 3), [[1 / 15, 7 / 15], [5 / 15, 11 / 15], [0.2, 0.6]], [0.2, 0.6]),
    ],
)
def test_accuracy(topk, of_batches, of_all):
    accuracy = paddle.metric.Accuracy(topk=topk)
    for begin, expected in zip((0, 15, 30), of_batches, strict=True):
        batch = slice(begin, begin + 15)
        correct = accuracy.compute(paddle.to_tensor(MANY[batch]), paddle.to_tensor(CLASSES[batch]))
        np.testing.assert_allclose(accuracy.update(correct), expected)
    np.testing.assert_allclose(accuracy.accumulate(), of_all)
    accuracy.reset()
    assert np.all(np.asarray(accuracy.accumulate()) == 0)


def test_accuracy_takes_classes_in_every_form_and_names_its_values():
    accuracy = paddle.metric.Accuracy()
    for labels in (CLASSES, CLASSES.reshape(-1), np.eye(5, dtype="float32")[CLASSES.reshape(-1)]):
        correct = accuracy.compute(paddle.to_tensor(MANY), paddle.to_tensor(labels))
        assert (correct.shape, accuracy.update(correct.numpy())) == ([40, 1], 0.2)
    assert accuracy.name() == ["acc"]
    assert paddle.metric.Accuracy(topk=(1, 5), name="hits").name() == ["hits_top1", "hits_top5"]
    assert float(paddle.metric.accuracy(paddle.to_tensor(MANY), paddle.to_tensor(CLASSES), k=3)) == pytest.approx(0.6)


@pytest.mark.parametrize(("kind", "first", "both"), [("Precision", 1 / 6, 7 / 30), ("Recall", 2 / 7, 7 / 17)])
def test_precision_and_recall(kind, first, both):
    for module in (paddle.metric, paddle.fluid.metrics):
        metric = getattr(module, kind)()
        assert metric.accumulate() == 0
        metric.update(SCORES[:25], LABELS[:25])
        assert metric.accumulate() == pytest.approx(first)
        metric.update(paddle.to_tensor(SCORES[25:, None]), paddle.to_tensor(LABELS[25:, None]))
        assert metric.accumulate() == pytest.approx(both)
        assert metric.name() == kind.lower()


@pytest.mark.parametrize(
    ("thresholds", "first", "both"), [(4095, 47 / 126, 0.4418604651162791), (10, 47 / 126, 0.4377564979480164)]
)
def test_the_area_under_the_curve(thresholds, first, both):
    auc = paddle.metric.Auc(num_thresholds=thresholds)
    assert auc.accumulate() == 0
    auc.update(BOTH[:25], LABELS[:25, None])
    assert auc.accumulate() == pytest.approx(first)
    auc.update(paddle.to_tensor(BOTH[25:]), paddle.to_tensor(LABELS[25:]))
    assert auc.accumulate() == pytest.approx(both)
    auc.reset()
    auc.update(BOTH[:3], np.ones((3, 1), "int64"))
    assert auc.accumulate() == 0  # of one class only


def test_the_area_under_precision_and_recall():
    """The release computes the other curve here; this is the one that it documents."""
    auc = paddle.metric.Auc(curve="PR", num_thresholds=10)
    auc.update(np.array([[0.1, 0.9], [0.7, 0.3]]), np.array([[1], [0]]))
    assert auc.accumulate() == 1


def test_the_metrics_of_1_x():
    metrics = paddle.fluid.metrics
    accuracy = metrics.Accuracy()
    accuracy.update(value=np.array([0.5]), weight=10)
    accuracy.update(value=1.0, weight=30)
    assert accuracy.eval() == pytest.approx(0.875)
    both = metrics.CompositeMetric()
    both.add_metric(metrics.Precision())
    both.add_metric(metrics.Recall())
    both.update(SCORES, LABELS)
    assert both.eval() == pytest.approx([7 / 30, 7 / 17])
    auc = metrics.Auc(name="auc", num_thresholds=10)
    auc.update(preds=BOTH, labels=LABELS)
    assert auc.eval() == pytest.approx(0.4377564979480164)


def test_metrics_refuse_what_makes_no_sense():
    with pytest.raises(InvalidArgument, match="ROC or PR"):
        paddle.metric.Auc(curve="XY")
    with pytest.raises(InvalidArgument, match=r"\[N, 2\]"):
        paddle.metric.Auc().update(SCORES, LABELS)
    with pytest.raises(InvalidArgument, match="from 0 to 1"):
        paddle.metric.Auc().update(BOTH * 2, LABELS)
    with pytest.raises(InvalidArgument, match="3 predictions and 2 labels"):
        paddle.metric.Precision().update(SCORES[:3], LABELS[:2])
    with pytest.raises(InvalidArgument, match="arrays and tensors"):
        paddle.metric.Recall().update([0.5], LABELS[:1])
