"""Made-up clicks: a label, counts, and an id for each of some slots, as `name:value` separated by spaces."""

import os

import numpy as np

DENSE, SLOTS, IDS = 5, 8, 100


def write(folder, files=2, lines=160):
    random = np.random.RandomState(7)
    taste = random.randn(SLOTS, IDS)
    for number in range(files):
        with open(os.path.join(folder, "part-%d" % number), "w") as file:
            for _ in range(lines):
                counts, ids = random.rand(DENSE), random.randint(1, IDS, SLOTS)
                score = counts.sum() - DENSE / 2 + taste[np.arange(SLOTS), ids].sum() / 2
                fields = ["click:%d" % (random.rand() < 1 / (1 + np.exp(-score)))]
                fields += ["dense_feature:%.4f" % count for count in counts]
                fields += ["%d:%d" % (slot + 1, each) for slot, each in enumerate(ids)]
                file.write(" ".join(fields) + "\n")


def read(line):
    """A line's label, counts and ids."""
    fields = [field.split(":") for field in line.split()]
    counts = [float(value) for name, value in fields if name == "dense_feature"]
    ids = [int(value) for name, value in fields if name.isdigit()]
    return int(fields[0][1]), counts, ids
