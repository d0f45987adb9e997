# A job that begins with the vectors.
import torch

import flota


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = flota.nn.Embedding(None, 8, name="words")
        self.deep = torch.nn.Linear(8, 1)


flota.init()
model = Model()
flota.distributed_optimizer(torch.optim.Adagrad(model.named_parameters(), lr=0.05))
