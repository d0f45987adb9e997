"""The newest checkpoints of a job, side by side: ``DIR/step-0000001234``, of which the last N are kept.

Names have an order, by which the newest is found without asking any clock. A job that went back and trained on from an
older checkpoint saves steps that are there already: it begins a new line, ``step-0000001234.1``, which is newer than
all of the line before.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from flota import checks
from flota.checkpoint import folder, manifest
from flota.checkpoint.objects import unpublish
from flota.checkpoint.places import Place, Remote, entries, follow, named, place_of
from flota.errors import CheckpointError, FlotaError, InvalidArgument

_CHILD = re.compile(r"step-(?P<step>[0-9]{10,})(\.(?P<line>[1-9][0-9]*))?")
# What a save that crashed has left beside a child, or is still writing.
_BESIDE = re.compile(rf"(?P<child>{_CHILD.pattern})\.(?P<what>tmp|old)-[0-9a-f]{{16}}")
_MOST = 1 << 20


def _age(name: str) -> tuple[int, int]:
    """By which children are ordered: their line and step."""
    found = _CHILD.match(name)
    assert found is not None
    return int(found["line"] or 0), int(found["step"])


def _named(age: tuple[int, int]) -> str:
    line, step = age
    return f"step-{step:010d}.{line}" if line else f"step-{step:010d}"


def children(parent: Place) -> list[Place]:
    """The checkpoints in this folder, oldest first."""
    with named("read", parent):
        there = entries(parent)
        names = {name for name, size in there.items() if size is None and _CHILD.fullmatch(name)}
        if isinstance(parent, Remote):
            # Without a manifest it was never published, or is half removed.
            names = {name for name in names if manifest.NAME in entries(parent / name)}
        else:
            names |= {found[0] for found in map(_BESIDE.fullmatch, there) if found and _stands_in(found, there)}
    return [parent / name for name in sorted(names, key=lambda name: (_age(name), name))]


def _stands_in(found: re.Match[str], there: dict[str, int | None]) -> bool:
    """Whether a save crashed between two renames: then what it was about to replace has another name."""
    return found["what"] == "old" and found["child"] not in there


def find(dirname: str | os.PathLike[str] | Place) -> Place:
    """Where the checkpoint of this name is: there, or the newest of those that are kept there."""
    place = folder.find(place_of(dirname))
    with named("read", place):
        if manifest.NAME in entries(place):
            return place
    kept = children(place)
    return kept[-1] if kept else place


@contextlib.contextmanager
def keeping(dirname: str | os.PathLike[str], keep: int, step: int) -> Iterator[str]:
    """Gives the name of the place for a checkpoint of this step; when it is saved, removes all but the newest."""
    checks.whole("keep", keep, 1, _MOST)
    parent = place_of(dirname)
    if isinstance(parent, Path) and parent.exists() and not parent.is_dir():
        raise InvalidArgument(f"{parent} is not a folder; give checkpoints a place of their own")
    with named("read", parent):
        if manifest.NAME in entries(parent):
            raise InvalidArgument(
                f"{parent} is a checkpoint, saved without keep=; give those that are kept a folder of their own"
            )
    _sweep(parent)
    yield str(parent / _named(_next(children(parent), step)))
    _prune(parent, keep)


def _next(before: list[Place], step: int) -> tuple[int, int]:
    line, newest = _age(before[-1].name) if before else (0, step)
    return (line, step) if step >= newest else (line + 1, step)


def _prune(parent: Place, keep: int) -> None:
    """Damaged ones do not count; they go when they are older than all that are kept."""
    kept = children(parent)
    whole = [child for child in kept if looks_whole(child)]
    if len(whole) <= keep:
        return
    for child in kept[: kept.index(whole[-keep])]:
        with contextlib.suppress(FlotaError):  # the next save tries again
            remove(child)


def remove(child: Place) -> None:
    """Under its name it is whole, and then not there."""
    if isinstance(child, Remote):
        unpublish(child)
        return
    away = child.with_name(f"{child.name}.tmp-{secrets.token_hex(8)}")
    with named("remove", child):
        os.rename(child, away)
    shutil.rmtree(away, ignore_errors=True)


def _sweep(parent: Place) -> None:
    """What crashed saves have left."""
    with named("read", parent):
        there = entries(parent)
    if isinstance(parent, Remote):
        published = {child.name for child in children(parent)}
        for name, size in there.items():
            if size is None and _CHILD.fullmatch(name) and name not in published:
                with contextlib.suppress(FlotaError):
                    unpublish(parent / name)
        return
    for child in {found["child"] for found in map(_BESIDE.fullmatch, there) if found}:
        folder.remove_leftovers(parent / child)


def looks_whole(place: Place) -> bool:
    """Whether the manifest is good and its files are there in their sizes."""
    try:
        folder.read_manifest(place, None)
    except FlotaError:
        return False
    return True


def others(place: Place) -> list[Place]:
    """Checkpoints of the same job before or beside this one, newest first; they need not be good."""
    found: list[Place] = []
    if _CHILD.match(place.name):
        found = [child for child in reversed(children(place.parent)) if child != place]
    if isinstance(place, Path):
        found += folder.moved_away(place)
    with contextlib.suppress(FlotaError):  # where its manifest is damaged, nobody knows what a delta goes on from
        found += [follow(place, each["path"]) for each in reversed(folder.manifest_at(place).parents)]
    return found


@contextlib.contextmanager
def offering_another(place: Place) -> Iterator[None]:
    """What is wrong with a checkpoint is told with the one to go on from instead. Nobody goes on from it unasked."""
    try:
        yield
    except CheckpointError as error:
        other = next(filter(looks_whole, others(place)), None)
        if other is None:
            raise
        raise CheckpointError(
            f"{error}; the newest other checkpoint there is {other}: name it to go on from it"
        ) from error
