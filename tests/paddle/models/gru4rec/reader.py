"""Lines of item ids: sessions."""

import numpy as np


class RecDataset:
    def __init__(self, file_list, config):
        self.file_list = file_list
        self.batch_size = config.get("runner.train_batch_size")

    def sessions(self):
        for path in self.file_list:
            with open(path) as lines:
                for line in lines:
                    yield [int(x) for x in line.split()]

    def batches(self):
        batch = []
        for session in self.sessions():
            batch.append(session)
            if len(batch) == self.batch_size:
                lengths = np.array([len(each) - 1 for each in batch], "int64")
                items = np.zeros([len(batch), lengths.max()], "int64")
                targets = np.zeros([len(batch), lengths.max(), 1], "int64")
                for i, each in enumerate(batch):
                    items[i, : lengths[i]] = each[:-1]
                    targets[i, : lengths[i], 0] = each[1:]
                yield [items, targets, lengths]
                batch = []
