"""``paddle.nn.functional``: the operations that scripts look for there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import flota.paddle.ops  # noqa: F401 (it makes the operations)
from flota.paddle.names import public
from flota.paddle.ops.registry import FUNCTIONS

_OPERATIONS = frozenset(
    """
    adaptive_avg_pool1d adaptive_avg_pool2d adaptive_max_pool1d adaptive_max_pool2d avg_pool1d avg_pool2d bilinear
    binary_cross_entropy binary_cross_entropy_with_logits celu conv1d conv2d cosine_embedding_loss cosine_similarity
    cross_entropy diag_embed dropout elu gelu glu gumbel_softmax hardshrink hardsigmoid hardswish hardtanh
    hinge_embedding_loss kl_div l1_loss label_smooth layer_norm leaky_relu linear log_loss log_sigmoid log_softmax
    margin_ranking_loss max_pool1d max_pool2d maxout mish mse_loss nll_loss normalize npair_loss one_hot pad
    pairwise_distance prelu relu relu6 scaled_dot_product_attention selu sequence_mask sigmoid sigmoid_focal_loss
    silu smooth_l1_loss softmax softmax_with_cross_entropy softplus softshrink softsign square_error_cost swish tanh
    tanhshrink thresholded_relu triplet_margin_loss
    """.split()  # noqa: SIM905 (one word a function, in as few lines as they need)
)


def _more() -> Mapping[str, Any]:
    return {name: FUNCTIONS[name] for name in _OPERATIONS if name in FUNCTIONS}


__getattr__, __dir__ = public(
    "flota.paddle.nn.functional",
    "paddle.nn.functional",
    {"batch_norm": "flota.paddle.nn.norm", "embedding": "flota.paddle.ops.functional"},
    _more,
)
