import numpy as np
from click_data import read

import paddle


class RecDataset(paddle.io.Dataset):
    """All samples, by number."""

    def __init__(self, files, config):
        super().__init__()
        self.samples = []
        for path in files:
            with open(path) as file:
                self.samples += [read(line) for line in file]

    def __getitem__(self, index):
        label, counts, ids = self.samples[index]
        return np.array(ids, "int64"), np.array(counts, "float32"), np.array([label], "float32")

    def __len__(self):
        return len(self.samples)
