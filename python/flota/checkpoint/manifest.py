"""The manifest: what a checkpoint holds, as JSON that proves itself.

Its last word is a checksum of all the rest, and it has one spelling only, so that no byte of it can change unnoticed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from flota import _core, admission, checks, initializer, rules
from flota.admission import ADMISSIONS, Admission, ShowClick
from flota.checkpoint import position
from flota.errors import CheckpointError, InvalidArgument
from flota.initializer import Initializer
from flota.rules import Rule

NAME = "manifest.json"
FORMAT = "flota checkpoint"
VERSION = 1
# The mode in `source` of what was made of other programs' files: it need not hold all of a model's tables.
CONVERTED = "converted"
# Tables and files by the thousand; anything beyond is not a manifest.
MOST_BYTES = 64 << 20
# A folder of files beside the manifest; see objects.py.
_IDENTITY = re.compile("[0-9a-f]{16}")
_SHA256 = re.compile("[0-9a-f]{64}")
_MOST = (1 << 64) - 1
_LATEST = 1 << 62  # step or era
FOLDER = re.compile(r"files-[0-9a-f]{16}")

Kind = Literal["persistables", "inference"]
# What of the tables: everything; everything, as the beginning of a line of deltas; what has changed since the save
# before; or weights alone.
SaveMode = Literal["all", "base", "delta", "inference"]
KINDS: tuple[Kind, ...] = ("persistables", "inference")


@dataclass(frozen=True)
class TableEntry:
    """A table: what it is, and how much of it was saved."""

    kind: Literal["sparse", "dense"]
    rule: Rule
    init: Initializer
    seed: int
    storage: str = "float32"
    allow_nonfinite: bool = False
    admission: Admission | None = None  # sparse
    dim: int = 0  # sparse
    rows: int = 0  # sparse
    waiting: int = 0  # sparse: keys that are counted and have no row yet
    removed: int = 0  # sparse, in a delta: keys whose rows went since the save before
    shrinks: tuple[int, ...] = ()  # sparse: the eras that began when it was shrunk
    shape: tuple[int, ...] = ()  # dense
    updates: int = 0  # dense
    last_seen: int = 0  # dense

    @staticmethod
    def of(spec: _core.TableSpec) -> TableEntry:
        return TableEntry(
            kind="sparse" if spec.kind == _core.TableKind.sparse else "dense",
            rule=rules.from_native(spec.rule),
            init=initializer.from_native(spec.init),
            seed=spec.seed,
            storage=spec.storage.name,
            allow_nonfinite=spec.allow_nonfinite,
            admission=admission.from_native(spec.admission),
            dim=spec.dim,
            shape=tuple(spec.shape),
        )

    def spec(self, name: str) -> _core.TableSpec:
        """As the core takes it; a dense one without blocks."""
        spec = _core.TableSpec()
        spec.name = name
        spec.kind = _core.TableKind[self.kind]
        spec.storage = _core.Storage[self.storage]
        spec.allow_nonfinite = self.allow_nonfinite
        spec.dim = self.dim
        spec.shape = list(self.shape)
        spec.seed = self.seed
        spec.rule = self.rule.to_native()
        spec.init = self.init.to_native()
        spec.admission = admission.to_native(self.admission)
        return spec

    def state_widths(self) -> dict[str, int]:
        """How many floats a row has of each part of its state, in their order."""
        widths = dict.fromkeys(self.rule.state, self.dim)
        if isinstance(self.admission, ShowClick):
            widths |= dict.fromkeys(admission.SCORES, 1)
        return widths

    def to_json(self) -> dict[str, Any]:
        mine = {"sparse": ("dim", "rows"), "dense": ("shape", "updates", "last_seen")}[self.kind]
        return {
            "kind": self.kind,
            "rule": {"kind": type(self.rule).__name__, **asdict(self.rule)},
            "state": list(self.rule.state),
            "init": {"kind": type(self.init).__name__, **asdict(self.init)},
            **{name: getattr(self, name) for name in ("seed", "storage", "allow_nonfinite", *mine)},
            **({"admission": self.admission.to_json()} if self.admission is not None else {}),
            # Only where there are some: few tables have them.
            **{name: value for name in ("waiting", "removed", "shrinks") if (value := getattr(self, name))},
        }

    @staticmethod
    def from_json(name: str, entry: Mapping[str, Any]) -> TableEntry:
        settings = dict(entry)
        state = settings.pop("state")
        rule = dict(settings.pop("rule"))
        if "betas" in rule:
            rule["betas"] = tuple(rule["betas"])
        init = dict(settings.pop("init"))
        settings["rule"] = rules.RULES[rule.pop("kind")](**rule)
        settings["init"] = initializer.INITIALIZERS[init.pop("kind")](**init)
        if "admission" in settings:
            admitted = dict(settings["admission"])
            settings["admission"] = ADMISSIONS[admitted.pop("kind")](**admitted)
        settings["shape"] = tuple(settings.get("shape", ()))
        settings["shrinks"] = tuple(settings.get("shrinks", ()))
        table = TableEntry(**settings)
        table.spec(name).validate()
        if list(table.rule.state) != state:
            raise ValueError(f"its state is {state}, that of {type(table.rule).__name__} is {list(table.rule.state)}")
        return table


@dataclass(frozen=True)
class FileEntry:
    """A file: its size and checksum, and what it holds."""

    bytes: int
    sha256: str
    table: str | None = None  # rows of one sparse table
    rows: int = 0
    shards: tuple[int, int] | None = None  # the virtual shards, first and last, that its rows are of
    tables: tuple[str, ...] = ()  # whole dense parameters
    part: Literal["rows", "waiting", "removed"] = "rows"  # what of the sparse table

    def to_json(self) -> dict[str, Any]:
        entry: dict[str, Any] = {"bytes": self.bytes, "sha256": self.sha256}
        if self.table is not None:
            entry |= {"table": self.table, "rows": self.rows, "shards": self.shards}
        if self.part != "rows":
            entry["part"] = self.part
        if self.tables:
            entry["tables"] = self.tables
        return entry

    @staticmethod
    def from_json(entry: Mapping[str, Any]) -> FileEntry:
        settings = dict(entry)
        if settings.get("shards") is not None:
            first, last = settings["shards"]
            settings["shards"] = (first, last)
        settings["tables"] = tuple(settings.get("tables", ()))
        return FileEntry(**settings)


@dataclass(frozen=True)
class Manifest:
    """All that a checkpoint says about itself."""

    kind: Kind
    flota: str  # the version that wrote it
    step: int = 0
    source: Mapping[str, Any] = field(default_factory=dict)  # where it came from, for people
    tables: Mapping[str, TableEntry] = field(default_factory=dict)
    files: Mapping[str, FileEntry] = field(default_factory=dict)
    inference: Mapping[str, Any] = field(default_factory=dict)
    data: Sequence[Mapping[str, Any]] = ()  # how far the data was trained; see position.py
    mode: SaveMode = "all"
    era: int = 0  # rows that were touched after this save are of it, or of a later one
    mark: int = 0  # of a base or delta: tables that go on from it know it
    parents: Sequence[Mapping[str, Any]] = ()  # of a delta: the checkpoints that it is read with, the base first
    folder: str = ""  # where the files are, if not beside the manifest; see objects.py

    def to_bytes(self) -> bytes:
        body = {
            "format": FORMAT,
            "version": VERSION,
            "kind": self.kind,
            "flota": self.flota,
            "step": self.step,
            "source": dict(self.source),
            "tables": {name: table.to_json() for name, table in self.tables.items()},
            "files": {name: file.to_json() for name, file in self.files.items()},
        }
        if self.inference:
            body["inference"] = dict(self.inference)
        if self.data:
            body["data"] = list(self.data)
        if self.folder:
            body["folder"] = self.folder
        if self.mode != "all":
            body["mode"] = self.mode
        if self.era:
            body["era"] = self.era
        if self.mark:
            body["mark"] = self.mark
        if self.parents:
            body["parents"] = list(self.parents)
        return _spell({**body, "checksum": _checksum(body)})

    @property
    def has_state(self) -> bool:
        """Whether there is more of rows and parameters than their weights."""
        return self.kind == "persistables" and self.mode != "inference"

    def identity(self) -> int:
        """A number that two checkpoints have in common only if they are the same."""
        return int.from_bytes(hashlib.sha256(self.to_bytes()).digest()[:8], "little") or 1

    @staticmethod
    def from_bytes(data: bytes, path: str) -> Manifest:
        """The manifest in a file's bytes, or ``CheckpointError`` with what is wrong with them."""
        try:
            body = json.loads(data)
            # Python reads more than it writes: numbers beyond all bounds, for one.
            spelt = _spell(body) if isinstance(body, dict) else b""
        except (ValueError, RecursionError) as error:
            raise CheckpointError(f"{path} is damaged: it is no JSON ({error})") from error
        if not isinstance(body, dict) or body.get("format") != FORMAT:
            raise CheckpointError(f"{path} is not the manifest of a flota checkpoint")
        if body.get("version") != VERSION:
            raise CheckpointError(
                f"{path} has format version {body.get('version')!r}; this flota reads version {VERSION}"
            )
        checksum = body.pop("checksum", None)
        if checksum != _checksum(body) or data != spelt:
            raise CheckpointError(f"{path} is damaged: its checksum does not fit its contents")
        return _understood(body, path)


