"""Writes golden/layers.npz and golden/layers.json: what the reference's layers compute, and how they are made.

    GLOG_minloglevel=3 python tests/paddle/make_layer_goldens.py     # where paddlepaddle 2.6.2 is

The JSON has the cases with their arguments, so that the test builds the same layers; the arrays are inputs, parameters,
outputs, and the gradients of the outputs' sum weighted by ``cos(0), cos(1), …``.
"""

import inspect
import json
import zlib
from pathlib import Path

import numpy as np

import paddle

GOLDEN = Path(__file__).parent / "golden"


def real(*shape):
    return {"kind": "real", "shape": shape}


def share(*shape):
    """Probabilities, away from 0 and 1."""
    return {"kind": "share", "shape": shape}


def simplex(*shape):
    return {"kind": "simplex", "shape": shape}


def bits(*shape):
    return {"kind": "bits", "shape": shape}


def whole(high, *shape, low=0):
    return {"kind": "whole", "shape": shape, "high": high, "low": low}


def case(layer, inputs, keywords=None, evaluate=False, batch=True, **arguments):
    """``inputs``: of forward; ``keywords``: those by name; ``batch``: their first side is the batch's."""
    return {
        "layer": layer,
        "inputs": inputs,
        "keywords": keywords or {},
        "evaluate": evaluate,
        "batch": batch,
        "arguments": arguments,
    }


