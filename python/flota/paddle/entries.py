"""Entries: which ids of a sparse embedding get rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from flota.admission import Admission, Count, Probability, ShowClick
from flota.errors import InvalidArgument

__all__ = ["CountFilterEntry", "ProbabilityEntry", "ShowClickEntry"]


class Entry(ABC):
    """A condition for an id to get a row."""

    @abstractmethod
    def _to_attr(self) -> str:
        """The entry in one word, as programs that name it have it."""

    @abstractmethod
    def admission(self) -> Admission | None:
        """What the table makes of it; None: every id gets a row."""


class ProbabilityEntry(Entry):
    """An id gets its row with this probability, each time that it appears."""

    def __init__(self, probability: Any) -> None:
        if isinstance(probability, bool) or not isinstance(probability, float) or not 0 < probability <= 1:
            raise InvalidArgument(
                f"ProbabilityEntry: a probability is a float above 0 and up to 1, not {probability!r}"
            )
        self._probability = probability

    def _to_attr(self) -> str:
        return f"probability_entry:{self._probability}"

    def admission(self) -> Admission | None:
        return None if self._probability == 1.0 else Probability(self._probability)


class CountFilterEntry(Entry):
    """An id gets its row when it was seen so often."""

    def __init__(self, count_filter: Any) -> None:
        if isinstance(count_filter, bool) or not isinstance(count_filter, int) or count_filter < 0:
            raise InvalidArgument(f"CountFilterEntry: a count is an integer from 0 on, not {count_filter!r}")
        self._count_filter = count_filter

    def _to_attr(self) -> str:
        return f"count_filter_entry:{self._count_filter}"

    def admission(self) -> Admission | None:
        return None if self._count_filter <= 1 else Count(self._count_filter)


class ShowClickEntry(Entry):
    """Rows count what was shown and clicked, by the inputs of these names; a program without them counts each
    appearance as shown, and none as clicked. It leaves no id out; ``fleet.shrink`` removes rows by their counts."""

    def __init__(self, show_name: Any, click_name: Any) -> None:
        if not isinstance(show_name, str) or not isinstance(click_name, str):
            raise InvalidArgument(f"ShowClickEntry: give the names of two inputs, not {show_name!r} and {click_name!r}")
        self._show_name = show_name
        self._click_name = click_name

    def _to_attr(self) -> str:
        return f"show_click_entry:{self._show_name}:{self._click_name}"

    def admission(self) -> Admission | None:
        return ShowClick()

    @property
    def inputs(self) -> tuple[str, str]:
        return self._show_name, self._click_name


def check_entry(entry: Any) -> None:
    if entry is not None and not isinstance(entry, Entry):
        raise InvalidArgument(f"sparse_embedding: entry is one of paddle.distributed's entries, not {entry!r}")


def admission_of(entry: Any) -> Admission | None:
    return None if entry is None else entry.admission()
