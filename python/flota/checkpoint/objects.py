"""A checkpoint in an object store, where no folder can be renamed: the manifest is written last, and is the checkpoint.

A save writes its files into a folder of its own beside the manifest, ``files-`` and 16 hex digits, and then the
manifest that names the folder. One object is put whole or not at all, so a reader sees the old manifest or the new one,
and the files of both are there. What the old one named is removed after. docs/decisions/0017-object-stores.md says why.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets

from flota.checkpoint import manifest
from flota.checkpoint.folder import Staging, manifest_at, refuse_to_replace
from flota.checkpoint.manifest import Kind, Manifest
from flota.checkpoint.places import Place, Remote, named, place_of
from flota.errors import CheckpointError, FlotaError


class ObjectStaging:
    """An upload. ``publish`` makes it the checkpoint at ``target``; ``abandon`` removes it."""

    def __init__(self, target: Remote, kind: Kind) -> None:
        self.target = target
        self._kind = kind
        refuse_to_replace(target, kind)
        _remove_uploads(target, but=_named_folder(target))
        self.folder = f"files-{secrets.token_hex(8)}"
        self._sizes: dict[str, int] = {}

    def write(self, name: str, data: bytes) -> tuple[int, str]:
        """Uploads a file. Returns its size and checksum. Thread safety: any thread, each its own name."""
        place = self.target / self.folder / name
        with named("write", place):
            place.write(data)
        self._sizes[name] = len(data)
        return len(data), hashlib.sha256(data).hexdigest()

    def publish(self, contents: Manifest) -> None:
        refuse_to_replace(self.target, self._kind)
        with named("publish", self.target):
            # Nobody can lock a folder there: another save to the same place may have taken this one for a crashed one.
            there = (self.target / self.folder).entries()
            if missing := [name for name, size in self._sizes.items() if there.get(name) != size]:
                raise CheckpointError(
                    f"{self.target / self.folder / min(missing)} is not there any more, and the checkpoint is not "
                    "published: does another job save to the same place?"
                )
            before = _old_files(self.target)
            (self.target / manifest.NAME).write(contents.to_bytes())
        for name in before:
            _remove(self.target / name)
        _remove_uploads(self.target, but=self.folder)

    def abandon(self) -> None:
        _remove(self.target / self.folder)


def staging(dirname: str | os.PathLike[str] | Place, kind: Kind) -> Staging | ObjectStaging:
    """A checkpoint of this kind in the making, at this place."""
    place = place_of(dirname)
    return ObjectStaging(place, kind) if isinstance(place, Remote) else Staging(place, kind)


def unpublish(place: Remote) -> None:
    """Removes a checkpoint: first the manifest, so that no half of one is ever found."""
    with named("remove", place):
        (place / manifest.NAME).remove()
        place.remove()


def _named_folder(target: Remote) -> str:
    try:
        return manifest_at(target).folder
    except CheckpointError:
        return ""


def _old_files(target: Remote) -> list[str]:
    """Files of a checkpoint that was copied there from a disk: they lie beside the manifest."""
    try:
        there = manifest_at(target)
    except CheckpointError:
        return []
    return [] if there.folder else list(there.files)


def _remove_uploads(target: Remote, but: str) -> None:
    """What crashed saves have left, and what a published one has replaced."""
    with named("read", target):
        names = [name for name in target.entries() if manifest.FOLDER.fullmatch(name) and name != but]
    for name in names:
        _remove(target / name)


def _remove(place: Remote) -> None:
    with contextlib.suppress(FlotaError), named("remove", place):  # the next save tries again
        place.remove()
