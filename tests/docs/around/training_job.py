# What the page's calls are about.
import torch

import flota
from flota.data.synthetic import Clicks


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = flota.nn.EmbeddingCollection(26, 8)
        self.last = torch.nn.Linear(26 * 8 + 13, 1)

    def forward(self, dense, ids):
        return self.last(torch.cat([self.embedding(ids).flatten(1), dense], dim=1)).squeeze(1)


flota.init()
model = Model()
flota.distributed_optimizer(torch.optim.Adagrad(model.parameters(), lr=0.05))
flota.init_worker()
train, test = Clicks(8000).split()
dataset, test_dataset = list(train.batches(64)), list(test.batches(512))
