"""What models are trained on: data sets of files that all workers share, in several formats, and made-up data of a
known truth."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
    "Batch": "features",
    "Criteo": "criteo",
    "Csv": "formats.columnar",
    "Dense": "features",
    "Features": "features",
    "Ignored": "features",
    "InMemoryDataset": "memory",
    "Label": "features",
    "MultiSlotDataGenerator": "generator",
    "MultiSlotStringDataGenerator": "generator",
    "Parquet": "formats.columnar",
    "QueueDataset": "dataset",
    "Skipped": "formats.trouble",
    "Slot": "slots",
    "Sparse": "features",
    "get_file_shard": "shards",
    "read_criteo": "criteo",
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


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'flota.data' has no attribute '{name}'")
    home = _PUBLIC[name]
    value = import_module(f"flota.data.{home or name}")
    globals()[name] = value if home is None else getattr(value, name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
