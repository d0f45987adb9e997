"""Data sets: files of samples, read by all workers of a job together.

    dataset = flota.data.QueueDataset()
    dataset.init(batch_size=512, thread_num=2, pipe_command="python criteo_reader.py", use_var=variables)
    dataset.set_filelist(files)
    for batch in dataset:          # one epoch
        …

Give every worker the whole list: each sample goes to one of them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Literal, Protocol

import torch.utils.data

from flota import _core, checks, workers
from flota.data.formats.files import File, look_at
from flota.data.formats.pipes import PLAIN, Piped
from flota.data.formats.text import slot_text
from flota.data.formats.trouble import Policy, Skipped, Trouble
from flota.data.lanes import Read
from flota.data.leases import LEASE_SECONDS, TEST_PREFIX, Assignment, Fixed, Leases, Mark
from flota.data.reading import Pass
from flota.data.shards import Piece, is_shard, piece_bytes
from flota.data.slots import Arrays, SlotPlace, Slots
from flota.errors import DataError, InvalidArgument
from flota.workers import Epoch, GoesOn

Sharing = Literal["lease", "static", "none"]

# What a pass is for: its name's beginning.
TRAINING, TESTING = "", TEST_PREFIX

# How many data sets of the same files this process has made: each has epochs of its own.
_twins: Counter[str] = Counter()


class Schema(Protocol):
    """What samples are made of."""

    layout: _core.Layout
    binary: list[str]  # slots that hold 0 or 1

    def places(self) -> list[SlotPlace]: ...

    def slots(self) -> list[SlotPlace]: ...

    def batch(self, arrays: Arrays) -> Any: ...


class Format(Protocol):
    """How samples lie in files."""

    def pieces(self, file: File, most_bytes: int) -> list[Piece]: ...

    def read(self, piece: Piece, trouble: Trouble) -> Iterator[_core.Samples]: ...


class SchemaFormat(Protocol):
    """A format that brings its schema: ``Criteo()``, ``Csv(…)``, ``Parquet(…)``."""

    @property
    def schema(self) -> Schema: ...

    def reader(self) -> Format: ...


class DatasetSettings:
    """What ``QueueDataset`` and ``InMemoryDataset`` have in common: the settings, and the files."""

    _shares: tuple[str | None, ...] = (None, "lease", "static", "none")

    def __init__(self) -> None:
        self._files: list[str] | None = None
        self._schema: Schema | None = None
        self._settings: dict[str, Any] = {}
        self._place: tuple[int, int] | None = None  # in a DataLoader's process: of its worker

    def init(
        self,
        batch_size: int = 1,
        thread_num: int = 1,
        use_var: Sequence[Any] | None = None,
        pipe_command: str = PLAIN,
        input_type: int = 0,
        fs_name: str = "",
        fs_ugi: str = "",
        download_cmd: str = PLAIN,
        *,
        schema: Schema | None = None,
        format: SchemaFormat | None = None,
        sharing: Sharing | None = None,
        on_error: Policy = "stop",
        lease_seconds: float | None = None,
    ) -> None:
        """Says how samples are read.

        ``batch_size``: samples of a batch; the last one may have fewer. ``thread_num``: threads that read.

        What the files hold: slot text for the variables ``use_var`` or the features ``schema``, printed by
        ``pipe_command`` for each file (``cat``: the files hold it themselves, and no process is started); or what
        ``format`` says. ``download_cmd`` prints a file, given its name, which only it has to know. ``fs_name``
        ("hdfs://host:port") is put before names without a scheme, ``fs_ugi`` ("user,password") is who reads there:
        the user alone counts.

        ``sharing`` is how workers with the same list of files share it: "lease" hands pieces to whoever is free,
        "static" gives each the same pieces in every run, "none" reads everything on every worker. Unless given it is
        "static" in sync mode and "lease" in the others. ``lease_seconds``: a worker that is silent for so long, 10
        unless said otherwise, loses its pieces to others.

        ``on_error``: "stop" ends with an error at the first bad line, file or command; "skip" goes on without it, says
        so on standard error, and counts it in ``skipped``. A file that is missing is an error in any case, for all
        workers must have the same files to share.
        """
        self._settings = {name: value for name, value in locals().items() if name != "self"}
        self._batch_size = checks.whole("batch_size", batch_size, 1, 1 << 30)
        self._threads = checks.whole("thread_num", thread_num, 1, 1024)
        if input_type != 0:
            raise InvalidArgument(f"input_type must be 0 (a sample a line), not {input_type!r}")
        if sharing not in self._shares:
            raise InvalidArgument(f"sharing must be one of {self._shares[1:]}, not {sharing!r}")
        self._sharing: Sharing | None = sharing
        if lease_seconds is not None and (sharing == "none" or "lease" not in self._shares):
            raise InvalidArgument("lease_seconds would have no effect: nothing is leased here")
        seconds = LEASE_SECONDS if lease_seconds is None else lease_seconds
        self._lease_seconds = checks.number("lease_seconds", seconds, 0.1, 86400.0)
        self._on_error: Policy = on_error
        self._trouble = Trouble(on_error)
        self._remote = _remote_files(fs_name, fs_ugi)
        self._way = (use_var, schema, format, pipe_command, download_cmd)
        self._set_format(*self._way)
        self._plan: list[Piece] | None = None
        self._name: str | None = None
        self._downloads = download_cmd != PLAIN

    def _set_format(
        self,
        use_var: Sequence[Any] | None,
        schema: Schema | None,
        format: SchemaFormat | None,
        pipe_command: str,
        download_cmd: str,
    ) -> None:
        given = [
            name for name, value in (("use_var", use_var), ("schema", schema), ("format", format)) if value is not None
        ]
        if len(given) != 1:
            raise InvalidArgument(f"give one of use_var, schema and format, not {' and '.join(given) or 'none'}")
        if format is not None:
            if pipe_command != PLAIN or download_cmd != PLAIN:
                raise InvalidArgument("pipe_command and download_cmd make slot text: they do not go with format")
            self._schema, self._format = format.schema, format.reader()
            return
        self._schema = schema if schema is not None else Slots(use_var or [])
        text = slot_text(self._schema.layout, self._schema.slots(), self._schema.binary)
        plain = pipe_command == PLAIN and download_cmd == PLAIN
        self._format = text if plain else Piped(text, pipe_command, download_cmd)

    def __getstate__(self) -> dict[str, Any]:
        """For a ``DataLoader``'s processes that are no forks: what the core has made is made again there."""
        state = {name: value for name, value in self.__dict__.items() if name not in ("_schema", "_format", "_trouble")}
        team = workers.current()
        return {**state, "_place": (team.index, team.count)}  # nobody there knows the job

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _schema=None)
        if "_way" in state:
            self._trouble = Trouble(self._on_error)
            self._set_format(*self._way)

    def update_settings(self, **settings: Any) -> None:
        """Changes some of the settings of ``init``; the others stay."""
        if not self._settings:
            raise InvalidArgument("call init() of the data set first: update_settings changes what it says")
        self.init(**{**self._settings, **settings})

    def set_filelist(self, filelist: Sequence[str | os.PathLike[str]]) -> None:
        """The files: paths, or URLs of any file system that fsspec knows (hdfs://, s3://, https://)."""
        if isinstance(filelist, (str, bytes, os.PathLike)):
            raise InvalidArgument(f"set_filelist takes a list of paths, not {filelist!r}")
        for path in filelist:
            if not isinstance(path, (str, os.PathLike)):
                raise InvalidArgument(f"set_filelist takes a list of paths, and {path!r} is none")
        self._files = [os.fspath(path) for path in filelist]
        self._plan = None
        self._name = None
        self._own_list: bool | None = None  # not known yet
        self._epochs = Counter[str]()

    def get_filelist(self) -> list[str]:
        return list(self._files or [])

    @property
    def skipped(self) -> Skipped:
        """Lines and files that ``on_error="skip"`` has left out so far, on this worker."""
        self._check_ready()
        return self._trouble.skipped

    def _check_ready(self) -> Schema:
        if self._schema is None:
            raise InvalidArgument("call init() of the data set first: it says how samples are read")
        if self._files is None:
            raise InvalidArgument("call set_filelist() of the data set first")
        if not self._files:
            raise DataError("the list of files is empty: give every worker the whole list, and they share it")
        return self._schema

    def _pieces(self) -> list[Piece]:
        """What is handed out, the same on every worker with the same files."""
        if self._plan is None:
            names = [_at(self._remote, path) for path in self._files or []]
            found = [File(name, None, None) if self._downloads else look_at(name) for name in names]
            most = piece_bytes(found)
            self._plan = [piece for file in found for piece in self._format.pieces(file, most)]
        return self._plan

    def _epoch(self, pieces: list[Piece], kind: str) -> Epoch:
        """The next of this data set's epochs that workers share. Only they count: a worker may read the files for
        itself beside them. Tests count for themselves: worker 0 may make them alone."""
        if self._name is None:
            text = json.dumps([[piece.file.path, piece.file.size, piece.begin, piece.end] for piece in pieces])
            digest = hashlib.sha256(text.encode()).hexdigest()[:16]
            self._name = f"{digest}#{_twins[digest]}"
            _twins[digest] += 1
        epoch = Epoch(kind + self._name, self._epochs[kind], len(pieces))
        self._epochs[kind] += 1
        return epoch

    def _begin(self, kind: str = TRAINING) -> Pass[Any]:
        """A new pass over this worker's part of the data."""
        schema = self._check_ready()
        pieces = self._pieces()
        lanes = min(self._threads, len(pieces))
        assignment, epoch, turns, marks = self._assign(pieces, lanes, kind)
        epochs, number = self._epochs, self._epochs[kind]

        def unused() -> None:
            # Somebody had a look: it is no epoch that others have made.
            if epochs[kind] == number and epoch is not None:
                epochs[kind] -= 1

        told = epoch if kind == TRAINING else None
        return Pass(assignment, self._reads(pieces), turns, self._batch_size, schema.batch, unused, told, marks)

    def _reads(self, pieces: list[Piece]) -> Read:
        """Reads one of these pieces by its number, whatever the settings are by then."""
        format, trouble = self._format, self._trouble
        return lambda number: format.read(pieces[number], trouble)

    def _assign(
        self, pieces: list[Piece], lanes: int, kind: str
    ) -> tuple[Assignment, Epoch | None, list[int], list[Mark]]:
        """Who reads what, the epoch that workers share, if they do, the order of the lanes' turns, and what of it they
        have behind them."""
        turns = list(range(lanes))
        team = workers.current()
        loader = torch.utils.data.get_worker_info()
        if loader is not None:
            if self._sharing == "lease":
                raise InvalidArgument("a DataLoader's processes cannot ask for pieces: use sharing='static' or 'none'")
            place, places = (0, 1) if self._sharing == "none" else self._place or (team.index, team.count)
            fixed = Fixed(len(pieces), lanes, place * loader.num_workers + loader.id, places * loader.num_workers)
            return fixed, None, turns, []
        if self._sharing == "none":
            return Fixed(len(pieces), lanes, 0, 1), None, turns, []
        if self._sharing == "lease" and team.in_step and kind == TRAINING:
            raise InvalidArgument(
                "sharing='lease' gives pieces to whoever is free, and in sync mode workers make their steps together: "
                "use sharing='static'"
            )
        by_number = kind == TRAINING and (team.in_step or team.count == 1)
        static = self._sharing == "static" or (self._sharing is None and by_number)
        classes = self._place_in_list() if static else None
        epoch = self._epoch(pieces, kind)
        goes_on = team.begin_epoch(epoch) if kind == TRAINING else True
        if goes_on is False:
            return Fixed(0, lanes, 0, 1), epoch, turns, []
        leases = Leases(epoch, lanes, classes, self._lease_seconds)
        if not isinstance(goes_on, GoesOn):
            return leases, epoch, turns, []
        marks = [Mark(*mark) for mark in goes_on.marks]
        leases.go_on(marks)
        turns = [lane for lane in goes_on.lanes if lane < lanes]
        turns += [lane for lane in range(lanes) if lane not in turns]
        return leases, epoch, turns, marks

    def _place_in_list(self) -> tuple[int, int]:
        """This worker's place among those that share its list of files, and how many these are. Workers that were given
        different lists share nothing: each reads its own. In sync mode they compare their lists, once for each."""
        team = workers.current()
        if team.count > 1 or self._shares[1] != "lease":
            team.fixed_by("data that is shared by number (sharing='static', or InMemoryDataset)")
        if self._own_list is None:
            self._own_list = is_shard(self._files or []) or (team.in_step and self._lists_differ(team))
        return (0, 1) if self._own_list else (team.index, team.count)

    def _lists_differ(self, team: workers.Workers) -> bool:
        digest = hashlib.sha256(json.dumps(self._files).encode()).digest()
        return len(set(team.gather("data/files", digest))) > 1


