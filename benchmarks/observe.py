"""What it costs to see a job: training with everything on that shows it, beside the same with nothing on.

The model of ``benchmarks/train_ctr.py`` is trained by a launch of one server and two workers, ``--seconds`` at a time, in
turns. With everything on, workers tell server 0 how they do; a page follows the job and a browser's stream is open;
every process has a Prometheus endpoint, and one reads them all every 5 s; TensorBoard's files are written; ``flota top``
looks once a second; ten steps are traced once; lines are JSON. All of that runs on the same cores as the job. With
nothing on, not even workers' notes are sent (``FLOTA_OBSERVE=0``).

What is compared is the samples of all workers in a second: the median over rounds of each round's ratio, and the best
of all rounds. The bar is 0.98.

    python benchmarks/observe.py                       # 8 rounds of 2 x 20 s
    python benchmarks/observe.py --what page           # one of them alone: notes, page, metrics, tensorboard, top, trace
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tuning import Case, run

BAR = 0.98
QUIET = {"FLOTA_OBSERVE": "0"}
_PATIENCE = 60.0  # seconds for a job to begin


def _flota(*arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "flota.cli", *arguments]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@contextmanager
def process(*arguments: str) -> Iterator[None]:
    """A command that goes on until the job has ended."""
    started = _flota(*arguments)
    try:
        yield
    finally:
        started.terminate()
        started.wait(10)


@contextmanager
def thread(work: Callable[[threading.Event], None]) -> Iterator[None]:
    ended = threading.Event()
    started = threading.Thread(target=work, args=(ended,), daemon=True)
    started.start()
    try:
        yield
    finally:
        ended.set()
