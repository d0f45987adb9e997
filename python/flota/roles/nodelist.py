"""Slurm's lists in full: ``h[1-3,07],gpu01`` names h1, h2, h3, h07 and gpu01; ``2(x3),1`` means 2, 2, 2, 1."""

from __future__ import annotations

import itertools
import re

from flota.errors import InvalidArgument

_MAX = 1 << 16  # names; no cluster has more nodes
_PART = re.compile(r"([^\[\],]+)|\[([^\[\]]+)\]")
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_COUNT = re.compile(r"([0-9]{1,9})(?:\(x([0-9]{1,9})\))?")


def expand_nodes(name: str, text: str) -> list[str]:
    """The names in their order. ``name``: where the list is from, for errors."""
    nodes = [node for item in _split(name, text) for node in _expand(name, text, item)]
    if len(nodes) > _MAX:
        raise InvalidArgument(f"{name}={text} names {len(nodes)} nodes; there are at most {_MAX}")
    return nodes


def expand_counts(name: str, text: str) -> list[int]:
    counts: list[int] = []
    for item in text.split(","):
        found = _COUNT.fullmatch(item)
        times = int(found[2] or 1) if found else 0
        if found is None or not 1 <= times <= _MAX - len(counts):
            raise InvalidArgument(f"{name}={text}: {item!r} is not a number of tasks, such as 2 or 2(x3)")
        counts += [int(found[1])] * times
    return counts


def _split(name: str, text: str) -> list[str]:
    """At the commas that are not in brackets."""
    items, depth = [""], 0
    for character in text:
        depth += {"[": 1, "]": -1}.get(character, 0)
        if character == "," and depth == 0:
            items.append("")
        else:
            items[-1] += character
        if depth not in (0, 1):
            break
    if depth or not all(items):
        raise InvalidArgument(f"{name}={text} is not a list of nodes, such as h[1-3,7],gpu01")
    return items


def _expand(name: str, text: str, item: str) -> list[str]:
    """One item, which may have several brackets: r[1-2]n[1-3] is six nodes."""
    parts, end = [], 0
    for found in _PART.finditer(item):
        if found.start() != end:
            break
        end = found.end()
        parts.append([found[1]] if found[1] else _numbers(name, text, found[2]))
    if end != len(item):
        raise InvalidArgument(f"{name}={text}: {item!r} is not a node, nor several such as h[1-3,7]")
    return ["".join(words) for words in itertools.islice(itertools.product(*parts), _MAX + 1)]


def _numbers(name: str, text: str, ranges: str) -> list[str]:
    """01-03,7 as 01, 02, 03, 7: a number has as many digits as the first of its range."""
    numbers: list[str] = []
    for part in ranges.split(","):
        found = _RANGE.fullmatch(part)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if found is None or not 0 <= last - first < _MAX:
            raise InvalidArgument(f"{name}={text}: {part!r} is not a number, nor a range such as 1-3 or 01-12")
        numbers += [str(number).zfill(len(found[1])) for number in range(first, last + 1)]
    return numbers