def _remote_files(fs_name: str, fs_ugi: str) -> str:
    if not fs_name:
        if fs_ugi:
            raise InvalidArgument("fs_ugi is who reads at fs_name, which is not given")
        return ""
    scheme, separator, place = fs_name.partition("://")
    if not separator:
        raise InvalidArgument(f"fs_name must be a URL such as hdfs://host:9000, not {fs_name!r}")
    # HDFS asks for no password, and one in a URL would end in messages and logs.
    user = fs_ugi.partition(",")[0] + "@" if fs_ugi else ""
    return f"{scheme}://{user}{place.rstrip('/')}"


def _at(remote: str, path: str) -> str:
    """The path there, unless it is a URL itself."""
    return path if not remote or "://" in path else f"{remote}/{path.lstrip('/')}"


class QueueDataset(DatasetSettings, torch.utils.data.IterableDataset[Any]):
    """Streams samples from files: each iteration is an epoch. Nothing is kept.

    An ordinary iterable of batches; ``DataLoader(dataset, batch_size=None)`` takes it too.
    """

    def __iter__(self) -> Pass[Any]:
        return self._begin()

    def testing(self) -> Testing:
        """The same to test with: passes of their own, which workers share by lease in every mode, and which no
        checkpoint goes on with."""
        return Testing(self)


class Testing:
    """Passes over a data set that train nothing."""

    def __init__(self, dataset: QueueDataset) -> None:
        self._dataset = dataset

    def __iter__(self) -> Pass[Any]:
        return self._dataset._begin(TESTING)
