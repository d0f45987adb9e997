"""Jobs of several workers in one process: each worker is a thread, and they meet where they gather."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from flota import workers


@pytest.fixture(autouse=True)
def _no_warnings(recwarn):
    """A metric never warns: what makes no sense is refused, and what has no value is 0.5 or NaN."""
    yield
    assert [str(warning.message) for warning in recwarn] == []


class Threads(workers.Alone):
    """The workers of a job, as each of its threads sees them."""

    def __init__(self, count):
        self.count = count
        self.gatherings = 0
        self._brought = [None] * count
        self._meeting = threading.Barrier(count, timeout=30)
        self._own = threading.local()

    @property
    def index(self):
        return self._own.index

    def gather(self, name, payload):
        assert len(payload) <= 16 << 20
        self._brought[self.index] = (name, payload)
        self._meeting.wait()
        names, payloads = zip(*self._brought, strict=True)
        if self._meeting.wait() == 0:
            self.gatherings += 1
        assert len(set(names)) == 1, names
        return list(payloads)

    def gather_by_rank(self, name, payload):
        return dict(enumerate(self.gather(name, payload)))

    def run(self, work):
        """What ``work(index)`` gives on each worker."""

        def of(index):
            self._own.index = index
            return work(index)

        with ThreadPoolExecutor(self.count) as pool:
            return list(pool.map(of, range(self.count)))


@pytest.fixture
def job():
    """Three workers."""
    threads = Threads(3)
    workers.meet(threads)
    yield threads
    workers.meet(workers.Alone())
