"""Entries: which ids of a sparse embedding get rows. Today every id does, so an entry that says so is taken."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from flota.errors import InvalidArgument

__all__ = ["CountFilterEntry", "ProbabilityEntry", "ShowClickEntry"]


class Entry(ABC):
    """A condition for an id to get a row."""

    @abstractmethod
    def _to_attr(self) -> str:
        """The entry in one word, as programs that name it have it."""

    @property
    def admits_all(self) -> bool:
        return False


class ProbabilityEntry(Entry):
    """An id gets its row with this probability."""

    def __init__(self, probability: Any) -> None:
        if isinstance(probability, bool) or not isinstance(probability, float) or not 0 < probability <= 1:
            raise InvalidArgument(
                f"ProbabilityEntry: a probability is a float above 0 and up to 1, not {probability!r}"
            )
        self._probability = probability

    def _to_attr(self) -> str:
        return f"probability_entry:{self._probability}"

    @property
    def admits_all(self) -> bool:
        return self._probability == 1.0


class CountFilterEntry(Entry):
    """An id gets its row when it was seen so often."""

    def __init__(self, count_filter: Any) -> None:
        if isinstance(count_filter, bool) or not isinstance(count_filter, int) or count_filter < 0:
            raise InvalidArgument(f"CountFilterEntry: a count is an integer from 0 on, not {count_filter!r}")
        self._count_filter = count_filter

    def _to_attr(self) -> str:
        return f"count_filter_entry:{self._count_filter}"

    @property
    def admits_all(self) -> bool:
        return self._count_filter <= 1


class ShowClickEntry(Entry):
    """Rows count what was shown and clicked, by the inputs of these names. It leaves no id out: what is counted matters
    only to ``shrink`` and to saving a part of the rows, which are refused."""

    def __init__(self, show_name: Any, click_name: Any) -> None:
        if not isinstance(show_name, str) or not isinstance(click_name, str):
            raise InvalidArgument(f"ShowClickEntry: give the names of two inputs, not {show_name!r} and {click_name!r}")
        self._show_name = show_name
        self._click_name = click_name

    def _to_attr(self) -> str:
        return f"show_click_entry:{self._show_name}:{self._click_name}"

    @property
    def admits_all(self) -> bool:
        return True


def check_entry(entry: Any) -> None:
    """Refuses an entry that would have no effect."""
    if entry is None or (isinstance(entry, Entry) and entry.admits_all):
        return
    named = entry._to_attr() if isinstance(entry, Entry) else repr(entry)
    raise InvalidArgument(
        f"sparse_embedding: entry {named} would have no effect yet: every id gets a row; leave it out"
    )
