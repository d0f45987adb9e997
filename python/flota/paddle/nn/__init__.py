"""``paddle.nn``: layers."""

import flota.paddle.initializer as initializer
import flota.paddle.ops  # noqa: F401 (layers call operations by their names)
from flota.paddle.clip import ClipGradByGlobalNorm, ClipGradByNorm, ClipGradByValue
from flota.paddle.nn import functional
from flota.paddle.nn.activation import (
    ELU,
    GELU,
    LeakyReLU,
    LogSoftmax,
    PReLU,
    ReLU,
    Sigmoid,
    Silu,
    Softmax,
    Softplus,
    Swish,
    Tanh,
)
from flota.paddle.nn.common import Dropout, Embedding, Flatten, Identity, Linear
from flota.paddle.nn.container import LayerDict, LayerList, ParameterList, Sequential
from flota.paddle.nn.conv import AvgPool2D, Conv1D, Conv2D, MaxPool2D
from flota.paddle.nn.layer import Layer
from flota.paddle.nn.loss import BCELoss, BCEWithLogitsLoss, CrossEntropyLoss, L1Loss, MSELoss
from flota.paddle.nn.norm import BatchNorm, BatchNorm1D, BatchNorm2D, LayerNorm
from flota.paddle.nn.rnn import GRU, LSTM, RNN, BiRNN, GRUCell, LSTMCell, RNNCellBase, SimpleRNN, SimpleRNNCell

__all__ = [
    "ELU",
    "GELU",
    "GRU",
    "LSTM",
    "RNN",
    "AvgPool2D",
    "BCELoss",
    "BCEWithLogitsLoss",
    "BatchNorm",
    "BatchNorm1D",
    "BatchNorm2D",
    "BiRNN",
    "ClipGradByGlobalNorm",
    "ClipGradByNorm",
    "ClipGradByValue",
    "Conv1D",
    "Conv2D",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "Flatten",
    "GRUCell",
    "Identity",
    "L1Loss",
    "LSTMCell",
    "Layer",
    "LayerDict",
    "LayerList",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LogSoftmax",
    "MSELoss",
    "MaxPool2D",
    "PReLU",
    "ParameterList",
    "RNNCellBase",
    "ReLU",
    "Sequential",
    "Sigmoid",
    "Silu",
    "SimpleRNN",
    "SimpleRNNCell",
    "Softmax",
    "Softplus",
    "Swish",
    "Tanh",
    "functional",
    "initializer",
]
