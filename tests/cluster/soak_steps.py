"""What workers of the long run do in their steps, and what they tell of it: for them, and for who checks them."""

import struct

import numpy as np

FRESH, OLD = 16, 112  # keys of a step that nobody had before, and of those before
WORKERS = 2

BEGINS = 1  # this step
CONFIRMED = 2  # so many steps are applied for good
GOES_ON = 3  # at this step: those before it are applied for good
RECORD = struct.Struct("<qq")


def record(kind, number):
    return RECORD.pack(kind, number)


def keys_of(rank, step):
    """No key twice: what a server counts of a push is then what it has learnt from."""
    first = (step * WORKERS + rank) * FRESH
    old = np.random.default_rng((rank, step)).integers(0, max(step * WORKERS * FRESH, 1), OLD if step else 0)
    return np.concatenate([np.arange(first, first + FRESH), np.unique(old)])


class Sent:
    """Of each key, how often it was learnt from for sure, and how often at most."""

    def __init__(self, folder):
        self.steps, self.deaths = 0, 0
        self.doubtful = 0  # steps that a worker had begun when it died
        begun, surely = {}, {}
        for rank in range(WORKERS):
            files = sorted(folder.glob(f"steps.{rank}.*"), key=lambda file: int(file.suffix[1:]))
            self.deaths += len(files) - 1
            for file in files:
                self._read(file.read_bytes(), rank, begun, surely)
        self.steps = len(begun)
        most = 1 + max(rank + step * WORKERS for rank, step in begun) if begun else 0
        self.least = np.zeros(most * FRESH, np.int32)
        self.most = np.zeros(most * FRESH, np.int32)
        for (rank, step), times in begun.items():
            sure = surely.get((rank, step), 0)
            self.doubtful += times != sure
            keys = keys_of(rank, step)
            self.most[keys] += times
            self.least[keys] += sure

    def _read(self, data, rank, begun, surely):
        whole = len(data) // RECORD.size * RECORD.size
        begins, confirmed = [], 0
        for kind, number in RECORD.iter_unpack(data[:whole]):
            if kind == BEGINS:
                begins.append(number)
                begun[rank, number] = begun.get((rank, number), 0) + 1
            elif kind == CONFIRMED:
                confirmed = number
            elif number:  # those before it are there, whoever has not lived to say so
                for step in range(number - 1, -1, -1):
                    if surely.get((rank, step)):
                        break
                    surely[rank, step] = 1
        for step in begins:
            if step < confirmed:
                surely[rank, step] = surely.get((rank, step), 0) + 1
