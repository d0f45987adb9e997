"""The tests of the documentation use what other tests have: hosts that are namespaces."""

import sys
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1] / "engines"))
