"""A package as it arrives in a workspace.

Files are written beside their place and renamed when they are whole and have the right checksum: what is there under
its name is never half a file. ``.flota-package.json`` says what dispatches have brought, and with which size and time,
so that a file that nobody has touched need not be read again, and one that the package has no more can be told from
what the job has made. Nothing that no dispatch has brought is ever removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import stat
import tempfile
from pathlib import Path
from typing import BinaryIO

from flota.errors import InvalidArgument, SystemFailure
from flota.launch.ssh.package import FILE, FOLDER, LINK, RESERVED, Entry, digest_of, is_inside

_RECORD, _LOCK, _DRAFT = f"{RESERVED}package.json", f"{RESERVED}lock", f"{RESERVED}draft-"


class Receiver:
    """One dispatch into a workspace, which is this job's alone until ``close``."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._entries: list[Entry] = []
        self._draft: tuple[Entry, Path, BinaryIO, hashlib._Hash] | None = None
        self._written = 0
        self._lock = os.open(workspace / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise SystemFailure(
                f"another launch's job runs in {workspace}, and its files would change under it: wait for its end, or "
                "give another --job_workspace"
            ) from None
        self._brought = self._read_record()
        for folder in {(workspace / path).parent for path in self._brought}:
            for draft in folder.glob(f"{_DRAFT}*"):  # of a dispatch that broke off
                draft.unlink(missing_ok=True)

    def close(self) -> None:
        if self._draft is not None:
            self._draft[2].close()
            self._draft[1].unlink(missing_ok=True)
            self._draft = None
        os.close(self._lock)

    def lacking(self, entries: list[Entry]) -> list[int]:
        """Takes more entries of the package, and says which of these have to be sent. Folders and links are made."""
        lacking = []
        for i, entry in enumerate(entries):
            self._check_way(entry)
            if entry.kind == FOLDER:
                self._make_folder(entry)
            elif entry.kind == LINK:
                self._make_link(entry)
            elif not self._has(entry):
                lacking.append(i)
        self._entries += entries
        return lacking

    def begin(self) -> None:
        """All entries are known. Those that are new here are written down before the first of them comes: should this
        break off, what came is known to have been brought."""
        new = [entry.path for entry in self._entries if not os.path.lexists(self._workspace / entry.path)]
        self._write_record({**dict.fromkeys(new), **self._brought})

    def write(self, entry: Entry, data: bytes, *, last: bool) -> None:
        """Takes the next piece of a file."""
        if self._draft is None:
            place = self._workspace / entry.path
            number, name = tempfile.mkstemp(prefix=_DRAFT, dir=place.parent)
            self._draft = (entry, Path(name), os.fdopen(number, "wb"), hashlib.sha256())
        known, draft, file, digest = self._draft
        if known.path != entry.path:
            raise SystemFailure(f"pieces of {known.path} and of {entry.path} are mixed")
        file.write(data)
        digest.update(data)
        if not last:
            return
        self._draft = None
        with file:
            os.fchmod(file.fileno(), entry.mode | stat.S_IRUSR | stat.S_IWUSR)
        if digest.hexdigest() != entry.digest:
            draft.unlink()
            raise SystemFailure(f"{entry.path} changed while it was copied: give the command again")
        place = self._workspace / entry.path
        if place.is_dir() and not place.is_symlink():
            draft.unlink()
            raise InvalidArgument(f"{place} is a folder here and a file in the package: take it away")
        draft.replace(place)
        self._written += 1

    def finish(self) -> tuple[int, int]:
        """Removes what the package has no more; how many files were written and removed."""
        known = {entry.path for entry in self._entries}
        removed = sum(self._remove(path) for path in sorted(set(self._brought) - known, reverse=True))
        record: dict[str, list[object] | None] = {}
        for entry in self._entries:
            status = (self._workspace / entry.path).lstat()
            record[entry.path] = [entry.kind, status.st_size, status.st_mtime_ns, entry.digest]
        self._write_record(record)
        return self._written, removed

    # --- single entries ---

    def _check_way(self, entry: Entry) -> None:
        """Refuses a way that leads through a link, which may lead anywhere."""
        folder = self._workspace
        for part in entry.path.split("/")[:-1]:
            folder = folder / part
            if folder.is_symlink():
                raise InvalidArgument(f"{folder} is a link here and a folder in the package: take it away")
            folder.mkdir(exist_ok=True)

    def _make_folder(self, entry: Entry) -> None:
        place = self._workspace / entry.path
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            if entry.path not in self._brought:
                raise InvalidArgument(f"{place} is no folder here, and one in the package: take it away")
            place.unlink()
        place.mkdir(exist_ok=True)
        place.chmod(entry.mode | stat.S_IRWXU)

    def _make_link(self, entry: Entry) -> None:
        place = self._workspace / entry.path
        if place.is_symlink() and os.readlink(place) == entry.digest:
            return
        if place.is_dir() and not place.is_symlink():
            raise InvalidArgument(f"{place} is a folder here and a link in the package: take it away")
        draft = place.with_name(f"{_DRAFT}{os.getpid()}-link")
        draft.symlink_to(entry.digest)
        draft.replace(place)
        self._written += 1

    def _has(self, entry: Entry) -> bool:
        place = self._workspace / entry.path
        try:
            status = place.lstat()
        except FileNotFoundError:
            return False
        if not stat.S_ISREG(status.st_mode) or status.st_size != entry.size:
            return False
        known = self._brought.get(entry.path)
        digest = known[3] if known and known[:3] == [FILE, status.st_size, status.st_mtime_ns] else digest_of(place)
        if digest != entry.digest:
            return False
        if stat.S_IMODE(status.st_mode) != entry.mode:
            place.chmod(entry.mode | stat.S_IRUSR | stat.S_IWUSR)
        return True

    def _remove(self, path: str) -> bool:
        """Removes what an earlier dispatch brought, unless it was changed here since."""
        place, known = self._workspace / path, self._brought[path]
        with contextlib.suppress(OSError):
            status = place.lstat()
            if stat.S_ISDIR(status.st_mode):
                place.rmdir()  # refused by the kernel while there is anything in it
                return False
            if known is None or known[1:3] == [status.st_size, status.st_mtime_ns]:
                place.unlink()
                return True
        return False

    # --- what was brought ---

    def _read_record(self) -> dict[str, list[object] | None]:
        """By path: kind, size, time and digest; None for one that was announced. What is damaged counts as nothing."""
        with contextlib.suppress(OSError, ValueError, RecursionError):
            values = json.loads((self._workspace / _RECORD).read_text(encoding="utf-8"))
            if isinstance(values, dict) and isinstance(values.get("brought"), dict):
                return {
                    path: known if isinstance(known, list) and len(known) == 4 else None
                    for path, known in values["brought"].items()
                    if is_inside(path)
                }
        return {}

    def _write_record(self, brought: dict[str, list[object] | None]) -> None:
        draft = self._workspace / f"{_DRAFT}record"
        draft.write_text(json.dumps({"format": 1, "brought": brought}), encoding="utf-8")
        draft.replace(self._workspace / _RECORD)
