"""What a worker tells of itself."""

import json
import math
import time

import pytest
import torch

from flota import standing, timeline
from flota.standing import Place, Standing


@pytest.fixture
def worker():
    return Standing()


@pytest.mark.parametrize(
    ("loss", "seen"),
    [
        (None, None),
        (0.5, 0.5),
        (math.nan, None),
        (math.inf, None),
        (torch.tensor(0.25), 0.25),
        (torch.ones(3), None),
        ("nonsense", None),
    ],
)
def test_a_note_is_json_whatever_the_loss_is(worker, loss, seen):
    worker.stepped(1, 8, loss, 0.1)
    assert json.loads(json.dumps(worker.note(), allow_nan=False))["loss"] == seen


def test_a_loss_does_not_keep_the_graph_of_its_step(worker):
    weight = torch.ones(1, requires_grad=True)
    worker.stepped(1, 8, (weight * 2).sum(), 0.1)
    assert worker.loss.grad_fn is None


def test_speed_is_measured_over_the_last_seconds(worker, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    rates = []
    for second in range(30):
        clock[0] += 1.0
        worker.stepped(second, 50 if second < 15 else 200, 0.1, 0.1)
        rates.append(worker.note().get("samples_per_second"))
    assert rates[0] is None
    assert rates[10] == pytest.approx(50)
    assert rates[-1] == pytest.approx(200)
    assert len(worker.points) < 15


def test_the_time_that_is_left_of_a_pass_follows_its_pace(worker, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    worker.place = Place("train", 2, pieces=10, left=10, began=100.0)
    assert worker.note()["left_seconds"] is None
    clock[0] = 130.0
    worker.place.left = 7
    note = worker.note()
    assert (note["pass"], note["epoch"]) == ("train", 2)
    assert note["done"] == pytest.approx(0.3)
    assert note["left_seconds"] == pytest.approx(70.0)


def test_metrics_are_bounded_and_those_that_are_no_numbers_are_null(worker):
    worker.measured(auc=0.75, recall=torch.tensor(0.5), wrong=math.nan)
    for number in range(100):
        worker.measured(**{f"m{number}": number})
    metrics = worker.note()["metrics"]
    assert metrics["auc"] == 0.75
    assert metrics["recall"] == 0.5
    assert metrics["wrong"] is None
    assert len(metrics) == 32
    assert worker.brief()["auc"] == 0.75


def test_shares_are_of_the_time_since_the_notes_before(worker):
    timeline.stepped()
    worker.note()
    with timeline.span("pull"):
        time.sleep(0.05)
    shares = worker.note()["shares"]
    assert set(shares) == set(timeline.PARTS)
    assert shares["pull"] > 0
    assert sum(shares.values()) == pytest.approx(1.0, abs=0.01)


def test_another_job_of_the_process_begins_anew(worker):
    worker.stepped(7, 100, 0.5, 0.1)
    worker.measured(auc=0.7)
    worker.note()
    worker.begin("async", lambda: 3)
    note = worker.note()
    assert (note["step"], note["samples"], note["loss"], note["metrics"]) == (0, 0, None, {})
    assert (note["phase"], note["mode"], note["in_flight"]) == ("connected", "async", 3)
    assert "samples_per_second" not in note


def test_a_note_fits_its_place(worker):
    worker.lease = "x" * 10_000
    worker.place = Place("p" * 10_000, 1, 10, 5, time.monotonic())
    worker.measured(**{f"{'m' * 500}{number}": 1 / 3 for number in range(32)})
    assert len(json.dumps(worker.note())) < 16 << 10
    assert standing.worker is not worker


def test_staleness_is_that_of_the_last_seconds(worker, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    assert "staleness" not in worker.note()
    for second in range(40):
        clock[0] += 1.0
        worker.measured_staleness(1.0 if second < 20 else 3.0)
        note = worker.note()
    assert note["staleness"] == 3.0
    assert worker.brief()["staleness"] == 3.0
