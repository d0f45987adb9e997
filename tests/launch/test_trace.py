"""``flota trace``: where the time of a running job's steps goes."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from launched import Launch, clean_environment
from test_top import top

from waiting import wait_until

sys.path.append(str(Path(__file__).parents[1] / "observe"))
from traced import PARTS, check_steps, load

# Trains until the file "end" is there, one pass after the other, each fed as the file "feed" says. Worker 1 rests
# while the file "rest" is there.
TRAIN = """
import sys, time
from pathlib import Path
import torch, flota

MODES = {
    "sync": flota.Sync(),
    "async": flota.Async(),
    "bounded": flota.Async(max_staleness=1),
    "merged": flota.Async(max_merge_var_num=4, thread_pool_size=2, independent_recv_thread=True),
    "geo": flota.Geo(k_steps=5),
}
flota.init()
model = torch.nn.Sequential(flota.nn.EmbeddingCollection(3, 4), torch.nn.Flatten(1), torch.nn.Linear(12, 1))
optimizer = flota.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.01), MODES[sys.argv[1]])
loss_of = lambda score, label: (score.squeeze(1) - label).square().mean()


class Batches(list):
    # They come at the pace of a reader: workers that are not held up take the machine from all other tests.

    def __getitem__(self, at):
        time.sleep(0.005)
        return super().__getitem__(at)

    def __iter__(self):
        return (self[at] for at in range(len(self)))


batches = Batches((torch.randint(0, 1000, (64, 3)), torch.zeros(64)) for _ in range(40))


