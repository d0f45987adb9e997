"""Clicks that depend on two counts, and a little on the ids."""

import numpy as np
from model import DENSE, IDS, SPARSE

SAMPLES = 1500


def data_reader():
    def read():
        rng = np.random.default_rng(7)
        taste = rng.normal(size=(SPARSE, 20))
        for _ in range(SAMPLES):
            ids = rng.integers(0, 20, SPARSE)
            dense = rng.random(DENSE).astype("float32")
            logit = 12 * (dense[0] - dense[1]) + taste[np.arange(SPARSE), ids].sum() * 0.2
            label = float(rng.random() < 1 / (1 + np.exp(-logit)))
            yield [dense, *[[column * 20 + one] for column, one in enumerate(ids)], [label]]

    return read


assert SPARSE * 20 <= IDS
