"""The reader of document 004: one line of Criteo's text, one sample."""

import sys
import zlib

import flota.data

CONT_MIN = [0, -3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
CONT_DIFF = [20, 603, 100, 50, 64000, 500, 100, 50, 500, 10, 10, 10, 50]


class CriteoDataset(flota.data.MultiSlotDataGenerator):
    def __init__(self, hash_dim):
        super().__init__()
        self.hash_dim = hash_dim

    def generate_sample(self, line):
        def reader():
            features = line.rstrip("\n").split("\t")
            dense = [
                (float(text) - CONT_MIN[index]) / CONT_DIFF[index] if text else 0.0
                for index, text in enumerate(features[1:14])
            ]
            sparse = [
                [zlib.crc32(f"{index}{text}".encode()) % self.hash_dim] for index, text in enumerate(features[14:])
            ]
            names = ["dense_input", *(f"C{index}" for index in range(1, 27)), "label"]
            yield list(zip(names, [dense, *sparse, [int(features[0])]], strict=True))

        return reader


if __name__ == "__main__":
    CriteoDataset(int(sys.argv[1])).run_from_stdin()
