"""What the tests of engines share: the example that each of them trains, and what it reaches alone."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "wide_and_deep.py"
# Small, and long enough to be cut in its middle. With --mode=sync, WORKERS workers train what one process does.
WORKERS = 3
SETTINGS = ["--rows=60000"]
OF_EACH_WORKER = [*SETTINGS, "--batch_size=64"]
OF_ONE_PROCESS = [*SETTINGS, f"--batch_size={WORKERS * 64}"]


def example_auc(output: str) -> float:
    """What worker 0 of the example printed at its end."""
    found = re.search(r"test AUC (0\.\d{4})$", output, re.MULTILINE)
    assert found, output
    return float(found[1])


@pytest.fixture(scope="session")
def auc_alone(tmp_path_factory) -> float:
    """The test AUC of the example in one process, on as many samples a step as all workers have together."""
    done = subprocess.run(
        [sys.executable, EXAMPLE, *OF_ONE_PROCESS],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, cwd=tmp_path_factory.mktemp("alone"),
        capture_output=True, text=True, timeout=110, check=True,
    )  # fmt: skip
    return example_auc(done.stdout)
