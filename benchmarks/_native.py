"""Runs the native benchmarks that `make bench` (or `scripts/setup target flota_bench`) has built."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

BIN = Path(__file__).resolve().parent.parent / "build" / "native" / "bin"


def run(name: str, *arguments: object) -> list[dict[str, Any]]:
    """The JSON objects that the benchmark prints, one a line."""
    program = BIN / name
    if not program.exists():
        sys.exit(f"{name} is not built; run: scripts/setup target flota_bench")
    lines = []
    with subprocess.Popen([program, *map(str, arguments)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(json.loads(line))
            print(" ", line.strip(), file=sys.stderr, flush=True)
    if process.returncode != 0:
        sys.exit(f"{name} ended with status {process.returncode}")
    return lines
