"""What models are trained on: data sets of files that all workers share, in several formats, and made-up data of a
known truth."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flota.lazy import lazily

if TYPE_CHECKING:
    from flota.data import synthetic as synthetic
    from flota.data.criteo import Criteo as Criteo
    from flota.data.criteo import read_criteo as read_criteo
    from flota.data.dataset import QueueDataset as QueueDataset
    from flota.data.features import Batch as Batch
    from flota.data.features import Dense as Dense
    from flota.data.features import Features as Features
    from flota.data.features import Ignored as Ignored
    from flota.data.features import Label as Label
    from flota.data.features import Sparse as Sparse
    from flota.data.formats.columnar import Csv as Csv
    from flota.data.formats.columnar import Parquet as Parquet
    from flota.data.formats.trouble import Skipped as Skipped
    from flota.data.generator import MultiSlotDataGenerator as MultiSlotDataGenerator
    from flota.data.generator import MultiSlotStringDataGenerator as MultiSlotStringDataGenerator
    from flota.data.memory import InMemoryDataset as InMemoryDataset
    from flota.data.shards import get_file_shard as get_file_shard
    from flota.data.slots import Slot as Slot

# Looked up on first use: a data generator runs in a process for each file, and must not pay for importing torch.
_PUBLIC = {
    "Batch": "flota.data.features",
    "Criteo": "flota.data.criteo",
    "Csv": "flota.data.formats.columnar",
    "Dense": "flota.data.features",
    "Features": "flota.data.features",
    "Ignored": "flota.data.features",
    "InMemoryDataset": "flota.data.memory",
    "Label": "flota.data.features",
    "MultiSlotDataGenerator": "flota.data.generator",
    "MultiSlotStringDataGenerator": "flota.data.generator",
    "Parquet": "flota.data.formats.columnar",
    "QueueDataset": "flota.data.dataset",
    "Skipped": "flota.data.formats.trouble",
    "Slot": "flota.data.slots",
    "Sparse": "flota.data.features",
    "get_file_shard": "flota.data.shards",
    "read_criteo": "flota.data.criteo",
    "synthetic": None,
}

__all__ = [
    "Batch",
    "Criteo",
    "Csv",
    "Dense",
    "Features",
    "Ignored",
    "InMemoryDataset",
    "Label",
    "MultiSlotDataGenerator",
    "MultiSlotStringDataGenerator",
    "Parquet",
    "QueueDataset",
    "Skipped",
    "Slot",
    "Sparse",
    "get_file_shard",
    "read_criteo",
    "synthetic",
]


__getattr__, __dir__ = lazily("flota.data", _PUBLIC)
