import numpy as np
from click_data import read

from paddle.io import IterableDataset


class RecDataset(IterableDataset):
    def __init__(self, file_list, config):
        super(RecDataset, self).__init__()
        self.file_list = file_list

    def __iter__(self):
        for file in self.file_list:
            with open(file, "r") as rf:
                for line in rf:
                    label, counts, ids = read(line)
                    output_list = [np.array([label]).astype("int64")]
                    output_list += [np.array([each]).astype("int64") for each in ids]
                    output_list.append(np.array(counts).astype("float32"))
                    yield output_list
