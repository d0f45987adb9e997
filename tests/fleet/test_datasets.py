"""Workers share the files of a data set: every sample is trained once, and at least once when one of them dies."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from flota.data import leases
from flota.testing import LocalCluster

SCRIPT = Path(__file__).parent / "data_job.py"
FILES, LINES = 8, 1500
ROWS = FILES * LINES


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for number in range(FILES):
        keys = range(number * LINES, (number + 1) * LINES)
        (folder / f"part-{number}").write_text("".join(f"1 {key} 1 {key % 2}\n" for key in keys))
    return [str(folder / f"part-{number}") for number in range(FILES)]


def job(folder, files, servers, workers=2, **settings):
    """Runs the script as a job of ``flota launch``, or alone, and returns what each worker says."""
    folder.mkdir(exist_ok=True)
    command = [sys.executable]
    if servers:
        command += ["-m", "flota.launch", f"--server_num={servers}", f"--worker_num={workers}", "--log_dir", folder]
    done = subprocess.run(
        [*command, SCRIPT, json.dumps({"files": files, "out": str(folder), **settings})],
        capture_output=True,
        text=True,
        timeout=100,
        cwd=folder,
        check=False,
        env={**os.environ, "FLOTA_TIMEOUT": "20"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [results(folder, rank) for rank in range(workers if servers else 1)]


def results(folder, rank):
    with np.load(folder / f"result.{rank}.npz") as found:
        return {name: found[name] for name in found.files}


def times_seen(workers):
    return np.bincount(np.concatenate([worker["seen"] for worker in workers]), minlength=ROWS)


@pytest.mark.parametrize(
    ("mode", "settings"),
    [
        ("async", {"epochs": 2, "threads": 3}),
        ("async", {"prefetch": True, "batch_size": 64}),
        ("sync", {"epochs": 2, "threads": 2}),
        ("geo", {"prefetch": True}),
    ],
)
def test_every_sample_is_trained_once_an_epoch(tmp_path, files, mode, settings):
    workers = job(tmp_path / "job", files, 2, mode=mode, **settings)
    epochs = settings.get("epochs", 1)
    assert (times_seen(workers) == epochs).all()
    if mode == "sync":
        assert all(len(worker["seen"]) > 0 for worker in workers)
    if mode == "async":
        assert (workers[0]["counts"] == epochs).all(), "what the servers have learnt"


def test_nobody_waits_for_a_worker_that_waits_for_data(tmp_path, files):
    """With a bound on staleness, in an epoch that one of the workers ends alone, and in the next one."""
    workers = job(tmp_path / "job", files[:3], 1, mode="bounded", epochs=2, slow=[1, 0.01])
    seen = np.bincount(np.concatenate([worker["seen"] for worker in workers]), minlength=3 * LINES)
    assert (seen == 2).all()


@pytest.mark.parametrize("mode", ["async", "geo"])
def test_what_one_worker_leaves_in_the_middle_others_train_once(tmp_path, files, mode):
    workers = job(tmp_path / "job", files, 1, mode=mode, breaks=[1, 9], prefetch=mode == "geo", slow=[0, 0.01])
    assert (times_seen(workers) == 1).all()
    assert len(workers[1]["seen"]) == 900


def test_a_slow_worker_takes_fewer_pieces(tmp_path, files):
    workers = job(tmp_path / "job", files, 1, mode="async", slow=[1, 0.05])
    assert (times_seen(workers) == 1).all()
    assert 0 < len(workers[1]["seen"]) < len(workers[0]["seen"])


def test_sync_workers_get_the_same_samples_in_every_run(tmp_path, files):
    first, second = (job(tmp_path / name, files, 1, mode="sync", threads=2) for name in ("first", "second"))
    for one, other in zip(first, second, strict=True):
        assert one["seen"].tolist() == other["seen"].tolist()


def test_a_worker_without_a_piece_waits_for_the_others_and_ends(tmp_path, files):
    workers = job(tmp_path / "job", files[:1], 1, mode="async")
    assert sorted(len(worker["seen"]) for worker in workers) == [0, LINES]
    workers = job(tmp_path / "sync", files[:1], 1, mode="sync")
    assert [len(worker["seen"]) for worker in workers] == [LINES, 0]


def test_trainer_threads_train_every_sample_once(tmp_path, files):
    workers = job(tmp_path / "job", files, 1, mode="async", trainers=3)
    assert sum(worker["seen"][0] for worker in workers) == ROWS
    assert (workers[0]["counts"] == 1).all()


def test_what_a_killed_worker_had_is_trained_by_others(tmp_path, files):
    """The counts: every sample at least once; twice at most what the dead worker had trained and not told."""
    report, batch = 300, 100
    with LocalCluster(2) as cluster:
        workers = []
        for rank in range(2):
            settings = {
                "mode": "async", "files": files, "out": str(tmp_path), "endpoints": cluster.endpoints, "rank": rank,
                "world": 2, "batch_size": batch, "dies": [1, 23], "report": report, "slow": [0, 0.03], "stays": True,
                "lease_seconds": 1.0,
            }  # fmt: skip
            command = [sys.executable, str(SCRIPT), json.dumps(settings)]
            workers.append(subprocess.Popen(command, env={**os.environ, "FLOTA_SECRET": cluster.secret}))
        try:
            codes = [worker.wait(90) for worker in workers]
        finally:
            for worker in workers:
                worker.kill()
    assert codes == [0, -signal.SIGKILL]
    survivor = results(tmp_path, 0)
    counts = np.rint(survivor["counts"]).astype(int)
    assert counts.min() == 1, "every sample was trained"
    assert counts.max() == 2
    assert (counts == 2).sum() <= report + batch
    # Of the dead worker's 23 batches the last were still on their way to the servers: those count for nothing.
    by_the_dead = counts.sum() - len(survivor["seen"])
    assert 0 < by_the_dead <= 23 * batch


@pytest.mark.parametrize("threads", [1, 3])
def test_an_epoch_goes_on_where_a_checkpoint_was_saved(tmp_path, files, threads):
    saved = str(tmp_path / "saved")
    settings = {"mode": "async", "threads": threads, "looks": True}
    (first,) = job(tmp_path / "first", files, 0, save=[saved, 37], **settings)
    (rest,) = job(tmp_path / "rest", files, 0, load=saved, **settings)
    assert len(first["seen"]) == 3700
    assert (times_seen([first, rest]) == 1).all()
    assert (rest["counts"] == 1).all()


def test_an_epoch_that_is_begun_anew_hands_out_each_piece_once():
    """After a look at its first batch: whatever was asked then, and in whichever order."""
    epoch = leases.Epoch("begun anew", 0, 6)
    look = leases.Leases(epoch, 3, None)
    first = [look.next(0), look.flush(), look.next(1), look.next(2)]
    look.close()
    again = leases.Leases(epoch, 3, None)
    taken = [again.next(lane) for lane in (0, 1, 2, 0, 1, 2)]
    again.close()
    assert [first[0].piece, first[2].piece, first[3].piece] == [0, 1, 2]
    assert [each.piece for each in taken] == list(range(6))


def test_a_job_goes_on_with_other_workers_and_servers(tmp_path, files):
    saved = str(tmp_path / "saved")
    first = job(tmp_path / "first", files, 1, workers=1, mode="async", save=[saved, 37], prefetch=True)
    rest = job(tmp_path / "rest", files, 2, workers=2, mode="async", load=saved)
    assert (times_seen([*first, *rest]) == 1).all()
    assert (rest[0]["counts"] == 1).all()


def test_a_checkpoint_between_epochs_begins_a_new_one(tmp_path, files):
    saved = str(tmp_path / "saved")
    job(tmp_path / "first", files[:2], 0, mode="async", save=[saved, 2 * LINES // 100])
    (again,) = job(tmp_path / "again", files[:2], 0, mode="async", load=saved)
    assert len(again["seen"]) == 2 * LINES
