"""Cases of what layers compute."""

from __future__ import annotations

from typing import Any

from golden_cases import FUNCTIONAL, ROWS, Case, Made, between, different, real, shares, whole

X = {"x": real(ROWS, 3)}

LAYERS = [
    Case("linear", {"x": real(ROWS, 3), "weight": real(3, 5), "bias": real(5)}, reference=FUNCTIONAL + "linear"),
    Case("linear", {"x": real(ROWS, 2, 3), "weight": real(3, 5)}, reference=FUNCTIONAL + "linear", label="no-bias"),
    Case(
        "bilinear",
        {"x1": real(ROWS, 3), "x2": real(ROWS, 2), "weight": real(5, 3, 2), "bias": real(1, 5)},
        {},
        FUNCTIONAL + "bilinear",
    ),
    Case("dropout", X, {"p": 0.3, "training": False}, FUNCTIONAL + "dropout"),
    Case(
        "dropout", X, {"p": 0.3, "training": False, "mode": "downscale_in_infer"}, FUNCTIONAL + "dropout", "downscale"
    ),
    Case(
        "lookup_table_v2",
        {"ids": whole(0, 5, ROWS, 3), "weight": real(5, 2)},
        reference=lambda paddle, ids, weight: paddle.nn.functional.embedding(ids, weight),
    ),
    Case(
        "lookup_table_v2",
        {"ids": whole(0, 3, ROWS, 3), "weight": real(5, 2)},
        {"padding_idx": 1},
        lambda paddle, ids, weight, padding_idx: paddle.nn.functional.embedding(ids, weight, padding_idx),
        "padding",
    ),
    Case(
        "lookup_table",
        {"ids": whole(0, 5, ROWS, 1), "weight": real(5, 2)},
        reference=lambda paddle, ids, weight: paddle.nn.functional.embedding(ids.squeeze(-1), weight),
    ),
    Case("one_hot", {"x": whole(0, 5, ROWS)}, {"num_classes": 5}, FUNCTIONAL + "one_hot"),
    Case("one_hot", {"x": whole(0, 5, ROWS, 1)}, {"num_classes": 6}, FUNCTIONAL + "one_hot", "column"),
    Case("label_smooth", {"label": shares(ROWS, 3)}, {"epsilon": 0.2}, FUNCTIONAL + "label_smooth"),
    Case("normalize", X, reference=FUNCTIONAL + "normalize"),
    Case("normalize", {"x": real(ROWS, 3, 2)}, {"p": 1.5, "axis": -1}, FUNCTIONAL + "normalize", "axis"),
    Case("cosine_similarity", {"x1": real(ROWS, 3), "x2": real(ROWS, 3)}, reference=FUNCTIONAL + "cosine_similarity"),
    Case(
        "cosine_similarity",
        {"x1": real(ROWS, 5, 3), "x2": real(ROWS, 1, 3)},
        {"axis": -1},
        FUNCTIONAL + "cosine_similarity",
        "axis",
    ),
    Case(
        "cos_sim",
        {"X": real(ROWS, 3), "Y": real(1, 3)},
        reference=lambda paddle, **sides: paddle.nn.functional.cosine_similarity(*sides.values()).unsqueeze(1),
    ),
    Case("pad", {"x": real(ROWS, 3)}, {"pad": [0, 0, 1, 2], "value": 1.5}, FUNCTIONAL + "pad"),
    Case("pad", {"x": real(ROWS, 3, 4)}, {"pad": [1, 2], "data_format": "NCL"}, FUNCTIONAL + "pad", "last"),
    Case("pad", {"x": real(ROWS, 3, 4, 5)}, {"pad": [1, 2, 0, 1], "mode": "reflect"}, FUNCTIONAL + "pad", "reflect"),
    Case(
        "pad",
        {"x": real(ROWS, 4, 5, 3)},
        {"pad": [1, 2, 0, 1], "data_format": "NHWC"},
        FUNCTIONAL + "pad",
        "channels-last",
    ),
    Case(
        "pad",
        {"x": real(ROWS, 3, 4)},
        {"pad": [1, 1], "mode": "replicate", "data_format": "NCL"},
        FUNCTIONAL + "pad",
        "replicate",
    ),
    Case(
        "scaled_dot_product_attention",
        {"query": real(ROWS, 4, 2, 3), "key": real(ROWS, 5, 2, 3), "value": real(ROWS, 5, 2, 3)},
        # The reference's own refuses these shapes on a CPU build: its formula.
        reference=lambda paddle, query, key, value: paddle.transpose(
            paddle.nn.functional.softmax(
                paddle.matmul(
                    paddle.transpose(query, [0, 2, 1, 3]), paddle.transpose(key, [0, 2, 1, 3]), transpose_y=True
                )
                / 3**0.5
            )
            @ paddle.transpose(value, [0, 2, 1, 3]),
            [0, 2, 1, 3],
        ),
    ),
]

CHANNELS = {"running_mean": real(3), "running_var": between(0.5, 2.0, 3), "weight": real(3), "bias": real(3)}


