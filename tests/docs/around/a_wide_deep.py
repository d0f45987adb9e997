# What the README's first script takes for granted: a model and data.
import torch

import flota
from flota.data.synthetic import Clicks


class WideDeep(torch.nn.Module):
    def __init__(self, embedding):
        super().__init__()
        self.embedding = embedding
        self.last = torch.nn.Linear(26 * 10 + 13, 1)

    def forward(self, batch):
        return self.last(torch.cat([self.embedding(batch.ids).flatten(1), batch.dense], dim=1)).squeeze(1)


loader = list(Clicks(4096).batches(256))
loss_fn = torch.nn.BCEWithLogitsLoss()
