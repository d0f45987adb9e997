# Names that the page has introduced, and a model.
import torch

import flota
from flota.data import Dense, Features, Label, Sparse

model = torch.nn.Module()
