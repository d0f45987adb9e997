# The job whose checkpoints the page is about: words with vectors, and a layer.
import torch

import flota

torch.manual_seed(0)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = flota.nn.Embedding(None, 8, name="words", init=flota.initializer.Uniform(-0.1, 0.1))
        self.deep = torch.nn.Linear(8, 1)

    def forward(self, words):
        return self.deep(self.words(words)).squeeze(1)


flota.init()
model = Model()
optimizer = flota.distributed_optimizer(torch.optim.Adagrad(model.named_parameters(), lr=0.05))
flota.init_worker()


def train(steps):
    for _ in range(steps):
        # Some words are common, and some come once.
        words = (torch.rand(32) ** 4 * 4000).long()
        ids = (words * 0x9E3779B97F4A7C15) & 0x7FFFFFFFFFFFFFFF  # as hashes of texts are
        loss = torch.nn.functional.mse_loss(model(ids), (words % 2).float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


train(200)