def _understood(body: dict[str, Any], path: str) -> Manifest:
    known = {"format", "version", *(entry.name for entry in fields(Manifest))}
    if strange := set(body) - known:
        raise CheckpointError(f"{path}: unknown entries {', '.join(sorted(strange))}")
    try:
        if body["kind"] not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, not {body['kind']!r}")
        settings = {name: value for name, value in body.items() if name not in ("format", "version")}
        settings["tables"] = {name: TableEntry.from_json(name, entry) for name, entry in body["tables"].items()}
        if body.get("mode", "all") not in ("all", "base", "delta", "inference"):
            raise ValueError(f"mode {body['mode']!r} is unknown")
        for parent in body.get("parents", []):
            if set(parent) != {"path", "identity"} or not isinstance(parent["path"], str):
                raise ValueError("a parent has a path and an identity")
            if not _IDENTITY.fullmatch(parent["identity"]):
                raise ValueError(f"the identity of a parent is 16 hex digits, not {parent['identity']!r}")
        position.check(body.get("data", []))
        position.going_on(body.get("data", []))
        if "folder" in body and not FOLDER.fullmatch(body["folder"]):
            raise ValueError(f"folder must be files- and 16 hex digits, not {body['folder']!r}")
        settings["files"] = {name: FileEntry.from_json(entry) for name, entry in body["files"].items()}
        contents = Manifest(**settings)
        _check(contents)
        # Who writes what it has understood, and finds other bytes, has understood something else.
        if contents.to_bytes() != _spell({**body, "checksum": _checksum(body)}):
            raise ValueError("it says something in another way than flota writes it")
        return contents
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, InvalidArgument) as error:
        raise CheckpointError(f"{path} makes no sense: {type(error).__name__}: {error}") from error


