"""Data sets that are loaded into memory, and shuffled there."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import torch.utils.data

from flota import _core, checks, workers
from flota.data.dataset import DatasetSettings, Schema
from flota.data.exchange import exchange
from flota.data.lanes import end_lanes, read_blocks
from flota.data.leases import Fixed
from flota.errors import FlotaError, InvalidArgument

_SEED = 0x5EED
_LAST_WAIT = 5.0  # seconds

_loading: set[threading.Thread] = set()


@atexit.register
def _end_loading() -> None:
    """Threads that are in native code when the interpreter ends would take the process down."""
    end_lanes()
    for thread in list(_loading):
        thread.join(_LAST_WAIT)


class InMemoryDataset(DatasetSettings, torch.utils.data.IterableDataset[Any]):
    """Loads this worker's part of the files into memory; each iteration is an epoch over it.

        dataset.load_into_memory()          # or preload_into_memory() … wait_preload_done()
        dataset.global_shuffle()            # over all workers; local_shuffle() over this one's samples
        for batch in dataset:
            …
        dataset.release_memory()

    Samples are kept as compact rows, and shuffling moves none of them.
    """

    # What is loaded is one worker's for good.
    _shares = (None, "static", "none")

    def __init__(self) -> None:
        super().__init__()
        self._store: _core.SampleStore | None = None
        self._loading: threading.Thread | None = None
        self._error: BaseException | None = None
        self._shuffles = 0
        self._shuffled = 0

    def __getstate__(self) -> dict[str, Any]:
        if self._loading is not None or self._store is not None:
            raise InvalidArgument(
                "samples in memory cannot go to another process: give the DataLoader multiprocessing_context='fork'"
            )
        return super().__getstate__()

    # --- loading ---

    def load_into_memory(self) -> None:
        """Reads this worker's part of the files. What was loaded before is released."""
        self.preload_into_memory()
        self.wait_preload_done()

    def preload_into_memory(self, thread_num: int | None = None) -> None:
        """The same in the background; ``wait_preload_done`` waits for it."""
        if thread_num is not None:
            self._threads = checks.whole("thread_num", thread_num, 1, 1024)
        schema = self._check_ready()
        self.release_memory()
        blocks = self._blocks()  # a missing file is told here and now
        self._loading = threading.Thread(target=self._load, args=(schema, blocks), name="flota loading", daemon=True)
        self._loading.start()

    def wait_preload_done(self) -> None:
        """Returns when all is loaded; raises what went wrong."""
        if self._loading is None:
            raise InvalidArgument("nothing is being loaded: call preload_into_memory() first")
        self._loading.join()
        self._loading = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _load(self, schema: Schema, blocks: Iterator[_core.Samples]) -> None:
        _loading.add(threading.current_thread())
        try:
            store = _core.SampleStore(schema.layout)
            for samples in blocks:
                store.append(samples)
            self._store = store
        except BaseException as error:  # raised where it is waited for
            self._error = error
        finally:
            _loading.discard(threading.current_thread())

    def _blocks(self) -> Iterator[_core.Samples]:
        pieces = self._pieces()
        place, places = (0, 1) if self._sharing == "none" else self._place_in_list()
        lanes = min(self._threads, len(pieces))
        return read_blocks(Fixed(len(pieces), lanes, place, places), self._reads(pieces), lanes)

    def release_memory(self) -> None:
        """Gives the memory back."""
        self._check_not_loading()
        if self._store is not None:
            self._store.clear()
        self._store = None
        self._shuffled = 0

    # --- shuffling ---

    def local_shuffle(self, seed: int | None = None) -> None:
        """Another order of this worker's samples, which depends on the seed and on the order before."""
        self._loaded().shuffle(self._next_seed(seed) + workers.current().index)

    def global_shuffle(self, fleet: Any = None, thread_num: int | None = None, *, seed: int | None = None) -> None:
        """Another order of all workers' samples together; every worker calls it. Each sample ends with exactly one
        worker, all have the same number of them (but for one), and the result depends on the seed and the data alone.

        ``fleet`` is where Paddle's scripts name the job; there is one only. ``thread_num`` is refused: one thread sends
        and one receives.
        """
        if thread_num is not None:
            raise InvalidArgument(
                f"thread_num={thread_num} would have no effect: one thread sends and another receives; leave it out"
            )
        store = self._loaded()
        chosen = self._next_seed(seed)
        if workers.current().count == 1:
            store.shuffle(chosen)
        else:
            self._check_all_is_loaded()
            self._store = None
            try:
                self._store = exchange(store, chosen)
            except FlotaError as error:
                raise type(error)(f"global_shuffle: {error}; samples were lost, load the data set again") from error
        self._shuffled = len(self._loaded())

    def _check_all_is_loaded(self) -> None:
        """By now workers can compare their lists: a part by number of a list that others do not have leaves samples
        out."""
        differ = self._lists_differ(workers.current())
        if differ and self._sharing != "none" and not self._own_list:
            raise InvalidArgument(
                "global_shuffle: workers have loaded different lists of files, each its part by number, so that some "
                "samples were loaded by nobody: give all the same list, split it by flota.util.get_file_shard, or say "
                "sharing='none' in init()"
            )

    def slots_shuffle(self, slots: Sequence[str], *, seed: int | None = None) -> None:
        """Gives these slots' values to other samples of this worker, each value to one of them: what a model's test
        loses by it is what those slots are worth to it. Values of several slots stay together."""
        places = {name: (field, position, width) for name, field, position, width in self._check_ready().places()}
        if strange := [name for name in slots if name not in places]:
            raise InvalidArgument(f"there is no slot {strange[0]!r}; there are {', '.join(places)}")
        self._loaded().shuffle_fields([places[name] for name in slots], self._next_seed(seed))

    def _next_seed(self, seed: int | None) -> int:
        self._shuffles += 1
        if seed is not None:
            return checks.whole("seed", seed, 0, (1 << 63) - 1)
        return _SEED + self._shuffles

    # --- reading ---

    def get_memory_data_size(self, fleet: Any = None) -> int:
        """How many samples are in memory: on this worker, or if ``fleet`` is given, on all of them."""
        return self._count(len(self._loaded()), fleet)

    def get_shuffle_data_size(self, fleet: Any = None) -> int:
        """How many of them came out of the last ``global_shuffle``: on this worker, or with ``fleet`` on all."""
        return self._count(self._shuffled, fleet)

    def _count(self, count: int, fleet: Any) -> int:
        if fleet is None:
            return count
        parts = workers.current().gather("data/size", count.to_bytes(8, "little"))
        return sum(int.from_bytes(part, "little") for part in parts)

    @property
    def memory_bytes(self) -> int:
        """Bytes that this worker's samples take."""
        return self._loaded().bytes

    def __len__(self) -> int:
        """Batches of an epoch."""
        return -(-len(self._loaded()) // self._batch_size)

    def __iter__(self) -> Iterator[Any]:
        store, schema, size, shuffles = self._loaded(), self._check_ready(), self._batch_size, self._shuffles
        # A DataLoader's processes take batches in turn.
        loader = torch.utils.data.get_worker_info()
        first, step = (0, 1) if loader is None else (loader.id, loader.num_workers)
        for begin in range(first * size, len(store), step * size):
            if self._store is not store or self._shuffles != shuffles:
                raise InvalidArgument("the data set was released, loaded or shuffled in the middle of an epoch")
            yield schema.batch(store.batch(begin, min(size, len(store) - begin)))

    def _check_not_loading(self) -> None:
        if self._loading is not None:
            raise InvalidArgument("the data set is still being loaded: call wait_preload_done() first")

    def _loaded(self) -> _core.SampleStore:
        self._check_not_loading()
        if self._store is None:
            raise InvalidArgument("the data set is not loaded: call load_into_memory() first")
        return self._store