CASES = {
    "linear": case("Linear", [real(4, 3)], in_features=3, out_features=5),
    "linear_without_bias": case("Linear", [real(4, 2, 3)], in_features=3, out_features=5, bias_attr=False),
    "embedding": case("Embedding", [whole(7, 4, 3)], num_embeddings=7, embedding_dim=5),
    "embedding_padded": case("Embedding", [whole(4, 6, 2)], num_embeddings=4, embedding_dim=3, padding_idx=-1),
    "dropout_evaluated": case("Dropout", [real(4, 3)], evaluate=True, p=0.4),
    "dropout_downscaled": case("Dropout", [real(4, 3)], evaluate=True, p=0.4, mode="downscale_in_infer"),
    "batch_norm": case("BatchNorm", [real(6, 3)], num_channels=3),
    "batch_norm_relu": case("BatchNorm", [real(5, 3, 2, 2)], num_channels=3, act="relu", momentum=0.7, epsilon=1e-3),
    "batch_norm_evaluated": case("BatchNorm", [real(6, 3)], evaluate=True, num_channels=3),
    "batch_norm_1d": case("BatchNorm1D", [real(6, 3)], num_features=3),
    "batch_norm_1d_of_sequences": case("BatchNorm1D", [real(4, 3, 5)], num_features=3, momentum=0.5),
    "batch_norm_1d_channels_last": case("BatchNorm1D", [real(4, 5, 3)], num_features=3, data_format="NLC"),
    "batch_norm_1d_evaluated": case("BatchNorm1D", [real(6, 3)], evaluate=True, num_features=3),
    "batch_norm_1d_global": case("BatchNorm1D", [real(6, 3)], num_features=3, use_global_stats=True),
    "batch_norm_1d_own": case("BatchNorm1D", [real(6, 3)], num_features=3, use_global_stats=False),
    "batch_norm_1d_plain": case("BatchNorm1D", [real(6, 3)], num_features=3, weight_attr=False, bias_attr=False),
    "batch_norm_2d": case("BatchNorm2D", [real(4, 3, 2, 2)], num_features=3),
    "layer_norm": case("LayerNorm", [real(4, 3)], normalized_shape=3),
    "layer_norm_of_two": case("LayerNorm", [real(4, 2, 3)], normalized_shape=[2, 3], epsilon=1e-3),
    "layer_norm_plain": case("LayerNorm", [real(4, 3)], normalized_shape=[3], weight_attr=False, bias_attr=False),
    "conv_1d": case("Conv1D", [real(2, 3, 8)], in_channels=3, out_channels=4, kernel_size=3, padding=1, stride=2),
    "conv_1d_last": case("Conv1D", [real(2, 8, 3)], in_channels=3, out_channels=4, kernel_size=3, data_format="NLC"),
    "conv_2d": case("Conv2D", [real(2, 3, 6, 5)], in_channels=3, out_channels=4, kernel_size=[3, 2]),
    "conv_2d_grouped": case(
        "Conv2D", [real(2, 4, 7, 6)], in_channels=4, out_channels=6, kernel_size=3, groups=2, dilation=2, padding=[1, 2]
    ),
    "conv_2d_same": case("Conv2D", [real(2, 2, 6, 7)], in_channels=2, out_channels=3, kernel_size=3, padding="SAME"),
    "conv_2d_ends": case(
        "Conv2D", [real(2, 2, 6, 7)], in_channels=2, out_channels=3, kernel_size=3, padding=[1, 2, 0, 1]
    ),
    "conv_2d_reflected": case(
        "Conv2D",
        [real(2, 2, 6, 7)],
        in_channels=2,
        out_channels=3,
        kernel_size=3,
        padding=2,
        padding_mode="reflect",
    ),
    "conv_2d_last": case(
        "Conv2D", [real(2, 6, 7, 2)], in_channels=2, out_channels=3, kernel_size=3, data_format="NHWC", bias_attr=False
    ),
    "max_pool_2d": case("MaxPool2D", [real(2, 3, 6, 6)], kernel_size=2),
    "max_pool_2d_padded": case("MaxPool2D", [real(2, 3, 7, 6)], kernel_size=3, stride=2, padding=1, ceil_mode=True),
    "avg_pool_2d": case("AvgPool2D", [real(2, 3, 6, 6)], kernel_size=2),
    "avg_pool_2d_padded": case("AvgPool2D", [real(2, 3, 6, 6)], kernel_size=3, stride=2, padding=1),
    "avg_pool_2d_inclusive": case("AvgPool2D", [real(2, 3, 6, 6)], kernel_size=3, padding=1, exclusive=False),
    "gru_cell": case("GRUCell", [real(4, 3), real(4, 5)], input_size=3, hidden_size=5),
    "gru_cell_first": case("GRUCell", [real(4, 3)], input_size=3, hidden_size=5),
    "gru": case("GRU", [real(4, 6, 3)], input_size=3, hidden_size=5),
    "gru_two_ways": case(
        "GRU",
        [real(4, 6, 3), real(4, 4, 5)],
        batch=False,
        input_size=3,
        hidden_size=5,
        num_layers=2,
        direction="bidirect",
    ),
    "gru_by_length": case(
        "GRU",
        [real(4, 6, 3)],
        {"sequence_length": whole(7, 4, low=1)},
        input_size=3,
        hidden_size=5,
        direction="bidirectional",
    ),
    "gru_time_major": case("GRU", [real(6, 4, 3)], batch=False, input_size=3, hidden_size=5, time_major=True),
    "lstm_cell": case("LSTMCell", [real(4, 3)], input_size=3, hidden_size=5),
    "lstm": case("LSTM", [real(4, 6, 3)], input_size=3, hidden_size=5, num_layers=2),
    "lstm_by_length": case(
        "LSTM", [real(4, 6, 3)], {"sequence_length": whole(7, 4, low=1)}, input_size=3, hidden_size=5
    ),
    "simple_rnn": case("SimpleRNN", [real(4, 6, 3)], input_size=3, hidden_size=5, direction="bidirect"),
    "simple_rnn_relu": case("SimpleRNN", [real(4, 6, 3)], input_size=3, hidden_size=5, activation="relu"),
    "attention": case("MultiHeadAttention", [real(4, 5, 6)], embed_dim=6, num_heads=2),
    "attention_masked": case(
        "MultiHeadAttention", [real(4, 5, 6)], {"attn_mask": whole(2, 4, 1, 5, 5)}, embed_dim=6, num_heads=3
    ),
    "attention_to_others": case(
        "MultiHeadAttention",
        [real(4, 5, 6), real(4, 3, 7), real(4, 3, 2), real(4, 2, 5, 3)],
        embed_dim=6,
        num_heads=2,
        kdim=7,
        vdim=2,
        need_weights=True,
    ),
    "encoder_layer": case(
        "TransformerEncoderLayer", [real(4, 5, 6)], d_model=6, nhead=2, dim_feedforward=8, dropout=0.0
    ),
    "encoder_layer_norm_first": case(
        "TransformerEncoderLayer",
        [real(4, 5, 6), real(4, 1, 5, 5)],
        evaluate=True,
        d_model=6,
        nhead=3,
        dim_feedforward=8,
        activation="gelu",
        normalize_before=True,
    ),
    "relu": case("ReLU", [real(4, 3)]),
    "prelu": case("PReLU", [real(4, 3)]),
    "prelu_by_channel": case("PReLU", [real(4, 3, 2)], num_parameters=3),
    "leaky_relu": case("LeakyReLU", [real(4, 3)], negative_slope=0.2),
    "sigmoid": case("Sigmoid", [real(4, 3)]),
    "tanh": case("Tanh", [real(4, 3)]),
    "softmax": case("Softmax", [real(4, 3)]),
    "softmax_along": case("Softmax", [real(4, 3, 2)], axis=1),
    "log_softmax": case("LogSoftmax", [real(4, 3)]),
    "gelu": case("GELU", [real(4, 3)]),
    "gelu_approximate": case("GELU", [real(4, 3)], approximate=True),
    "elu": case("ELU", [real(4, 3)], alpha=0.7),
    "softplus": case("Softplus", [real(4, 3)], beta=2),
    "swish": case("Swish", [real(4, 3)]),
    "silu": case("Silu", [real(4, 3)]),
    "flatten": case("Flatten", [real(4, 3, 2)]),
    "identity": case("Identity", [real(4, 3)]),
    "bce": case("BCELoss", [share(4, 1), bits(4, 1)]),
    "bce_weighted": case("BCELoss", [share(4, 3), bits(4, 3)], weight=share(4, 3), reduction="sum"),
    "bce_with_logits": case("BCEWithLogitsLoss", [real(4, 1), bits(4, 1)]),
    # Without pos_weight: what the reference does with it is not what it documents, and its gradient is another's.
    "bce_with_logits_weighted": case(
        "BCEWithLogitsLoss", [real(4, 3), bits(4, 3)], weight=share(4, 3), reduction="none"
    ),
    "cross_entropy": case("CrossEntropyLoss", [real(5, 4), whole(4, 5)]),
    "cross_entropy_of_columns": case("CrossEntropyLoss", [real(5, 4), whole(4, 5, 1)]),
    "cross_entropy_each": case("CrossEntropyLoss", [real(5, 4), whole(4, 5, 1)], reduction="none"),
    "cross_entropy_each_flat": case("CrossEntropyLoss", [real(5, 4), whole(4, 5)], reduction="none"),
    "cross_entropy_weighted": case("CrossEntropyLoss", [real(5, 4), whole(4, 5)], weight=share(4)),
    "cross_entropy_weighted_sum": case("CrossEntropyLoss", [real(5, 4), whole(4, 5)], weight=share(4), reduction="sum"),
    "cross_entropy_ignoring": case("CrossEntropyLoss", [real(6, 3), whole(3, 6)], ignore_index=1),
    "cross_entropy_soft": case("CrossEntropyLoss", [real(5, 4), simplex(5, 4)], soft_label=True),
    "cross_entropy_soft_each": case(
        "CrossEntropyLoss", [real(5, 4), simplex(5, 4)], soft_label=True, weight=share(4), reduction="none"
    ),
    "cross_entropy_smoothed": case("CrossEntropyLoss", [real(5, 4), whole(4, 5)], label_smoothing=0.1),
    "cross_entropy_of_shares": case("CrossEntropyLoss", [simplex(5, 4), whole(4, 5)], use_softmax=False),
    "cross_entropy_along": case("CrossEntropyLoss", [real(5, 4, 2), whole(4, 5, 2)], axis=1, reduction="none"),
    "mse": case("MSELoss", [real(4, 3), real(4, 3)]),
    "mse_each": case("MSELoss", [real(4, 3), real(4, 3)], reduction="none"),
    "l1": case("L1Loss", [real(4, 3), real(4, 3)], reduction="sum"),
}