def step(batch):
    ids, label = batch
    loss = loss_of(model(ids), label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def train(feed):
    match feed:
        case "plain":
            for batch in torch.utils.data.DataLoader(batches, batch_size=None):
                step(batch)
        case "prefetch":
            for batch in flota.prefetch(iter(batches), model):
                step(batch)
        case "dataset":
            flota.train_from_dataset(model, batches, loss=loss_of)


if flota.is_server():
    flota.init_server()
    flota.run_server()
else:
    flota.init_worker()
    while not Path("end").exists():
        while flota.worker_index() == 1 and Path("rest").exists():
            time.sleep(0.01)
        train(Path("feed").read_text() or "plain")
        Path(f"passed.{flota.worker_index()}").touch()
    flota.stop_worker()
"""


def begin(folder, mode):
    (folder / "train.py").write_text(TRAIN)
    (folder / "feed").write_text("plain")
    command = [
        sys.executable, "-m", "flota.launch", "--server_num=2", "--worker_num=2", "--no_durable", "train.py", mode
    ]  # fmt: skip
    launch = Launch(folder, command, clean_environment(OMP_NUM_THREADS="1"))
    try:
        wait_until(lambda: steps(launch) >= 2, timeout=120)
    except BaseException:
        launch.clean_up()
        raise
    return launch


def steps(launch):
    """How many workers make steps."""
    assert launch.process.poll() is None, launch.output
    done = top(launch, "--json", "--once", "--every=0.2")
    notes = [worker["note"] for worker in json.loads(done.stdout)["workers"]] if done.returncode == 0 else []
    return sum(note["step"] > 10 for note in notes)


def trace(launch, *flags, folder=None, **settings):
    return subprocess.run(
        [sys.executable, "-m", "flota.cli", "trace", *flags],
        cwd=folder or launch.folder,
        env=clean_environment(COLUMNS="80", **settings),
        capture_output=True,
        text=True,
        timeout=100,
    )


def ended(launch):
    (launch.folder / "rest").unlink(missing_ok=True)
    (launch.folder / "end").touch()
    assert launch.wait(60) == 0, launch.output


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """Two workers in async mode."""
    launch = begin(tmp_path_factory.mktemp("job"), "async")
    try:
        yield launch
        ended(launch)
    finally:
        launch.clean_up()


@pytest.mark.parametrize("mode", ["sync", "async", "bounded", "merged", "geo"])
def test_every_part_is_there_in_each_mode_however_it_is_fed(tmp_path, mode):
    launch = begin(tmp_path, mode)
    try:
        for feed in ("plain", "prefetch", "dataset"):
            (tmp_path / "feed").write_text(feed)
            # Two passes from here on, the latter is fed so from its first step on.
            for _ in range(2):
                for worker in (0, 1):
                    (tmp_path / f"passed.{worker}").unlink(missing_ok=True)
                wait_until(lambda: all((tmp_path / f"passed.{worker}").exists() for worker in (0, 1)), timeout=30)
            done = trace(launch, "--steps=100")
            assert done.returncode == 0, done.stderr
            tracks = load(tmp_path / "trace.json")
            for worker in (0, 1):
                parts = set()
                for (pid, _), events in tracks.items():
                    if pid == worker and any(event["cat"] == "step" for event in events):
                        parts |= check_steps(events)
                wanted = PARTS if mode in ("sync", "bounded") else PARTS - {"wait"}
                assert parts >= wanted, (feed, worker)
        if mode == "merged":
            file = json.loads((tmp_path / "trace.json").read_text())
            names = [event["args"]["name"] for event in file["traceEvents"] if event["name"] == "thread_name"]
            assert any("flota-send" in name for name in names)
        ended(launch)
    finally:
        launch.clean_up()


def test_a_table_says_what_each_part_takes(job):
    done = trace(job, "--steps=10", "-o", "a.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert done.stdout.splitlines()[1].startswith("worker 0 ")
    assert "is the slowest" in done.stdout
    assert "server 1: pull " in done.stdout
    assert "open a.json at https://ui.perfetto.dev" in done.stdout
    tracks = load(job.folder / "a.json")
    assert {worker for worker, _ in tracks} == {0, 1}


def test_json_has_what_the_table_has(job):
    done = trace(job, "--steps=5", "--json", "--workers=1")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    (worker,) = told["workers"]
    assert (worker["worker"], worker["steps"], worker["asked"]) == (1, 5, 5)
    assert set(worker["milliseconds"]) == PARTS
    assert sum(worker["milliseconds"].values()) == pytest.approx(worker["step_ms"], rel=1e-3)
    assert sum(worker["shares"].values()) == pytest.approx(1.0, abs=1e-6)
    assert worker["milliseconds"][worker["slowest"]] == max(worker["milliseconds"].values())
    assert told["missing"] == {}
    assert told["servers"][0]["pull"]["p99"] > 0
    assert {worker for worker, _ in load(job.folder / "trace.json")} == {1}


def test_two_who_trace_at_once_are_both_served(job):
    with ThreadPoolExecutor(3) as pool:
        flags = [("--steps=3", "-o", "x.json"), ("--steps=50", "-o", "y.json"), ("--steps=7", "-o", "z.json")]
        found = list(pool.map(lambda each: trace(job, "--json", *each), flags))
    for done, wanted in zip(found, (3, 50, 7), strict=True):
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert [(worker["worker"], worker["steps"]) for worker in told["workers"]] == [(0, wanted), (1, wanted)]


def test_workers_without_an_answer_are_named(job):
    (job.folder / "rest").touch()
    try:
        wait_until(lambda: rests(job), timeout=30)
        done = trace(job, "--steps=5", "--timeout=6")
    finally:
        (job.folder / "rest").unlink()
    assert done.returncode == 1
    assert "no answer of worker 1: it made no step in this time: it is at step" in done.stderr
    assert "worker 0 " in done.stdout
    assert "worker 1" not in done.stdout
    assert {worker for worker, _ in load(job.folder / "trace.json")} == {0}


def rests(job):
    """Whether worker 1 has come to a stop."""
    done = top(job, "--json", "--count=2", "--every=1.2")
    looks = [json.loads(line) for line in done.stdout.splitlines()]
    first, second = ([worker["note"]["step"] for worker in look["workers"] if worker["index"] == 1] for look in looks)
    return first == second


def test_what_is_made_in_time_is_shown(job):
    done = trace(job, "--steps=1000", "--timeout=8", "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert all(0 < worker["steps"] <= 1000 for worker in told["workers"])


def test_it_asks_from_anywhere_with_the_secret(job, tmp_path):
    worker = next(row for row in json.loads(top(job, "--json", "--once").stdout)["workers"])["note"]["pid"]
    environment = dict(
        entry.split("=", 1) for entry in Path(f"/proc/{worker}/environ").read_text().split("\0") if entry
    )
    servers = environment["PADDLE_PSERVERS_IP_PORT_LIST"]
    settings = {name: environment[name] for name in ("FLOTA_SECRET", "FLOTA_SECRET_FILE") if name in environment}
    done = trace(job, f"--servers={servers}", "--steps=2", folder=tmp_path, **settings)
    assert done.returncode == 0, done.stderr
    load(tmp_path / "trace.json")
    refused = trace(job, f"--servers={servers}", folder=tmp_path, FLOTA_SECRET="0" * 64)
    assert refused.returncode == 1
    assert "server 0" in refused.stderr


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--steps=0"], "from 1 to 1000"),
        (["--steps=1001"], "from 1 to 1000"),
        (["--workers=1,"], "workers are numbers"),
        (["--workers=7"], "worker 7 has told nothing: those that have are 0, 1"),
        (["-o", "nowhere/a.json"], "a folder that is there"),
        (["--timeout=0"], "timeout"),
        (["--log_dir=nowhere"], "nowhere/launch.json is not there"),
    ],
)
def test_what_makes_no_sense_is_refused(job, flags, says):
    done = trace(job, *flags)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
