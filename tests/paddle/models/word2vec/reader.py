"""Lines of word ids. A sample is a word, one beside it, and words that are drawn by how often they are."""

import numpy as np


class Word2VecReader:
    def __init__(self, path, dict_size, window_size=2, neg_num=5, seed=7):
        with open(path) as lines:
            self.sentences = [[int(word) for word in line.split()] for line in lines]
        self.window_size, self.neg_num, self.seed = window_size, neg_num, seed
        counts = np.bincount([word for each in self.sentences for word in each], minlength=dict_size)
        power = np.float_power(counts, 0.75)
        self.cdf = np.cumsum(power / power.sum())

    def train(self):
        def nce_reader():
            random = np.random.RandomState(self.seed)
            for sentence in self.sentences:
                for i, target in enumerate(sentence):
                    reach = random.randint(1, self.window_size + 1)
                    around = sentence[max(0, i - reach) : i] + sentence[i + 1 : i + 1 + reach]
                    for context in around:
                        negatives = np.searchsorted(self.cdf, random.rand(self.neg_num))
                        yield [target], [context], negatives.clip(max=len(self.cdf) - 1).tolist()

        return nce_reader