# Layers whose first values are looked at: large ones.
DRAWN = {
    "Linear": {"in_features": 300, "out_features": 200},
    "Embedding": {"num_embeddings": 500, "embedding_dim": 60},
    "Conv1D": {"in_channels": 40, "out_channels": 60, "kernel_size": 5},
    "Conv2D": {"in_channels": 40, "out_channels": 60, "kernel_size": 3, "groups": 2},
    "GRU": {"input_size": 50, "hidden_size": 64},
    "LSTM": {"input_size": 50, "hidden_size": 64},
    "SimpleRNN": {"input_size": 50, "hidden_size": 400},
    "BatchNorm1D": {"num_features": 4},
    "LayerNorm": {"normalized_shape": [4, 2]},
    "PReLU": {"num_parameters": 3},
}

SIGNATURES = [*sorted({each["layer"] for each in CASES.values()}), "LayerList", "ParameterList", "Sequential", "RNN"]


def made(spec, random):
    shape = tuple(spec["shape"])
    if spec["kind"] == "whole":
        return random.randint(spec["low"], spec["high"], shape).astype("int64")
    if spec["kind"] == "bits":
        return random.randint(0, 2, shape).astype("float32")
    if spec["kind"] == "share":
        return random.uniform(0.1, 0.9, shape).astype("float32")
    if spec["kind"] == "simplex":
        values = random.uniform(0.1, 1.0, shape)
        return (values / values.sum(-1, keepdims=True)).astype("float32")
    return random.standard_normal(shape).astype("float32")


