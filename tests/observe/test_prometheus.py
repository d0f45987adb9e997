"""What a process tells Prometheus: right names, units and numbers."""

import math
import re
import shutil
import subprocess
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from scraped import families, samples, value

from flota import _core, timeline
from flota.prometheus.families import COUNTER, FAMILIES, GAUGE, HISTOGRAM, OF_SERVERS, SUMMARY
from flota.prometheus.page import open_metrics_port, page_of
from flota.prometheus.server import cumulative, server_counts
from flota.prometheus.worker import WorkerCounts
from flota.rules import SGD
from flota.standing import Place, Standing
from waiting import wait_until

UNITS = ("_seconds", "_bytes", "_ratio", "_pushes")
HAVE_NO_UNIT = {
    "flota_checkpoint_step", "flota_dense_elements", "flota_dense_tables", "flota_info", "flota_launch_process_up",
    "flota_learning_rate", "flota_loss", "flota_metric", "flota_open_connections", "flota_pass_epoch", "flota_phase",
    "flota_process_max_fds", "flota_process_open_fds", "flota_steps_in_flight", "flota_table_rows",
    "flota_table_waiting_keys",
}  # fmt: skip


@pytest.mark.parametrize("name", FAMILIES)
def test_names_are_as_prometheus_wants_them(name):
    family = FAMILIES[name]
    assert re.fullmatch(r"flota(_[a-z]+)+", name)
    assert (family.kind == COUNTER) == name.endswith("_total")
    assert family.kind in (COUNTER, GAUGE, HISTOGRAM, SUMMARY)
    assert family.help
    assert not family.help.endswith(".")
    assert set(family.labels).isdisjoint({"role", "index", "le", "quantile", "job", "instance"})
    if family.kind != COUNTER:
        assert name.endswith(UNITS) or name in HAVE_NO_UNIT
    for wrong in ("_ms", "_us", "_mb", "_percent", "_count", "_sum", "_bucket"):
        assert not name.removesuffix("_total").endswith(wrong)


@pytest.fixture
def server():
    options = _core.ServerOptions()
    options.secret = "s" * 40
    options.index, options.count = 0, 1
    server = _core.Server.start(options)
    yield server
    server.stop()


@pytest.fixture
def client(server):
    from flota import Client

    with Client([server.endpoint], secret="s" * 40) as client:
        yield client


def shown(server):
    answer = page_of("server", 0, server_counts(server))()
    assert answer.status == 200
    return answer.text


def test_a_server_tells_what_it_was_asked_for(server, client):
    table = client.create_sparse_table("users", dim=4, rule=SGD(lr=1.0))
    keys = np.arange(1000)
    for _ in range(3):
        table.pull(keys)
    table.push(keys, np.ones((1000, 4), dtype=np.float32))
    text = shown(server)
    assert value(text, "flota_table_rows", table="users") == 1000
    assert value(text, "flota_table_pulls_total", table="users") == 3
    assert value(text, "flota_table_rows_pulled_total", table="users") == 3000
    assert value(text, "flota_table_rows_pushed_total", table="users") == 1000
    assert value(text, "flota_table_bytes", table="users") > 1000 * 16
    assert value(text, "flota_open_connections") >= 1
    assert value(text, "flota_process_resident_memory_bytes") > 1 << 20
    assert 0 <= time.time() - value(text, "flota_process_start_time_seconds") < 3600


def test_durations_are_a_histogram_in_seconds(server, client):
    table = client.create_sparse_table("users", dim=4, rule=SGD(lr=1.0))
    for _ in range(20):
        table.pull(np.arange(100))
    client.statistics()  # the last pull is counted by then: one connection is served in order
    found = families(shown(server))["flota_request_duration_seconds"]
    assert found.type == "histogram"
    of_pulls = [sample for sample in found.samples if sample.labels["kind"] == "pull"]
    bounds = [(float(s.labels["le"]), s.value) for s in of_pulls if s.name.endswith("_bucket")]
    assert bounds == sorted(bounds)
    assert bounds[0][0] == pytest.approx(1.024e-6)
    assert bounds[-1][0] == math.inf
    assert 60 < bounds[-2][0] < 180
    count = next(s.value for s in of_pulls if s.name.endswith("_count"))
    total = next(s.value for s in of_pulls if s.name.endswith("_sum"))
    assert count == bounds[-1][1] >= 19
    # The sum lies where the buckets say: it is in the same unit.
    least = sum((n - before) * low for (low, before), (_, n) in zip([(0, 0), *bounds], bounds, strict=False))
    assert least <= total <= 2 * least + count * bounds[0][0]


def test_bounds_count_all_that_took_less():
    begins = _core.bucket_begins()
    counts = {0: 1, 3: 2, 4: 4, 5: 8, 6: 16, 50: 32, 111: 64}
    found = cumulative(counts)
    assert found[-1] == (math.inf, 127)
    for bound, count in found[:-1]:
        assert count == sum(n for bucket, n in counts.items() if begins[bucket] < bound * (1 - 1e-9))
    assert len({bound for bound, _ in found}) == len(found)


def test_labels_are_few(server, client):
    table = client.create_sparse_table("users", dim=4, rule=SGD(lr=1.0))
    table.pull(np.arange(50_000))
    wait_until(lambda: 'kind="pull"' in shown(server))  # a request is counted when it has been answered
    first = shown(server)
    table.pull(np.arange(50_000, 100_000))
    assert samples(first).keys() == samples(shown(server)).keys()
    assert len(samples(first)) < 500
    for family in families(first).values():
        for sample in family.samples:
            assert {"role": "server", "index": "0"}.items() <= sample.labels.items()


