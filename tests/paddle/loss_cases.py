"""Cases of losses, sequences and metrics."""

from __future__ import annotations

import numpy as np
from golden_cases import FUNCTIONAL, ROWS, Case, between, different, given, real, sequences, shares, whole

LENGTHS = (2, 0, 3, 1)

CLICKS = {"input": between(0.05, 0.95, ROWS, 1), "label": given([[0], [1], [1], [0], [1], [0], [0]])}
LOGITS = {"logit": real(ROWS, 1), "label": CLICKS["label"]}
CLASSES = {"input": real(ROWS, 5), "label": whole(0, 5, ROWS)}
COLUMN = {"input": real(ROWS, 5), "label": whole(0, 5, ROWS, 1)}
SOFT = {"input": real(ROWS, 5), "label": shares(ROWS, 5)}
SIGNS = given([1, -1, 1, 1, -1, -1, 1])
CROSS = FUNCTIONAL + "cross_entropy"
ENTROPIES = [
    *[Case("cross_entropy", CLASSES, {"reduction": how}, CROSS, how) for how in ("mean", "sum", "none")],
    *[Case("cross_entropy", COLUMN, {"reduction": how}, CROSS, f"column-{how}") for how in ("mean", "none")],
    *[
        Case("cross_entropy", SOFT, {"soft_label": True, "reduction": how}, CROSS, f"soft-{how}", fixed=("label",))
        for how in ("mean", "none")
    ],
    *[
        Case(
            "cross_entropy",
            {**CLASSES, "weight": between(0.5, 2, 5)},
            {"reduction": how, "ignore_index": 2},
            CROSS,
            f"weight-{how}",
            fixed=("weight",),
        )
        for how in ("mean", "none")
    ],
    Case("cross_entropy", CLASSES, {"ignore_index": 2}, CROSS, "ignore"),
    Case(
        "cross_entropy",
        {"input": real(3, 5), "label": given([4, 4, 4], "int64")},
        {"ignore_index": 4},
        CROSS,
        "ignore-all",
    ),
    Case(
        "cross_entropy",
        {**SOFT, "weight": between(0.5, 2, 5)},
        {"soft_label": True},
        CROSS,
        "soft-weight",
        fixed=("label", "weight"),
    ),
    Case("cross_entropy", {"input": real(ROWS, 5, 3), "label": whole(0, 5, ROWS, 3)}, {"axis": 1}, CROSS, "axis"),
    Case("cross_entropy", CLASSES, {"label_smoothing": 0.1}, CROSS, "smoothing"),
    *[
        Case(
            "cross_entropy",
            {"input": shares(ROWS, 5), "label": label},
            {"use_softmax": False, "reduction": how},
            CROSS,
            f"shares-{sort}-{how}",
        )
        for how in ("mean", "none")
        for sort, label in (("flat", whole(0, 5, ROWS)), ("column", whole(0, 5, ROWS, 1)))
    ],
    Case(
        "softmax_with_cross_entropy",
        {"logits": real(ROWS, 5), "label": whole(0, 5, ROWS, 1)},
        reference=FUNCTIONAL + "softmax_with_cross_entropy",
    ),
    Case(
        "softmax_with_cross_entropy",
        {"logits": real(ROWS, 5), "label": whole(0, 5, ROWS, 1)},
        {"return_softmax": True},
        FUNCTIONAL + "softmax_with_cross_entropy",
        "both",
        fixed=("logits",),  # the reference loses the softmax's part of the gradient
    ),
    Case(
        "softmax_with_cross_entropy",
        {"logits": real(ROWS, 5), "label": shares(ROWS, 5)},
        {"soft_label": True},
        FUNCTIONAL + "softmax_with_cross_entropy",
        "soft",
        fixed=("label",),
    ),
    Case(
        "softmax_with_cross_entropy",
        {"logits": real(ROWS, 5), "label": whole(0, 5, ROWS, 1)},
        {"ignore_index": 1},
        FUNCTIONAL + "softmax_with_cross_entropy",
        "ignore",
    ),
    Case(
        "cross_entropy_of_probabilities",
        {"input": shares(ROWS, 5), "label": whole(0, 5, ROWS, 1)},
        reference=lambda paddle, input, label: paddle.nn.functional.cross_entropy(
            input, label, use_softmax=False, reduction="none"
        ),
    ),
    Case(
        "cross_entropy_of_probabilities",
        {"input": shares(ROWS, 5), "label": shares(ROWS, 5)},
        {"soft_label": True},
        lambda paddle, input, label, soft_label: -(label * paddle.log(input)).sum(-1, keepdim=True),
        "soft",
        fixed=("label",),
    ),
    Case(
        "nll_loss",
        {"input": real(ROWS, 5), "label": whole(0, 5, ROWS), "weight": between(0.5, 2, 5)},
        {},
        FUNCTIONAL + "nll_loss",
        fixed=("weight",),
    ),
    Case(
        "kl_div",
        {"input": real(ROWS, 5), "label": shares(ROWS, 5)},
        {"reduction": "batchmean"},
        FUNCTIONAL + "kl_div",
        fixed=("label",),
    ),
]

