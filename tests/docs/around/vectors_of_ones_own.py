# Another such job, with vectors that the script has.
import torch

import flota

flota.init()
model = torch.nn.Module()
model.words = flota.nn.Embedding(None, 8, name="words")
flota.distributed_optimizer(torch.optim.Adagrad(model.parameters(), lr=0.05))
keys, vectors = torch.arange(3), torch.rand(3, 8)