def test_everything_that_a_server_tells_has_its_name(server):
    told = {name for table, name, _ in server.observe(_core.OBSERVE_STATES).statistics if not table}
    text = shown(server)
    for name in ("errors", "connections_open", "connections_total", "duplicate_pushes", "malformed_frames"):
        assert name in told
    assert families(text).keys() <= {name.removesuffix("_total") for name in FAMILIES}
    assert "flota_redo_log_bytes" not in families(text)  # it keeps nothing
    assert set(OF_SERVERS) <= set(FAMILIES)


# --- workers ---


@pytest.fixture
def standing():
    return Standing()


def told(counts):
    return page_of("worker", 3, counts)().text


def test_a_worker_tells_how_it_does(standing):
    standing.begin("async", lambda: 4)
    standing.stepped(7, 512, torch.tensor(0.25), 0.1)
    standing.measured(auc=0.75, recall=0.5)
    standing.place = Place("train", 2, pieces=10, left=4, began=time.monotonic() - 30)
    text = told(WorkerCounts(standing))
    assert value(text, "flota_steps_total") == 7
    assert value(text, "flota_samples_total") == 512
    assert value(text, "flota_loss") == 0.25
    assert value(text, "flota_learning_rate") == 0.1
    assert value(text, "flota_metric", metric="auc") == 0.75
    assert value(text, "flota_metric", metric="recall") == 0.5
    assert value(text, "flota_steps_in_flight") == 4
    assert value(text, "flota_phase", mode="async", phase="training") == 1
    assert value(text, "flota_pass_done_ratio") == pytest.approx(0.6)
    assert value(text, "flota_pass_remaining_seconds") == pytest.approx(20, abs=2)
    parts = {dict(key[1:])["part"] for key in samples(text) if key[0] == "flota_step_seconds_total"}
    assert parts == set(timeline.PARTS)
    assert 'role="worker"' in text
    assert 'index="3"' in text


def test_a_worker_that_has_done_nothing_tells_no_loss(standing):
    text = told(WorkerCounts(standing))
    names = {key[0] for key in samples(text)}
    assert names.isdisjoint({"flota_loss", "flota_learning_rate", "flota_steps_in_flight", "flota_pass_done_ratio"})
    assert value(text, "flota_steps_total") == 0


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_lost_is_seen(standing, loss):
    standing.stepped(1, 8, loss, 0.1)
    seen = value(told(WorkerCounts(standing)), "flota_loss")
    assert seen == loss or (math.isnan(seen) and math.isnan(loss))


def test_names_of_metrics_are_escaped(standing):
    standing.measured(**{'a "quoted"\\ name\n': 1.0})
    assert value(told(WorkerCounts(standing)), "flota_metric", metric='a "quoted"\\ name\n') == 1.0


def test_seconds_of_a_part_never_fall(standing, monkeypatch):
    """A span counts when it ends, and until then the forward pass has its time."""
    looks = iter([{"forward": 10.0, "wait": 1.0}, {"forward": 4.0, "wait": 9.0}, {"forward": 11.0, "wait": 9.5}])
    monkeypatch.setattr(timeline, "seconds", lambda: {**dict.fromkeys(timeline.PARTS, 0.0), **next(looks)})
    counts = WorkerCounts(standing)
    seen = [value(told(counts), "flota_step_seconds_total", part="forward") for _ in range(3)]
    assert seen == [10.0, 10.0, 11.0]


def test_a_scrape_while_steps_are_made_is_whole(standing):
    ended = threading.Event()

    def train():
        step = 0
        while not ended.is_set():
            step += 1
            standing.stepped(step, 8, 0.5, 0.1)
            standing.measured(**{f"m{step % 40}": step})

    thread = threading.Thread(target=train)
    thread.start()
    try:
        counts = WorkerCounts(standing)
        steps = [value(told(counts), "flota_steps_total") for _ in range(50)]
    finally:
        ended.set()
        thread.join(10)
    assert steps == sorted(steps)


# --- the port ---


def test_the_port_is_on_loopback_unless_it_is_asked_for_elsewhere(monkeypatch, standing):
    assert open_metrics_port("worker", 0, WorkerCounts(standing)) is None
    monkeypatch.setenv("FLOTA_METRICS_HOST", "127.0.77.9")
    asked = open_metrics_port("worker", 0, WorkerCounts(standing), port=0)
    monkeypatch.delenv("FLOTA_METRICS_HOST")
    unasked = open_metrics_port("worker", 0, WorkerCounts(standing), port=0)
    try:
        assert asked._listener.getsockname()[0] == "127.0.77.9"
        assert unasked._listener.getsockname()[0] == "127.0.0.1"
    finally:
        asked.close()
        unasked.close()


# --- what the documentation says ---

PAGE = (Path(__file__).parents[2] / "docs/observing/metrics.md").read_text()


def test_the_page_has_all_metrics_as_they_are():
    rows = re.findall(r"^\| `(flota_\w+)` \| (\w+) \| (.*?) \| (.*) \|$", PAGE, re.MULTILINE)
    told = {name: (kind, tuple(re.findall(r"`(\w+)`", labels)), text) for name, kind, labels, text in rows}
    assert told == {name: (family.kind, family.labels, family.help) for name, family in FAMILIES.items()}


@pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not there: install Debian's package prometheus"
)
def test_promtool_takes_the_configurations_of_the_page(tmp_path):
    blocks = re.findall(r"^```yaml\n(# prometheus\.yml\n.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        (tmp_path / "prometheus.yml").write_text(block)
        command = ["promtool", "check", "config", "prometheus.yml"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