def _check(contents: Manifest) -> None:
    """What types cannot say: whoever reads on must not doubt a number, a name or a checksum."""
    for name, most in (("step", _LATEST), ("era", _LATEST), ("mark", _MOST)):
        checks.whole(name, getattr(contents, name), 0, most)
    # What JSON gave may be anything, whatever the fields' types say.
    of: tuple[tuple[Any, type], ...] = ((contents.flota, str), (contents.source, dict), (contents.inference, Mapping))
    if not all(isinstance(value, kind) for value, kind in of):
        raise ValueError("flota is a text, source and inference are mappings")
    for table in contents.tables.values():
        for name in ("rows", "waiting", "removed", "updates", "last_seen"):
            checks.whole(name, getattr(table, name), 0, _MOST)
        for era in table.shrinks:
            checks.whole("an era of shrinks", era, 0, _LATEST)
    for name, file in contents.files.items():
        checks.whole("bytes", file.bytes, 0, _MOST)
        checks.whole("rows", file.rows, 0, _MOST)
        if not _SHA256.fullmatch(file.sha256):
            raise ValueError(f"the checksum of {name} must be 64 hex digits, not {file.sha256!r}")
        named: list[Any] = [*file.tables, *([] if file.table is None else [file.table])]
        if not all(isinstance(table, str) for table in named):
            raise ValueError(f"{name} is of a table that has no name")
        if file.part not in ("rows", "waiting", "removed"):
            raise ValueError(f"{name} holds {file.part!r} of a table, which is unknown")
        for shard in file.shards or ():
            checks.whole("a shard", shard, 0, _core.SHARDS - 1)


def _spell(body: Mapping[str, Any]) -> bytes:
    return (json.dumps(body, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def _checksum(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(_spell(body)).hexdigest()
