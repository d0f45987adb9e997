"""What the tests of engines share: what the example of each of them reaches alone."""

import os
import subprocess
import sys

import pytest
from example import EXAMPLE, OF_ONE_PROCESS, example_auc


@pytest.fixture(scope="session")
def auc_alone(tmp_path_factory) -> float:
    """The test AUC of the example in one process, on as many samples a step as all workers have together."""
    done = subprocess.run(
        [sys.executable, EXAMPLE, *OF_ONE_PROCESS],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, cwd=tmp_path_factory.mktemp("alone"),
        capture_output=True, text=True, timeout=110, check=True,
    )  # fmt: skip
    return example_auc(done.stdout)
