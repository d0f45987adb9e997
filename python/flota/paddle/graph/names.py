"""Names that no other variable has: fc_0, fc_1, … as scripts and checkpoints know them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class _Names:
    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.counts: Counter[str] = Counter()


_current = _Names()


def generate(key: str) -> str:
    """The next name that begins with ``key``."""
    number = _current.counts[key]
    _current.counts[key] += 1
    return f"{_current.prefix}{key}_{number}"


@contextmanager
def guard(new_generator: str | None = None) -> Iterator[None]:
    """Counts anew inside; ``new_generator`` goes before every name."""
    global _current
    before, _current = _current, _Names(new_generator or "")
    try:
        yield
    finally:
        _current = before
