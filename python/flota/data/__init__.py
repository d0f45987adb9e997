"""What models are trained on: files and each worker's share of them, click logs, and made-up data of a known truth."""

from flota.data import synthetic as synthetic
from flota.data.criteo import Batch, read_criteo
from flota.data.shards import get_file_shard

__all__ = ["Batch", "get_file_shard", "read_criteo", "synthetic"]
