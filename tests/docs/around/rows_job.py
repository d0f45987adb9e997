# A model whose rows have to be let in, and one batch.
import torch

import flota
from flota.data.synthetic import Clicks


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = flota.nn.EmbeddingCollection(26, 8, admission=flota.admission.ShowClick(threshold=2.0))
        self.last = torch.nn.Linear(26 * 8, 1)

    def forward(self, batch):
        return self.last(self.embedding(batch.ids).flatten(1)).squeeze(1)


flota.init()
model = Model()
optimizer = flota.distributed_optimizer(torch.optim.Adagrad(model.parameters(), lr=0.05))
flota.init_worker()
(batch,) = Clicks(64).batches(64)
labels = batch.label
