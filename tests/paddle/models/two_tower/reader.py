"""Lines `user fields | item fields | popularity`."""

import numpy as np


class RecDataset:
    def __init__(self, file_list, config):
        self.file_list = file_list
        self.batch_size = config.get("runner.train_batch_size")

    def batches(self):
        rows = []
        for path in self.file_list:
            with open(path) as lines:
                for line in lines:
                    user, item, popularity = line.split("|")
                    rows.append(([int(x) for x in user.split()], [int(x) for x in item.split()], [float(popularity)]))
                    if len(rows) == self.batch_size:
                        user, item, popularity = zip(*rows)
                        yield [np.array(user, "int64"), np.array(item, "int64"), np.array(popularity, "float32")]
                        rows = []
