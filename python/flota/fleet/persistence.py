"""What the tables hold: saved, loaded, begun with, and rid of what is no longer needed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch

from flota import inference, saving, shrinking
from flota.arrays import Keys, Values
from flota.checkpoint.job import sparse_tables
from flota.checkpoint.kept import keeping
from flota.checkpoint.lines import check_mode
from flota.checkpoint.manifest import Manifest
from flota.checkpoint.places import Place, place_of
from flota.checkpoint.reader import Checkpoint
from flota.data.reading import close_passes
from flota.eras import Shrinking
from flota.errors import CheckpointError, InvalidArgument
from flota.fleet.part import Part
from flota.log import say
from flota.nn.table import TableParameter
from flota.nn.table_module import TableModule
from flota.standing import worker as standing
from flota.vectors import load_vectors as begin_with_vectors


class Persistence(Part):
    def __init__(self) -> None:
        super().__init__()
        self._last_saved: Place | None = None  # of a line of base and deltas

    def begin_rows(self, rows: Sequence[tuple[TableParameter, saving.Rows]]) -> None:
        """Gives tables rows to begin with. Every worker calls it after ``init_worker``; worker 0's are the job's."""
        saving.begin_rows(self._training(), self._job(), rows)

    def load_vectors(self, table: TableModule | str, keys: Keys | None = None, vectors: Values | None = None) -> bool:
        """Training begins with these vectors: ``vectors[i]`` is the row of ``keys[i]`` in the table of this module, or
        of this name, with the state of a row that was never updated. Other rows stay as they are.

        Every worker calls it after ``init_worker``. Worker 0's vectors are the job's; other workers may leave them out.
        Servers that began with a checkpoint keep what that has: then nothing changes, and False is returned.
        """
        return begin_with_vectors(self._training(), self._job(), table, keys, vectors)

    def save_persistables(
        self,
        dirname: str | os.PathLike[str],
        *,
        mode: str = "all",
        since: str | os.PathLike[str] | None = None,
        keep: int | None = None,
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        """Saves all tables: weights and optimizer state of rows and dense parameters, and the step. ``files``: others
        that belong to it, by name.

        ``mode``: "all"; "base", the same as the beginning of a line of deltas; "delta", the rows that have changed
        since the last base or delta, and which are gone; "inference", weights alone. A delta goes on from what this
        worker saved last, or from ``since``, the checkpoint that the servers began with; it is loaded together with
        all before it, which must stay where they are.

        Worker 0 writes; on other workers the call does nothing. What was at ``dirname``, a folder or a URL, is replaced
        at once; or with ``keep`` the new one is ``dirname/step-0000001234``, and then all but the newest so many are
        removed. In sync mode the others wait for worker 0 in their next step, for as long as their deadline
        (``FLOTA_TIMEOUT``).
        """
        optimizer = self._training()
        wanted = check_mode(mode)
        if keep is not None and wanted in ("base", "delta"):
            raise InvalidArgument(f"keep= would remove what deltas need: leave it out with mode={mode!r}")
        if since is not None and wanted != "delta":
            raise InvalidArgument(f'since= says what a delta goes on from: give it with mode="delta", not {mode!r}')
        if not self.is_first_worker():
            return
        if self._saved_before(dirname, wanted, keep):
            return
        before = self._last_saved if since is None else place_of(since)
        with nullcontext(dirname) if keep is None else keeping(dirname, keep, optimizer.steps) as place:
            saved = saving.save(optimizer, self._client, place, self._source(), files, wanted, before)
        standing.has_saved(str(saved), wanted)
        if wanted in ("base", "delta"):
            self._go_on_from(saved)

    def _go_on_from(self, place: Place) -> None:
        self._last_saved = place
        if self.communicator is not None:
            self.communicator.saved(str(place))

    def _saved_before(self, dirname: str | os.PathLike[str], mode: str, keep: int | None) -> bool:
        """Whether this worker has saved it before it was started again. What the tables have is later now, while it is
        on its way; where it was, it may have ended in the middle of a save, which is made once more. Only a finished
        base or delta stays: what others go on from must not change."""
        optimizer, in_line = self._training(), mode in ("base", "delta")
        if not self._returning():
            if not in_line or self._restart is None or optimizer.steps != self._restart.steps:
                return False
            try:
                contents = Checkpoint(dirname).manifest
            except CheckpointError:
                return False
            if (contents.step, contents.mode) != (optimizer.steps, mode) or not self._passed(contents):
                return False
            self._go_on_from(place_of(dirname))
        say("saved_before", f"{dirname} was saved before this worker was started again: left as it is")
        return True

    def _passed(self, contents: Manifest) -> bool:
        """Whether the tables have been at this save: it may be one of another job, as far as this one."""
        tables = sparse_tables(self.connected()).values() if self._client is not None else []
        marks = [table.stand().marks for table in tables]
        return bool(marks) and all(contents.mark in each for each in marks)

    def load_model(self, dirname: str | os.PathLike[str], *, weights_only: bool = False) -> None:
        """Brings back what ``save_persistables`` saved, on any number of servers. Every worker calls it.

        ``weights_only``: leaves out the optimizer's state and how far the data was trained, so that another optimizer,
        or none, goes on with the weights.
        """
        optimizer = self._training()
        if not weights_only:
            close_passes()  # they are of the data before
        job = self._job()
        if job is None:
            saving.load_local(optimizer, dirname, weights_only)
            return
        self._pause()
        saving.load_remote(optimizer, job, dirname, weights_only)

    def shrink(
        self,
        max_age: int | None = None,
        *,
        min_score: float = 0.0,
        decay: float = 1.0,
        min_norm: float = 0.0,
        tables: Sequence[str] | None = None,
    ) -> int:
        """Removes rows of sparse tables (of all, unless some are named); returns how many. Every worker calls it.

        ``max_age``: rows that no step has updated since so many calls of ``shrink`` ago: with 1, since the last one.
        ``min_score``: rows whose score is lower, after all shows and clicks were multiplied by ``decay``; for tables
        with ``admission=flota.admission.ShowClick(…)``. ``min_norm``: rows whose weights have a smaller norm. A key
        whose row went begins anew when it is trained again.
        """
        optimizer = self._training()
        which = Shrinking(max_age, min_score, decay, min_norm)
        job = self._job()
        if job is None:
            return shrinking.shrink(optimizer, None, which, tables)
        self._pause()
        removed = shrinking.shrink(optimizer, job, which, tables)
        self._resume()
        return removed

    def save_inference_model(
        self, dirname: str | os.PathLike[str], model: torch.nn.Module, example_inputs: Sequence[Any]
    ) -> None:
        """Saves the model with all rows of its tables, to be served without servers. Worker 0 writes; on other workers
        the call does nothing. See ``flota.inference.save``."""
        if self.is_first_worker() and not self._returning():
            self.settle()
            inference.save(dirname, model, example_inputs, self._source())
