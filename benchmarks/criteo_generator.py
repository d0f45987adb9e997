"""The classic reader of Criteo's files as a pipe_command: what every sample costs when Python makes it.

It prints slot text: 13 counts, shifted and scaled, 26 categories, the label.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator

from flota.data.generator import MultiSlotDataGenerator, Sample, Samples

SHIFTS = (0, -3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
SCALES = (20, 603, 100, 50, 64000, 500, 100, 50, 500, 10, 10, 10, 50)
NAMES = ["dense_input", *(f"C{column}" for column in range(1, 27)), "label"]


class CriteoReader(MultiSlotDataGenerator):
    def __init__(self, buckets: int) -> None:
        super().__init__()
        self.buckets = buckets

    def generate_sample(self, line: str | None) -> Samples:
        def samples() -> Iterator[Sample]:
            assert line is not None
            fields = line.rstrip("\n").split("\t")
            dense = []
            for column in range(1, 14):
                text = fields[column]
                dense.append(0.0 if text == "" else (float(text) - SHIFTS[column - 1]) / SCALES[column - 1])
            ids = []
            for column in range(14, 40):
                # The classic reader takes hash(), which is another one in each process.
                ids.append([zlib.crc32((str(column) + fields[column]).encode()) % self.buckets])
            yield list(zip(NAMES, [dense, *ids, [int(fields[0])]], strict=True))

        return samples


if __name__ == "__main__":
    CriteoReader(int(sys.argv[1])).run_from_stdin()