def _batch_norm(paddle: Any, running_mean: Any, running_var: Any, **given: Any) -> Any:
    y = paddle.nn.functional.batch_norm(running_mean=running_mean, running_var=running_var, **given)
    return y, running_mean, running_var


def _normed(label: str, made: Made, **options: Any) -> Case:
    return Case(
        "batch_norm", {"x": made, **CHANNELS}, options, _batch_norm, label, fixed=("running_mean", "running_var")
    )


NORMS = [
    _normed("rows", real(ROWS, 3), training=True),
    _normed("one-row", real(1, 3, 5), training=True, data_format="NCL"),
    _normed("image", real(ROWS, 3, 2, 4), training=True, momentum=0.8, epsilon=1e-3),
    _normed("channels-last", real(ROWS, 2, 4, 3), training=True, data_format="NHWC"),
    _normed("trained", real(ROWS, 3)),
    _normed("global", real(ROWS, 3), training=True, use_global_stats=True),
    Case(
        "layer_norm",
        {"x": real(ROWS, 5), "weight": real(5), "bias": real(5)},
        {"normalized_shape": 5},
        FUNCTIONAL + "layer_norm",
    ),
    Case(
        "layer_norm",
        {"x": real(ROWS, 2, 5)},
        {"normalized_shape": [2, 5], "epsilon": 1e-3},
        FUNCTIONAL + "layer_norm",
        "plain",
    ),
    Case(
        "conv1d",
        {"x": real(ROWS, 3, 9), "weight": real(5, 3, 3), "bias": real(5)},
        {"stride": 2, "padding": 1},
        FUNCTIONAL + "conv1d",
    ),
    Case(
        "conv1d",
        {"x": real(ROWS, 9, 3), "weight": real(5, 3, 3)},
        {"data_format": "NLC"},
        FUNCTIONAL + "conv1d",
        "last",
    ),
    Case(
        "conv2d",
        {"x": real(ROWS, 4, 6, 5), "weight": real(6, 2, 3, 2), "bias": real(6)},
        {"groups": 2},
        FUNCTIONAL + "conv2d",
    ),
    Case(
        "conv2d",
        {"x": real(ROWS, 3, 6, 5), "weight": real(2, 3, 3, 2)},
        {"padding": "SAME", "stride": 2},
        FUNCTIONAL + "conv2d",
        "same",
    ),
    Case(
        "conv2d",
        {"x": real(ROWS, 3, 6, 5), "weight": real(2, 3, 3, 2)},
        {"padding": [1, 0, 2, 1]},
        FUNCTIONAL + "conv2d",
        "ends",
    ),
    Case(
        "conv2d",
        {"x": real(ROWS, 6, 5, 3), "weight": real(2, 3, 3, 2)},
        {"dilation": [2, 1], "data_format": "NHWC"},
        FUNCTIONAL + "conv2d",
        "last",
    ),
    Case("max_pool1d", {"x": different(ROWS, 2, 9)}, {"kernel_size": 2}, FUNCTIONAL + "max_pool1d"),
    Case("max_pool2d", {"x": different(ROWS, 2, 6, 5)}, {"kernel_size": 2}, FUNCTIONAL + "max_pool2d"),
    # Windows that hold nothing but padding are left out here; the reference has them, of -3.4e38.
    Case(
        "max_pool2d",
        {"x": different(ROWS, 2, 6, 5)},
        {"kernel_size": [3, 3], "stride": 2, "padding": 1, "ceil_mode": True},
        FUNCTIONAL + "max_pool2d",
        "ceil",
    ),
    Case(
        "max_pool2d",
        {"x": different(ROWS, 6, 5, 2)},
        {"kernel_size": 2, "data_format": "NHWC"},
        FUNCTIONAL + "max_pool2d",
        "last",
    ),
    Case("avg_pool1d", {"x": real(ROWS, 3, 8)}, {"kernel_size": 3, "padding": 1}, FUNCTIONAL + "avg_pool1d"),
    Case("adaptive_avg_pool1d", {"x": real(ROWS, 3, 8)}, {"output_size": 4}, FUNCTIONAL + "adaptive_avg_pool1d"),
    Case("adaptive_max_pool1d", {"x": real(ROWS, 3, 8)}, {"output_size": 4}, FUNCTIONAL + "adaptive_max_pool1d"),
    Case("adaptive_max_pool2d", {"x": real(ROWS, 3, 4, 4)}, {"output_size": 2}, FUNCTIONAL + "adaptive_max_pool2d"),
    Case("avg_pool2d", {"x": real(ROWS, 2, 6, 5)}, {"kernel_size": 2, "padding": 1}, FUNCTIONAL + "avg_pool2d"),
    Case(
        "avg_pool2d",
        {"x": real(ROWS, 2, 6, 5)},
        {"kernel_size": 2, "padding": 1, "exclusive": False},
        FUNCTIONAL + "avg_pool2d",
        "inclusive",
    ),
    Case(
        "adaptive_avg_pool2d", {"x": real(ROWS, 2, 6, 5)}, {"output_size": [2, 1]}, FUNCTIONAL + "adaptive_avg_pool2d"
    ),
]

CASES = [*LAYERS, *NORMS]
