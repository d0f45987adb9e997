"""Waiting for what another process does, without guessing how long it takes."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], timeout: float = 10.0) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "this did not happen in time"
        time.sleep(0.005)