LOSSES = [
    Case("log_loss", CLICKS, {}, FUNCTIONAL + "log_loss", fixed=("label",)),
    *[
        Case(
            "binary_cross_entropy",
            {**CLICKS, "weight": between(0.5, 2, ROWS, 1)},
            {"reduction": how},
            FUNCTIONAL + "binary_cross_entropy",
            how,
            fixed=("label", "weight"),
        )
        for how in ("mean", "sum", "none")
    ],
    Case(
        "binary_cross_entropy",
        {"input": given([[0.0], [1.0], [0.0], [1.0]]), "label": given([[0], [0], [1], [1]])},
        {"reduction": "none"},
        FUNCTIONAL + "binary_cross_entropy",
        "sure",
        fixed=("input", "label"),
    ),
    Case(
        "binary_cross_entropy_with_logits",
        LOGITS,
        {},
        FUNCTIONAL + "binary_cross_entropy_with_logits",
        fixed=("label",),
    ),
    Case(
        "binary_cross_entropy_with_logits",
        {**LOGITS, "weight": between(0.5, 2, ROWS, 1), "pos_weight": given([2.5])},
        {"reduction": "none"},
        # The reference multiplies one term by pos_weight, the document all that a positive sample has.
        lambda paddle, logit, label, weight, pos_weight, reduction: (
            paddle.nn.functional.binary_cross_entropy_with_logits(logit, label, weight, reduction=reduction)
            * (label * (pos_weight - 1) + 1)
        ),
        "weights",
        fixed=("label", "weight", "pos_weight"),
    ),
    Case("sigmoid_focal_loss", LOGITS, {"reduction": "mean"}, FUNCTIONAL + "sigmoid_focal_loss", fixed=("label",)),
    Case("square_error_cost", {"input": real(ROWS, 1), "label": real(ROWS, 1)}, {}, FUNCTIONAL + "square_error_cost"),
    Case("mse_loss", {"input": real(ROWS, 3), "label": real(ROWS, 3)}, {}, FUNCTIONAL + "mse_loss"),
    Case("l1_loss", {"input": real(ROWS, 3), "label": real(ROWS, 3)}, {"reduction": "sum"}, FUNCTIONAL + "l1_loss"),
    Case(
        "smooth_l1_loss",
        {"input": real(ROWS, 3), "label": real(ROWS, 3)},
        {"delta": 0.7},
        FUNCTIONAL + "smooth_l1_loss",
        fixed=("label",),
    ),
    Case(
        "margin_ranking_loss",
        {"input": real(ROWS), "other": real(ROWS), "label": SIGNS},
        {"margin": 0.2},
        FUNCTIONAL + "margin_ranking_loss",
        fixed=("label",),
    ),
    Case(
        "hinge_embedding_loss",
        {"input": real(ROWS), "label": SIGNS},
        {},
        FUNCTIONAL + "hinge_embedding_loss",
        fixed=("label",),
    ),
    Case(
        "cosine_embedding_loss",
        {"input1": real(ROWS, 3), "input2": real(ROWS, 3), "label": SIGNS},
        {"margin": 0.1},
        FUNCTIONAL + "cosine_embedding_loss",
        fixed=("label",),
    ),
    Case(
        "triplet_margin_loss",
        {"input": real(ROWS, 3), "positive": real(ROWS, 3), "negative": real(ROWS, 3)},
        {},
        FUNCTIONAL + "triplet_margin_loss",
    ),
    Case(
        "npair_loss",
        {"anchor": real(ROWS, 3), "positive": real(ROWS, 3), "labels": whole(0, 3, ROWS)},
        {},
        FUNCTIONAL + "npair_loss",
    ),
    # Those of 1.x are no longer in the reference: what their documents say, in its own operations.
    Case(
        "sigmoid_cross_entropy_with_logits",
        {"x": real(ROWS, 1), "label": CLICKS["label"]},
        {},
        lambda paddle, x, label: paddle.nn.functional.binary_cross_entropy_with_logits(x, label, reduction="none"),
        fixed=("label",),
    ),
    Case(
        "margin_rank_loss",
        {"label": SIGNS, "left": real(ROWS), "right": real(ROWS)},
        {},
        lambda paddle, label, left, right: paddle.nn.functional.relu(0.1 - label * (left - right)),
        fixed=("label",),
    ),
    Case(
        "rank_loss",
        {"label": between(0, 1, ROWS, 1), "left": real(ROWS, 1), "right": real(ROWS, 1)},
        {},
        lambda paddle, label, left, right: paddle.log(1 + paddle.exp(left - right)) - label * (left - right),
        fixed=("label",),
    ),
    Case(
        "bpr_loss",
        {"input": real(2, 3), "label": given([[1], [2]], "int64")},
        {},
        lambda paddle, input, label: paddle.stack(
            [
                -(paddle.log(paddle.nn.functional.sigmoid(input[i, own] - input[i, other]))).sum() / 2
                for i, own, other in ((0, 1, [0, 2]), (1, 2, [0, 1]))
            ]
        ).unsqueeze(1),
    ),
]

