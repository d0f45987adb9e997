"""Data sets in Python: samples by number, or one after the other."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch.utils.data

from flota.errors import InvalidArgument


class Dataset(torch.utils.data.Dataset[Any]):
    """Samples by number. Write ``__getitem__`` and ``__len__``."""

    def __getitem__(self, idx: Any) -> Any:
        raise NotImplementedError(f"write {type(self).__name__}.__getitem__(self, idx), which returns a sample")

    def __len__(self) -> int:
        raise NotImplementedError(f"write {type(self).__name__}.__len__(self), which returns the number of samples")


class IterableDataset(Dataset, torch.utils.data.IterableDataset[Any]):
    """Samples one after the other. Write ``__iter__``; in a loader's process ``get_worker_info()`` says which part is
    that process's."""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"write {type(self).__name__}.__iter__(self), which yields samples")

    def __getitem__(self, idx: Any) -> Any:
        raise RuntimeError(f"{type(self).__name__} is iterated over: its samples have no numbers")

    # list() asks for a length, and takes this error for an answer.
    def __len__(self) -> int:
        raise TypeError(f"{type(self).__name__} is iterated over: it has no length")


class TensorDataset(Dataset):
    """Sample i is row i of each tensor."""

    def __init__(self, tensors: Sequence[Any]) -> None:
        if len({len(tensor) for tensor in tensors}) != 1:
            raise InvalidArgument(
                f"TensorDataset: tensors must have the same number of rows, not {[len(tensor) for tensor in tensors]}"
            )
        self.tensors = tensors

    def __getitem__(self, idx: Any) -> tuple[Any, ...]:
        return tuple(tensor[idx] for tensor in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0])


class ComposeDataset(Dataset):
    """The fields of several data sets side by side."""

    def __init__(self, datasets: Sequence[Dataset]) -> None:
        self.datasets = _by_number("ComposeDataset", datasets)
        if len({len(dataset) for dataset in self.datasets}) > 1:
            raise InvalidArgument(
                f"ComposeDataset: data sets must have the same length, not {[len(each) for each in self.datasets]}"
            )

    def __getitem__(self, idx: Any) -> tuple[Any, ...]:
        samples = (dataset[idx] for dataset in self.datasets)
        return tuple(
            itertools.chain.from_iterable(
                sample if isinstance(sample, (list, tuple)) else (sample,) for sample in samples
            )
        )

    def __len__(self) -> int:
        return len(self.datasets[0])


class ChainDataset(IterableDataset):
    """The samples of data sets that are iterated over, one after the other."""

    def __init__(self, datasets: Sequence[IterableDataset]) -> None:
        self.datasets = list(datasets)
        if not self.datasets or not all(isinstance(each, IterableDataset) for each in self.datasets):
            raise InvalidArgument("ChainDataset takes IterableDatasets, one or more; ConcatDataset takes the others")

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(self.datasets)


class ConcatDataset(Dataset):
    """The samples of several data sets in one row of numbers."""

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self.datasets = _by_number("ConcatDataset", datasets)
        self.cumulative_sizes = list(itertools.accumulate(len(dataset) for dataset in self.datasets))

    def __getitem__(self, idx: int) -> Any:
        number = idx + len(self) if idx < 0 else idx
        if not 0 <= number < len(self):
            raise IndexError(f"there is no sample {idx}; there are {len(self)}")
        which = bisect.bisect_right(self.cumulative_sizes, number)
        return self.datasets[which][number - (self.cumulative_sizes[which - 1] if which else 0)]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]


class Subset(Dataset):
    """Some samples of a data set, by their numbers."""

    def __init__(self, dataset: Dataset, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, idx: int) -> Any:
        return self.dataset[self.indices[idx]]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Dataset, lengths: Sequence[int], generator: Any = None) -> list[Subset]:
    """Parts of these lengths, each sample in one of them, by chance."""
    if sum(lengths) != len(dataset):
        raise InvalidArgument(f"random_split: lengths add up to {sum(lengths)}, and there are {len(dataset)} samples")
    if generator is not None and not isinstance(generator, torch.Generator):
        raise InvalidArgument(f"random_split: generator is one of torch's, as paddle.seed returns, not {generator!r}")
    order = torch.randperm(len(dataset), generator=generator).tolist()
    ends = itertools.accumulate(lengths)
    return [Subset(dataset, order[end - length : end]) for end, length in zip(ends, lengths, strict=True)]


def _by_number(what: str, datasets: Iterable[Dataset]) -> list[Dataset]:
    found = list(datasets)
    if not found:
        raise InvalidArgument(f"{what}: there are no data sets")
    if any(isinstance(each, IterableDataset) for each in found):
        raise InvalidArgument(f"{what}: an IterableDataset has no numbers: use ChainDataset")
    return found
