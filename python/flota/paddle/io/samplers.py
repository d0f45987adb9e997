"""Samplers: in which order samples are read, by their numbers.

Chance is numpy's, so that ``numpy.random.seed`` decides the order. It is drawn when a pass begins, in the thread that
begins it: a loader reads ahead in another one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any

import numpy as np

from flota import checks, workers
from flota.errors import InvalidArgument
from flota.paddle.io.datasets import IterableDataset

_MOST = 1 << 40


class Sampler:
    """An order of a data set's numbers. Write ``__iter__``."""

    def __init__(self, data_source: Sized | None = None) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"write {type(self).__name__}.__iter__(self), which yields numbers of samples")

    def _size(self) -> int:
        if self.data_source is None:
            raise InvalidArgument(f"{type(self).__name__} needs data_source: what it takes samples of")
        return len(self.data_source)


class SequenceSampler(Sampler):
    """0, 1, 2, …"""

    def __iter__(self) -> Iterator[int]:
        return iter(range(self._size()))

    def __len__(self) -> int:
        return self._size()


class RandomSampler(Sampler):
    """By chance: each sample once, or with ``replacement`` ``num_samples`` of them. ``generator``: an iterator over
    numbers to be taken instead."""

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Iterator[int] | None = None,
    ) -> None:
        super().__init__(data_source)
        if num_samples is not None and not replacement:
            raise InvalidArgument("RandomSampler: num_samples goes with replacement=True; without, each comes once")
        if num_samples is not None:
            checks.whole("num_samples", num_samples, 1, _MOST)
        self.replacement = replacement
        self.generator = generator
        self._count = num_samples

    @property
    def num_samples(self) -> int:
        return self._size() if self._count is None else self._count

    def __iter__(self) -> Iterator[int]:
        if self.generator is not None:
            return itertools.islice(self.generator, self.num_samples)
        return iter(np.random.choice(np.arange(self._size()), self.num_samples, replace=self.replacement).tolist())

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """These numbers, each once, by chance."""

    def __init__(self, indices: Sequence[int]) -> None:
        super().__init__()
        if not len(indices):
            raise InvalidArgument("SubsetRandomSampler: there are no indices")
        self.indices = indices

    def __iter__(self) -> Iterator[int]:
        return iter([self.indices[place] for place in np.random.permutation(len(self.indices))])

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """By chance, sample i as often as ``weights[i]`` says against the others."""

    def __init__(self, weights: Any, num_samples: int, replacement: bool = True) -> None:
        super().__init__()
        shares = np.asarray(weights, np.float64)
        if shares.ndim != 1 or (shares < 0).any() or not shares.sum() > 0:
            raise InvalidArgument("WeightedRandomSampler: weights must be a row of numbers that are not negative")
        self.weights = weights
        self._shares = shares / shares.sum()
        self.num_samples = checks.whole("num_samples", num_samples, 1, _MOST)
        self.replacement = replacement
        if not replacement and num_samples > (chosen := int((shares > 0).sum())):
            raise InvalidArgument(
                f"WeightedRandomSampler: {num_samples} samples without replacement, and only {chosen} have a weight"
            )

    def __iter__(self) -> Iterator[int]:
        chosen = np.random.choice(len(self._shares), self.num_samples, replace=self.replacement, p=self._shares)
        return iter(chosen.tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler):
    """Lists of ``batch_size`` numbers: of a data set, in its order or by chance (``shuffle``), or of a sampler."""

    def __init__(
        self,
        dataset: Sized | None = None,
        sampler: Sampler | None = None,
        shuffle: bool = False,
        batch_size: int = 1,
        drop_last: bool = False,
    ) -> None:
        super().__init__(dataset)
        if (dataset is None) == (sampler is None):
            raise InvalidArgument("BatchSampler: give one of dataset and sampler")
        if isinstance(dataset, IterableDataset):
            raise InvalidArgument("BatchSampler: an IterableDataset has no numbers: give the loader batch_size")
        if sampler is not None and shuffle:
            raise InvalidArgument("BatchSampler: the sampler decides the order: leave shuffle out")
        if sampler is not None and not isinstance(sampler, Sampler):
            raise InvalidArgument(f"BatchSampler: sampler must be a paddle.io.Sampler, not {sampler!r}")
        self.batch_size = checks.whole("batch_size", batch_size, 1, _MOST)
        self.drop_last = drop_last
        self.shuffle = shuffle
        if sampler is not None:
            self.sampler: Any = sampler
        else:
            assert dataset is not None
            self.sampler = RandomSampler(dataset) if shuffle else SequenceSampler(dataset)

    def __iter__(self) -> Iterator[Any]:
        return _batches(iter(self.sampler), self.batch_size, self.drop_last)

    def __len__(self) -> int:
        return _count(len(self.sampler), self.batch_size, self.drop_last)


class DistributedBatchSampler(BatchSampler):
    """This worker's batches of a data set that all workers read: batch by batch in turn, the same number of samples for
    each; where they do not come out even, the first samples come twice. ``shuffle``: an order that follows from the
    epoch, another in each pass."""

    def __init__(
        self,
        dataset: Sized,
        batch_size: int,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = False,
        drop_last: bool = False,
    ) -> None:
        super().__init__(dataset, batch_size=batch_size, drop_last=drop_last)
        self.dataset = dataset
        self.shuffle = shuffle
        # Before flota.init a process is the one worker of its job.
        team = workers.current()
        self.nranks = team.count if num_replicas is None else checks.whole("num_replicas", num_replicas, 1, 1 << 20)
        self.local_rank = team.index if rank is None else checks.whole("rank", rank, 0, self.nranks - 1)
        self.epoch = 0
        self.num_samples = math.ceil(len(dataset) / self.nranks)
        self.total_size = self.num_samples * self.nranks

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[list[int]]:
        order = np.resize(np.arange(len(self.dataset)), self.total_size)
        if self.shuffle:
            np.random.RandomState(self.epoch).shuffle(order)
            self.epoch += 1
        # Whole batches in turn, then an even part of what is left.
        left = self.num_samples % self.batch_size * self.nranks
        turns = order[: self.total_size - left].reshape(-1, self.nranks, self.batch_size)
        rest = order[self.total_size - left :].reshape(self.nranks, -1)
        own = np.concatenate([turns[:, self.local_rank].reshape(-1), rest[self.local_rank]])
        return _batches(iter(own.tolist()), self.batch_size, self.drop_last)

    def __len__(self) -> int:
        return _count(self.num_samples, self.batch_size, self.drop_last)


def _batches(numbers: Iterable[int], size: int, drop_last: bool) -> Iterator[list[int]]:
    """``numbers`` has been begun already."""
    each = iter(numbers)
    while len(taken := list(itertools.islice(each, size))) == size:
        yield taken
    if taken and not drop_last:
        yield taken


def _count(samples: int, size: int, drop_last: bool) -> int:
    return samples // size if drop_last else -(-samples // size)
