"""``DataLoader``: batches of a data set, made ahead by a thread or by processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch.utils.data

from flota import checks
from flota.errors import InvalidArgument
from flota.paddle.ahead import ahead
from flota.paddle.graph.variable import Variable
from flota.paddle.io.collate import as_arrays, as_tensors, as_torch, default_collate_fn
from flota.paddle.io.feeding import DataFeeder, check_places
from flota.paddle.io.generator import GeneratorLoader, shown
from flota.paddle.io.samplers import BatchSampler, RandomSampler, SequenceSampler
from flota.paddle.mode import in_dynamic_mode

_MOST = 1 << 20


class DataLoader:
    """Batches of a data set: the samples' structure, with a tensor of all samples in each place; texts stay a list.

    ``batch_size=None``: each sample as it is. ``batch_sampler`` instead says which samples are a batch. ``collate_fn``
    makes a batch of a list of samples. In a program's script ``return_list=False`` makes feeds for ``feed_list``.

    ``num_workers`` processes make batches, each up to ``prefetch_factor`` ahead; they send them by shared memory or,
    with ``use_shared_memory=False``, by pipes; the loop waits ``timeout`` seconds for one (0: for ever).
    ``persistent_workers`` stay between passes. Without processes a thread is ``prefetch_factor`` batches ahead, and
    with ``use_buffer_reader=False`` a batch is made when it is asked for.
    """

    def __init__(
        self,
        dataset: Any,
        feed_list: Sequence[Variable] | None = None,
        places: Any = None,
        return_list: bool = True,
        batch_sampler: Any = None,
        batch_size: int | None = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        num_workers: int = 0,
        use_buffer_reader: bool = True,
        prefetch_factor: int = 2,
        use_shared_memory: bool = True,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        persistent_workers: bool = False,
    ) -> None:
        check_places("DataLoader", places)
        self.return_list = return_list or in_dynamic_mode()
        if not self.return_list and not feed_list:
            raise InvalidArgument("DataLoader: return_list=False makes feeds: give feed_list, the variables to feed")
        self.feed_list = feed_list
        self.dataset = dataset
        self.num_workers = checks.whole("num_workers", num_workers, 0, 1024)
        checks.whole("prefetch_factor", prefetch_factor, 1, _MOST)
        checks.number("timeout", timeout, 0, 1e9)
        if self.num_workers == 0 and (timeout or persistent_workers):
            raise InvalidArgument("DataLoader: timeout and persistent_workers are for num_workers of 1 and more")
        self._iterated = isinstance(dataset, torch.utils.data.IterableDataset)
        self.batch_sampler = batch_sampler
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.collate_fn = collate_fn or (_as_it_is if batch_size is None else default_collate_fn)
        self._depth = prefetch_factor if use_buffer_reader and not self.num_workers else 0
        self._feeder = DataFeeder(feed_list) if feed_list and not self.return_list else None
        how = self._order(shuffle)
        if self.num_workers:
            how |= {"prefetch_factor": prefetch_factor, "persistent_workers": persistent_workers, "timeout": timeout}
        collate = _Collate(self.collate_fn, as_torch if use_shared_memory else as_arrays)
        self._torch = torch.utils.data.DataLoader(
            dataset, num_workers=self.num_workers, collate_fn=collate, worker_init_fn=worker_init_fn, **how
        )

    @staticmethod
    def from_generator(
        feed_list: Sequence[Variable] | None = None,
        capacity: int | None = None,
        use_double_buffer: bool = True,
        iterable: bool = True,
        return_list: bool = False,
        use_multiprocess: bool = False,
        drop_last: bool = True,
    ) -> GeneratorLoader:
        """A loader of what a generator yields. ``drop_last`` is about devices that would get no batch: there is one."""
        if use_multiprocess:
            raise InvalidArgument(
                "from_generator: use_multiprocess would have no effect: a thread runs the generator. Make the samples "
                "in processes by a DataLoader with num_workers, or by paddle.reader.multiprocess_reader"
            )
        return GeneratorLoader(feed_list, capacity, use_double_buffer, iterable, return_list)

    def _order(self, shuffle: bool) -> dict[str, Any]:
        """Which samples are read when, and which of them are a batch."""
        if self._iterated and (shuffle or self.batch_sampler is not None):
            raise InvalidArgument(
                "DataLoader: an IterableDataset decides its order: leave shuffle and batch_sampler out"
            )
        if self.batch_sampler is not None:
            if self.batch_size != 1 or shuffle or self.drop_last:
                raise InvalidArgument(
                    "DataLoader: batch_sampler decides batch_size, shuffle and drop_last: leave them out"
                )
            self.batch_size = getattr(self.batch_sampler, "batch_size", None)
            return {"batch_sampler": self.batch_sampler}
        if self.batch_size is None:
            if self.drop_last:
                raise InvalidArgument("DataLoader: drop_last is about batches, and batch_size=None makes none")
            sampler = None if self._iterated else (RandomSampler if shuffle else SequenceSampler)(self.dataset)
            return {"batch_size": None, "sampler": sampler}
        checks.whole("batch_size", self.batch_size, 1, _MOST)
        if self._iterated:
            return {"batch_size": self.batch_size, "drop_last": self.drop_last}
        self.batch_sampler = BatchSampler(
            self.dataset, shuffle=shuffle, batch_size=self.batch_size, drop_last=self.drop_last
        )
        return {"batch_sampler": self.batch_sampler}

    def __iter__(self) -> Iterator[Any]:
        return self._made(iter(self._torch))  # which draws the order, in this thread

    def _made(self, read: Any) -> Iterator[Any]:
        batches = ahead(lambda: read, self._depth) if self._depth else read
        try:
            if self._feeder is None:
                yield from map(as_tensors, batches)
            else:
                yield from shown(map(self._feeder.feed_batch, batches), return_list=False)
        finally:
            # An error keeps torch's iterator in a cycle, and its processes, which then take seconds to end.
            if self.num_workers and not self._torch.persistent_workers:
                read._shutdown_workers()

    def __call__(self) -> Iterator[Any]:
        return iter(self)

    def __len__(self) -> int:
        if self._iterated:
            raise TypeError("DataLoader: an IterableDataset has no length")
        return len(self.dataset) if self.batch_sampler is None else len(self.batch_sampler)


class _Collate:
    """Makes a batch, in the process that reads it, and prepares it for the way to the loop."""

    def __init__(self, collate: Callable[[Any], Any], send: Callable[[Any], Any]) -> None:
        self._collate = collate
        self._send = send

    def __call__(self, samples: Any) -> Any:
        return self._send(self._collate(samples))


def _as_it_is(sample: Any) -> Any:
    return sample
