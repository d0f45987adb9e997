"""A global shuffle: every sample exactly once, anywhere, and never twice in memory."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parent / "shuffle_job.py"
WORKERS, ROWS = 2, 400_000
BINS = 64


@pytest.fixture(scope="module")
def shuffled(tmp_path_factory):
    """What each of two workers with 400,000 samples says."""
    folder = tmp_path_factory.mktemp("shuffle")
    rest = "\t1" * 12 + "".join(f"\t{category:08x}" for category in range(26))
    files = [folder / f"part-{number}" for number in range(WORKERS)]
    for number, file in enumerate(files):
        rows = range(number * ROWS, (number + 1) * ROWS)
        file.write_text("".join(f"{row & 1}\t{row}{rest}\n" for row in rows))
    command = [sys.executable, "-m", "flota.launch", "--server_num=1", f"--worker_num={WORKERS}", "--log_dir", folder]
    done = subprocess.run(
        [*command, SCRIPT, json.dumps({"files": list(map(str, files)), "out": str(folder)})],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, "FLOTA_TIMEOUT": "30"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    workers = []
    for rank in range(WORKERS):
        with np.load(folder / f"result.{rank}.npz") as found:
            workers.append({name: found[name] for name in found.files})
    for file in files:
        file.unlink()
    return workers


def test_every_sample_is_with_one_worker_before_and_after(shuffled):
    for when in ("loaded", "first", "second"):
        together = np.concatenate([worker[when] for worker in shuffled])
        assert np.array_equal(np.sort(together), np.arange(WORKERS * ROWS)), when
    assert [worker["sizes"].tolist() for worker in shuffled] == [[ROWS, WORKERS * ROWS, WORKERS * ROWS]] * WORKERS


@pytest.mark.parametrize(("before", "after"), [("loaded", "first"), ("first", "second"), ("loaded", "second")])
def test_where_a_sample_comes_from_says_nothing_of_where_it_goes(shuffled, before, after):
    """A chi-square test over positions, of 64 x 64 cells."""
    was = np.empty(WORKERS * ROWS, dtype=np.int64)
    was[np.concatenate([worker[before] for worker in shuffled])] = np.arange(WORKERS * ROWS)
    from_places = was[np.concatenate([worker[after] for worker in shuffled])]
    cells = (from_places * BINS // (WORKERS * ROWS)) * BINS + np.arange(WORKERS * ROWS) * BINS // (WORKERS * ROWS)
    counts = np.bincount(cells, minlength=BINS * BINS)
    expected = WORKERS * ROWS / BINS**2
    freedom = (BINS - 1) ** 2
    chi_square = ((counts - expected) ** 2 / expected).sum()
    # The distribution's standard deviation is sqrt(2 * freedom): six of them.
    assert abs(chi_square - freedom) < 6 * np.sqrt(2 * freedom)
    steps = np.abs(np.diff(from_places))
    assert abs(steps.mean() / (WORKERS * ROWS / 3) - 1) < 0.01, "neighbours come from anywhere"


def test_memory_is_at_most_1_3_times_the_data(shuffled):
    for worker in shuffled:
        memory, data = worker["memory"]
        assert data >= ROWS * 256
        assert memory <= 1.3 * data
