# A model, and a data set of files, in a job that has not begun.
import torch

import flota
from flota.data.synthetic import Clicks

files = Clicks(4000).write("clicks", files=3)


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
dataset = flota.data.read_criteo(files, 128)
loss = torch.nn.BCEWithLogitsLoss()
