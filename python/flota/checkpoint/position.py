"""How far the data was trained, as a checkpoint has it: for each pass over a data set, its epochs and their pieces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flota.checks import whole

_MOST = (1 << 64) - 1

# As the core has it: pass, epoch, pieces, epochs below which all are over, runs of pieces that are done, samples of
# pieces that were begun.
State = tuple[str, int, int, int, list[tuple[int, int]], list[tuple[int, int]]]


def to_json(states: Sequence[State]) -> list[dict[str, Any]]:
    return [
        {
            "pass": name,
            "epoch": epoch,
            "pieces": pieces,
            "over_below": over_below,
            "done": [list(run) for run in done],
            "begun": [list(one) for one in begun],
        }
        for name, epoch, pieces, over_below, done, begun in states
    ]


def check(data: Sequence[Mapping[str, Any]]) -> None:
    """Raises ``ValueError`` if it is not what ``to_json`` gives."""
    names = {"pass", "epoch", "pieces", "over_below", "done", "begun"}
    for entry in data:
        if set(entry) != names or not isinstance(entry["pass"], str):
            raise ValueError(f"an entry of data has a name and {', '.join(sorted(names - {'pass'}))}")
        for name in ("epoch", "pieces", "over_below"):
            whole(name, entry[name], 0, _MOST)
        for pair in [*entry["done"], *entry["begun"]]:
            first, second = pair
            whole("a piece", first, 0, _MOST)
            whole("a number of data", second, 0, _MOST)


def going_on(data: Sequence[Mapping[str, Any]]) -> list[State]:
    """What a job that goes on from a checkpoint begins with: of each data set the epoch that was left in the middle, as
    its first one. A data set that was not in the middle of an epoch begins a new one.

    The name of a pass is ``DATASET#NUMBER``: scripts that make a data set anew for each epoch number them.
    """
    newest: dict[str, tuple[tuple[int, int], Mapping[str, Any]]] = {}
    for entry in data:
        if entry["pieces"] == 0 or not (entry["done"] or entry["begun"]):
            continue
        name, _, number = entry["pass"].rpartition("#")
        age = (int(number), entry["epoch"])
        if name not in newest or newest[name][0] < age:
            newest[name] = (age, entry)
    return [
        (
            f"{name}#0",
            0,
            entry["pieces"],
            0,
            [(begin, end) for begin, end in entry["done"]],
            [(piece, samples) for piece, samples in entry["begun"]],
        )
        for name, (_, entry) in newest.items()
    ]


def told(states: Sequence[State]) -> str:
    """The same for people; empty: there is nothing to tell."""
    return "; ".join(
        f"a data set goes on in the middle of an epoch, {sum(end - begin for begin, end in done)} of {pieces} pieces "
        f"done and {len(begun)} begun"
        for _, _, pieces, _, done, begun in states
    )
