"""Reading Criteo's files into batches of 512 tensors, by six ways, taking turns on the same files.

- criteo: the native reader
- slots: slot text in the files, pipe_command="cat"
- pipe: a Python MultiSlotDataGenerator as pipe_command
- pyarrow: pyarrow.csv, and the same hashing in numpy
- pandas: pandas.read_csv, and the same hashing in numpy
- python: a loop over lines

Those that know threads have two. Bars for criteo: 1.5 times pyarrow, 20 times pipe, 400,000 samples a second.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import torch
from criteo_generator import NAMES, SCALES, SHIFTS

from flota.data import Batch, QueueDataset, Slot, read_criteo
from flota.data.criteo import DENSE, FEATURES
from flota.data.synthetic import Clicks
from flota.data.synthetic.planted import GOLDEN, mix

BATCH, BUCKETS, FILES = 512, 10_000_001, 8
COLUMNS = ["label", *(f"I{column}" for column in range(1, 14)), *(f"C{column}" for column in range(1, 27))]
SLOTS = [Slot("dense_input", (DENSE,), "float32"), *(Slot(name, (1,)) for name in NAMES[1:])]

_MASKS = np.array([(1 << 8 * length) - 1 for length in range(9)], dtype=np.uint64)


# --- the hashing, in numpy, for texts of up to eight bytes ---


def hash_words(salt: int, words: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    hashes = np.full(len(words), salt, dtype=np.uint64)
    hashes = np.where(lengths > 0, mix(hashes ^ words), hashes)
    return mix(hashes + lengths.astype(np.uint64) * GOLDEN)


def hash_arrow(column: Any, salt: int) -> np.ndarray:
    """Ids of a column of texts: eight bytes are taken from where each begins, and what is too much is cut off."""
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    padded = np.frombuffer(data.to_pybytes() + bytes(8), np.uint8)
    at_every_byte = np.ndarray(len(padded) - 7, "<u8", padded, strides=(1,))
    lengths = np.diff(ends)
    return (hash_words(salt, at_every_byte[ends[:-1]] & _MASKS[lengths], lengths) % np.uint64(BUCKETS)).view(np.int64)


def hash_object(column: np.ndarray, salt: int) -> np.ndarray:
    texts = column.astype("S8")
    words = texts.view("<u8").astype(np.uint64)
    return (hash_words(salt, words, np.char.str_len(texts)) % np.uint64(BUCKETS)).view(np.int64)


def salts() -> list[int]:
    from flota import _core

    return [_core.hash_text(0, f"C{column}".encode()) for column in range(1, FEATURES + 1)]


def in_batches(dense: np.ndarray, ids: np.ndarray, label: np.ndarray) -> Iterator[Batch]:
    for begin in range(0, len(label), BATCH):
        part = slice(begin, begin + BATCH)
        yield Batch(*(torch.from_numpy(column[part]) for column in (dense, ids, label)))


# --- the six ways ---


def criteo(files: list[str]) -> Iterable[Batch]:
    return read_criteo(files, BATCH, 2, buckets=BUCKETS)


def slots(files: list[str]) -> Iterable[Any]:
    dataset = QueueDataset()
    dataset.init(BATCH, 2, use_var=SLOTS, pipe_command="cat")
    dataset.set_filelist([f"{file}.slots" for file in files])
    return dataset


def pipe(files: list[str]) -> Iterable[Any]:
    dataset = QueueDataset()
    script = Path(__file__).with_name("criteo_generator.py")
    dataset.init(BATCH, 2, use_var=SLOTS, pipe_command=f"{sys.executable} {script} {BUCKETS}")
    dataset.set_filelist(files)
    return dataset


def with_pyarrow(files: list[str]) -> Iterator[Batch]:
    types = {name: pa.float64() for name in COLUMNS[:14]} | {name: pa.string() for name in COLUMNS[14:]}
    seeds = salts()
    for file in files:
        table = pyarrow.csv.read_csv(
            file,
            read_options=pyarrow.csv.ReadOptions(column_names=COLUMNS),
            parse_options=pyarrow.csv.ParseOptions(delimiter="\t", quote_char=False),
            convert_options=pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=False),
        ).combine_chunks()
        counts = [table.column(name).fill_null(0.0).to_numpy() for name in COLUMNS[1:14]]
        dense = np.stack(
            [(c - s) / d for c, s, d in zip(counts, SHIFTS, SCALES, strict=True)], axis=1, dtype=np.float32
        )
        texts = [table.column(name).chunk(0) for name in COLUMNS[14:]]
        ids = np.stack([hash_arrow(text, seed) for text, seed in zip(texts, seeds, strict=True)], axis=1)
        yield from in_batches(dense, ids, table.column("label").to_numpy().astype(np.float32))


def with_pandas(files: list[str]) -> Iterator[Batch]:
    import pandas as pd

    seeds = salts()
    kinds = dict.fromkeys(COLUMNS[:14], "float64") | dict.fromkeys(COLUMNS[14:], "object")
    for file in files:
        frame = pd.read_csv(file, sep="\t", names=COLUMNS, dtype=kinds, keep_default_na=True)
        counts = frame[COLUMNS[1:14]].fillna(0.0).to_numpy()
        dense = ((counts - np.array(SHIFTS)) / np.array(SCALES)).astype(np.float32)
        texts = [frame[name].fillna("").to_numpy() for name in COLUMNS[14:]]
        ids = np.stack([hash_object(text, seed) for text, seed in zip(texts, seeds, strict=True)], axis=1)
        yield from in_batches(dense, ids, frame["label"].to_numpy().astype(np.float32))


def with_python(files: list[str]) -> Iterator[Batch]:
    import zlib

    rows: list[tuple[list[float], list[int], float]] = []

    def batch() -> Batch:
        dense, ids, label = zip(*rows, strict=True)
        rows.clear()
        return Batch(torch.tensor(dense), torch.tensor(ids), torch.tensor(label))

    for file in files:
        with open(file) as stream:
            for line in stream:
                fields = line.rstrip("\n").split("\t")
                dense = [(float(text or 0) - s) / d for text, s, d in zip(fields[1:14], SHIFTS, SCALES, strict=True)]
                ids = [zlib.crc32(f"{n}{text}".encode()) % BUCKETS for n, text in enumerate(fields[14:])]
                rows.append((dense, ids, float(fields[0])))
                if len(rows) == BATCH:
                    yield batch()
    if rows:
        yield batch()


# How a way reads files, and of how many of them: the slow ones would take minutes for all.
WAYS: dict[str, tuple[Callable[[list[str]], Iterable[Any]], int]] = {
    "criteo": (criteo, FILES),
    "slots": (slots, FILES),
    "pipe": (pipe, 2),
    "pyarrow": (with_pyarrow, FILES),
    "pandas": (with_pandas, 2),
    "python": (with_python, 1),
}
BARS = {"pyarrow": 1.5, "pipe": 20.0}


def count(batch: Any) -> int:
    return len(batch["label"] if isinstance(batch, dict) else batch.label)


def measure(way: str, files: list[str]) -> tuple[float, float]:
    """(samples a second, microseconds of a core for each)"""
    read, some = WAYS[way]
    before = os.times()
    began = time.perf_counter()
    samples = sum(count(batch) for batch in read(files[:some]))
    seconds = time.perf_counter() - began
    cores = sum(os.times()[:4]) - sum(before[:4])
    return samples / seconds, cores / samples * 1e6


def write(folder: str, rows: int) -> list[str]:
    """The files, and the same as slot text."""
    paths = Clicks(rows).write(folder, files=FILES)
    for path in paths:
        with open(f"{path}.slots", "w") as out:
            for dense, ids, label in read_criteo(path, 8192, buckets=BUCKETS, sharing="none"):
                for numbers, keys, one in zip(dense.tolist(), ids.tolist(), label.tolist(), strict=True):
                    values = " ".join(f"{number:.6g}" for number in numbers)
                    out.write(f"{DENSE} {values} {' '.join(f'1 {key}' for key in keys)} 1 {int(one)}\n")
    return list(map(str, paths))


def check(files: list[str]) -> None:
    """All that hash the same way make the same batches."""
    ours = next(iter(read_criteo(files, BATCH, buckets=BUCKETS, sharing="none")))
    for other in (next(with_pyarrow(files)), next(with_pandas(files))):
        for mine, theirs in zip(ours, other, strict=True):
            torch.testing.assert_close(mine, theirs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=400_000)
    arguments = parser.parse_args()
    best = dict.fromkeys(WAYS, (0.0, 0.0))
    with tempfile.TemporaryDirectory() as folder:
        files = write(folder, arguments.rows)
        check(files)
        for _ in range(arguments.rounds):
            for way in WAYS:
                best[way] = max(best[way], measure(way, files))
    native = best["criteo"][0]
    for way, (speed, cost) in best.items():
        bar = f" (bar {BARS[way]:g})" if way in BARS else ""
        print(f"{way:8} {speed:10,.0f} samples/s, {cost:6.2f} µs of a core each; criteo is {native / speed:.2f} x{bar}")
    speeds = {way: round(speed) for way, (speed, _) in best.items()}
    print(json.dumps({"benchmark": "read_criteo", "samples_a_second": speeds}))


if __name__ == "__main__":
    main()
