"""What models are trained on: data sets of files that all workers share, in several formats, and made-up data of a
known truth."""

from flota.data import synthetic as synthetic
from flota.data.criteo import Criteo, read_criteo
from flota.data.dataset import QueueDataset
from flota.data.features import Batch, Dense, Features, Ignored, Label, Sparse
from flota.data.formats.columnar import Csv, Parquet
from flota.data.formats.trouble import Skipped
from flota.data.generator import MultiSlotDataGenerator, MultiSlotStringDataGenerator
from flota.data.memory import InMemoryDataset
from flota.data.shards import get_file_shard
from flota.data.slots import Slot

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