def flat(outputs):
    if isinstance(outputs, (list, tuple)):
        return [each for output in outputs for each in flat(output)]
    return [outputs]


def weighted_sum(outputs):
    total = 0
    for output in outputs:
        count = int(np.prod(output.shape))
        total = total + (output.reshape([-1]) * paddle.to_tensor(np.cos(np.arange(count)).astype("float32"))).sum()
    return total


def run(name, spec, arrays):
    random = np.random.RandomState(zlib.crc32(name.encode()) % 2**31)
    arguments = dict(spec["arguments"])
    for key, value in arguments.items():
        if isinstance(value, dict):
            arrays[f"{name}/argument/{key}"] = made(value, random)
            arguments[key] = paddle.to_tensor(arrays[f"{name}/argument/{key}"])
    layer = getattr(paddle.nn, spec["layer"])(**arguments)
    about = {
        "name": layer.full_name(),
        "parameters": {path: parameter.name for path, parameter in layer.named_parameters()},
        "state": list(layer.state_dict()),
        "text": repr(layer),
    }
    for path, parameter in layer.named_parameters():
        value = random.uniform(-0.5, 0.5, parameter.shape).astype("float32")
        value = np.abs(value) + np.float32(0.5) if path.endswith("_variance") else value
        parameter.set_value(value)
        arrays[f"{name}/parameter/{path}"] = value
    if spec["evaluate"]:
        layer.eval()
    inputs, keywords = [], {}
    for number, each in enumerate(spec["inputs"]):
        arrays[f"{name}/input/{number}"] = value = made(each, random)
        trained = value.dtype == np.float32 and (number == 0 or each["kind"] == "real")
        inputs.append(paddle.to_tensor(value, stop_gradient=not trained))
    for key, each in spec["keywords"].items():
        arrays[f"{name}/keyword/{key}"] = made(each, random)
        keywords[key] = paddle.to_tensor(arrays[f"{name}/keyword/{key}"])
    outputs = flat(layer(*inputs, **keywords))
    weighted_sum(outputs).backward()
    for number, output in enumerate(outputs):
        arrays[f"{name}/output/{number}"] = output.numpy()
    for number, each in enumerate(inputs):
        if each.grad is not None:
            arrays[f"{name}/input_gradient/{number}"] = each.grad.numpy()
    for path, parameter in layer.named_parameters():
        if parameter.grad is not None:
            arrays[f"{name}/gradient/{path}"] = parameter.grad.numpy()
        elif parameter.stop_gradient:
            arrays[f"{name}/after/{path}"] = parameter.numpy()
    return about


def drawn(layer):
    found = {}
    for path, parameter in layer.named_parameters():
        value = parameter.numpy().astype("float64")
        found[path] = [list(value.shape), value.mean(), value.std(), value.min(), value.max()]
    return found


def signature(layer):
    parameters = list(inspect.signature(getattr(paddle.nn, layer).__init__).parameters.values())[1:]
    return [[each.name, None if each.default is each.empty else repr(each.default)] for each in parameters]


def main():
    paddle.seed(1)
    arrays, about = {}, {}
    for name, spec in CASES.items():
        with paddle.utils.unique_name.guard():
            about[name] = {**spec, **run(name, spec, arrays)}
    initial = {
        layer: {"arguments": given, "drawn": drawn(getattr(paddle.nn, layer)(**given))}
        for layer, given in DRAWN.items()
    }
    signatures = {layer: signature(layer) for layer in SIGNATURES}
    np.savez_compressed(GOLDEN / "layers.npz", **arrays)
    text = json.dumps({"cases": about, "initial": initial, "signatures": signatures}, indent=1, sort_keys=True)
    (GOLDEN / "layers.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
