"""Lines of comma-separated numbers: the features, then the two labels."""

import numpy as np


class RecDataset:
    def __init__(self, file_list, config):
        self.batch_size = config.get("runner.train_batch_size")
        self.file_list = file_list

    def __iter__(self):
        for path in self.file_list:
            with open(path) as lines:
                for line in lines:
                    values = [float(x) for x in line.strip().split(",")]
                    features = np.array(values[:-2]).astype("float32")
                    yield features, np.array([values[-2]]).astype("int64"), np.array([values[-1]]).astype("int64")

    def batches(self):
        batch = []
        for sample in self:
            batch.append(sample)
            if len(batch) == self.batch_size:
                yield [np.stack(column) for column in zip(*batch)]
                batch = []
