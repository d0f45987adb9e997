"""The example that the tests of engines train, and what it prints. (Not in conftest.py: each folder of tests has a
module of that name.)"""

import re
from pathlib import Path

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
