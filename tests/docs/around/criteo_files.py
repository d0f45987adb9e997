# The two files, of which one is in an object store: here a place in memory that has its name.
import gzip
from pathlib import Path

import fsspec
from fsspec.implementations.memory import MemoryFileSystem

from flota.data.synthetic import Clicks

Clicks(1000).write("raw_data")
fsspec.register_implementation("s3", MemoryFileSystem, clobber=True)
with fsspec.open("s3://bucket/part-1.gz", "wb") as file:
    file.write(gzip.compress(Path("raw_data/part-0").read_bytes()))
