"""The data that the listing leaves out."""

import numpy as np
from model import DENSE, SPARSE


class WideDeepDataset:
    def __init__(self, data_path):
        self.samples = 3000

    def __call__(self):
        rng = np.random.default_rng(7)
        for _ in range(self.samples):
            ids = rng.integers(0, 30, SPARSE)
            dense = rng.random(DENSE).astype("float32")
            label = float(rng.random() < 1 / (1 + np.exp(-12 * (dense[0] - dense[1]))))
            yield [dense, *[[column * 30 + one] for column, one in enumerate(ids)], [label]]
