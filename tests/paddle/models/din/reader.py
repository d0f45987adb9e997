"""Lines `items;categories;item;category;label`, in batches that are padded to their longest history."""

import numpy as np


class RecDataset:
    def __init__(self, file_list, config):
        self.batch_size = config.get("runner.train_batch_size")
        self.samples = []
        for path in file_list:
            with open(path) as lines:
                for line in lines:
                    items, cats, item, cat, label = line.strip().split(";")
                    pair = [int(x) for x in items.split()], [int(x) for x in cats.split()]
                    self.samples.append((*pair, int(item), int(cat), float(label)))

    def batches(self):
        for start in range(0, len(self.samples) - self.batch_size + 1, self.batch_size):
            yield self.pad(self.samples[start : start + self.batch_size])

    def pad(self, batch):
        longest = max(len(each[0]) for each in batch)

        def padded(values):
            return [v + [0] * (longest - len(v)) for v in values]

        item = np.array(padded([each[0] for each in batch])).astype("int64")
        cat = np.array(padded([each[1] for each in batch])).astype("int64")
        lengths = [len(each[0]) for each in batch]
        mask = np.array([[0] * n + [-1e9] * (longest - n) for n in lengths]).reshape([-1, longest, 1])
        target_item = np.array([each[2] for each in batch]).astype("int64")
        target_cat = np.array([each[3] for each in batch]).astype("int64")
        label = np.array([each[4] for each in batch]).astype("float32").reshape([-1, 1])
        item_seq = np.array([[each[2]] * longest for each in batch]).astype("int64")
        cat_seq = np.array([[each[3]] * longest for each in batch]).astype("int64")
        return [item, cat, target_item, target_cat, label, mask.astype("float32"), item_seq, cat_seq]