SEQUENCES = [
    *[
        Case(
            "sequence_pool",
            {"input": sequences(LENGTHS, 3)},
            {"pool_type": how},
            "static.nn.sequence_pool",
            how,
            programs=True,
        )
        for how in ("sum", "average", "sqrt", "max", "first", "last")
    ],
    Case(
        "sequence_pool",
        {"input": sequences(LENGTHS, 3)},
        {"pool_type": "sum", "pad_value": 2.5},
        "static.nn.sequence_pool",
        "pad",
        programs=True,
    ),
    Case(
        "sequence_pool",
        {"input": sequences((1, 1, 1), 3)},
        {"pool_type": "average"},
        "static.nn.sequence_pool",
        "ones",
        programs=True,
    ),
    Case("sequence_first_step", {"input": sequences((2, 1, 3), 2)}, {}, "static.nn.sequence_first_step", programs=True),
    Case("sequence_last_step", {"input": sequences((2, 1, 3), 2)}, {}, "static.nn.sequence_last_step", programs=True),
    Case("sequence_softmax", {"input": sequences((2, 1, 3), 1)}, {}, "static.nn.sequence_softmax", programs=True),
    Case("sequence_reverse", {"x": sequences((2, 1, 3), 2)}, {}, "static.nn.sequence_reverse", programs=True),
    Case(
        "sequence_concat",
        {"input": [sequences((2, 1), 2), sequences((1, 3), 2)]},
        {},
        "static.nn.sequence_concat",
        programs=True,
    ),
    Case(
        "sequence_expand_as",
        {"x": real(3, 2), "y": sequences((2, 1, 3), 1)},
        {},
        "static.nn.sequence_expand_as",
        programs=True,
        fixed=("y",),
    ),
    Case(
        "sequence_pad",
        {"x": sequences((2, 1, 3), 2), "pad_value": given([1.5])},
        {"maxlen": 4},
        "static.nn.sequence_pad",
        programs=True,
        fixed=("pad_value",),
    ),
    Case(
        "sequence_unpad",
        {"x": real(ROWS, 4, 2), "length": given([2, 1, 4, 0, 3, 1, 2], "int64")},
        {},
        "static.nn.sequence_unpad",
        programs=True,
    ),
]

COUNTS = {"stat_pos": given(np.zeros((1, 101)), "int64"), "stat_neg": given(np.zeros((1, 101)), "int64")}
METRICS = [
    Case(
        "accuracy",
        {"input": different(ROWS, 5), "label": whole(0, 5, ROWS, 1)},
        {"k": 2},
        "metric.accuracy",
        fixed=("input",),
    ),
    Case(
        "auc",
        {"input": shares(ROWS * 9, 2), "label": whole(0, 2, ROWS * 9, 1), **COUNTS},
        # Not curve="PR": the reference takes it, and computes ROC.
        {"num_thresholds": 100},
        lambda paddle, input, label, num_thresholds, **_: paddle.static.auc(
            input, label, num_thresholds=num_thresholds
        )[0],
        programs=True,
        fixed=("input",),
        results=1,
    ),
    *[
        Case(
            "continuous_value_model",
            {"input": between(0, 9, ROWS, 5), "cvm": between(0, 3, ROWS, 2)},
            {"use_cvm": use},
            "static.nn.continuous_value_model",
            label,
            programs=True,
            fixed=("cvm",),
        )
        for label, use in (("used", True), ("left-out", False))
    ],
]

CASES = [*ENTROPIES, *LOSSES, *SEQUENCES, *METRICS]
