"""What a package (``--job_dispatch_package DIR``) consists of, and which of it a launch leaves at home.

Both ends speak of entries: a path with slashes, its kind, and for files size, mode and SHA-256. A node asks for the
files that it has not; the others are not sent.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from flota.errors import InvalidArgument

FILE, FOLDER, LINK = "file", "folder", "link"
IGNORED = ".flotaignore"
RESERVED = ".flota-"  # what flota itself keeps in a workspace begins so

# Results of runs, and what no job needs; .flotaignore names more.
_NEVER = (".git", ".hg", ".svn", "__pycache__", "*.pyc", "nodefile", IGNORED, f"{RESERVED}*")
_READ = 1 << 20


@dataclass(frozen=True)
class Entry:
    path: str
    kind: str
    size: int = 0
    mode: int = 0
    digest: str = ""  # of a file; of a link where it leads

    def as_list(self) -> list[Any]:
        return [self.path, self.kind, self.size, self.mode, self.digest]

    @classmethod
    def from_list(cls, values: object) -> Entry:
        """Refuses what is no entry, or leads out of the folder that it is to be put into."""
        if not isinstance(values, list) or [type(value) for value in values] != [str, str, int, int, str]:
            raise InvalidArgument(f"{values!r:.200} is no entry of a package")
        entry = cls(*values)
        if not is_inside(entry.path) or entry.kind not in (FILE, FOLDER, LINK) or entry.size < 0:
            raise InvalidArgument(f"{values!r:.200} is no entry of a package")
        if entry.kind == LINK and not leads_inside(entry.path, entry.digest):
            raise InvalidArgument(f"the link {entry.path} leads out of the package, to {entry.digest}")
        return entry


def is_inside(path: str) -> bool:
    """Whether a path stays in the folder that it is from, by its spelling alone."""
    parts = path.split("/")
    good = all(part not in ("", ".", "..") and "\0" not in part for part in parts)
    return good and not parts[0].startswith(RESERVED)


def leads_inside(path: str, target: str) -> bool:
    """Whether a link at ``path`` stays in the package, by its spelling alone."""
    if not target or target.startswith("/") or "\0" in target:
        return False
    depth = len(path.split("/")) - 1
    for part in target.split("/"):
        depth += {"..": -1, ".": 0, "": 0}.get(part, 1)
        if depth < 0:
            return False
    return True


def digest_of(file: Path) -> str:
    found = hashlib.sha256()
    with file.open("rb") as opened:
        while block := opened.read(_READ):
            found.update(block)
    return found.hexdigest()


def entries(package: Path, excluded: Sequence[str] = ()) -> list[Entry]:
    """All that is to be copied, folders before what is in them. ``excluded``: paths that are left out."""
    if not package.is_dir():
        raise InvalidArgument(f"--job_dispatch_package={package}: there is no such folder")
    patterns = [*_NEVER, *(str(PurePosixPath(path)) for path in excluded), *_patterns(package / IGNORED)]
    try:
        return [_entry(package, path) for path in _walk(package, "", patterns)]
    except OSError as error:
        raise InvalidArgument(f"--job_dispatch_package={package}: {error.strerror}: {error.filename}") from error


def _patterns(file: Path) -> list[str]:
    """A pattern a line, as shells have them, for a name or for a path from the package on."""
    if not file.is_file():
        return []
    lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    return [line.rstrip("/") for line in lines if line and not line.startswith("#")]


def _walk(package: Path, prefix: str, patterns: Sequence[str]) -> Iterator[str]:
    for item in sorted(os.scandir(package / prefix), key=lambda item: item.name):
        path = f"{prefix}{item.name}"
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns for name in (item.name, path)):
            continue
        yield path
        if item.is_dir(follow_symlinks=False):
            yield from _walk(package, f"{path}/", patterns)


def _entry(package: Path, path: str) -> Entry:
    file = package / path
    try:
        path.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(f"{file!r}: its name is no text: rename it, or leave it out by {IGNORED}") from None
    status = file.lstat()
    mode = stat.S_IMODE(status.st_mode) & 0o777
    if stat.S_ISDIR(status.st_mode):
        return Entry(path, FOLDER, mode=mode)
    if stat.S_ISREG(status.st_mode):
        return Entry(path, FILE, status.st_size, mode, digest_of(file))
    if stat.S_ISLNK(status.st_mode):
        target = os.readlink(file)
        if not leads_inside(path, target):
            raise InvalidArgument(
                f"{file} is a link that leads out of the package, to {target}, where nodes may have something else: "
                f"copy it there, or leave it out by {IGNORED}"
            )
        return Entry(path, LINK, digest=target)
    raise InvalidArgument(f"{file} is neither file, folder nor link: leave it out by {IGNORED}")
