"""The classic reader: counts scaled, categories hashed with the number of their column."""

import sys
from zlib import crc32

import paddle.distributed.fleet as fleet

MINIMUM = [0, -3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
SPREAD = [20, 603, 100, 50, 64000, 500, 100, 50, 500, 10, 10, 10, 50]


class CriteoDataset(fleet.MultiSlotDataGenerator):
    def generate_sample(self, line):
        def reader():
            fields = line.rstrip("\n").split("\t")
            dense = [
                0.0 if text == "" else (float(text) - low) / spread
                for text, low, spread in zip(fields[1:14], MINIMUM, SPREAD, strict=True)
            ]
            ids = [[crc32(f"{i}{text}".encode()) % int(sys.argv[1])] for i, text in enumerate(fields[14:40])]
            names = ["dense_input"] + [f"C{i}" for i in range(1, 27)] + ["label"]
            yield list(zip(names, [dense, *ids, [int(fields[0])]], strict=True))

        return reader


CriteoDataset().run_from_stdin()
