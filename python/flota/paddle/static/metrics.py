"""``paddle.static.accuracy`` and ``auc``: metrics that a program computes, and keeps from run to run."""

from __future__ import annotations

from typing import Any

import torch

from flota.paddle.graph import names
from flota.paddle.graph.building import kept
from flota.paddle.graph.program import default_main_program
from flota.paddle.ops.metrics import accuracy

__all__ = ["accuracy", "auc"]


def auc(
    input: Any,
    label: Any,
    curve: str = "ROC",
    num_thresholds: int = 4095,
    topk: int = 1,
    slide_steps: int = 1,
    ins_tag_weight: Any = None,
) -> tuple[Any, Any, list[Any]]:
    """The area under the curve of all batches, that of the last ``slide_steps``, and the counts behind both: clicks and
    others by bucket of the last ones, and of all."""
    buckets = num_thresholds + 1
    counts = [
        kept(names.generate(name), [rows, buckets], torch.int64, 0)
        for name, rows in (
            ("batch_stat_pos", slide_steps),
            ("batch_stat_neg", slide_steps),
            ("stat_pos", 1),
            ("stat_neg", 1),
        )
    ]
    batch_auc = _area(input, label, counts[0], counts[1], curve, num_thresholds, slide_steps)
    whole = _area(input, label, counts[2], counts[3], curve, num_thresholds, 0)
    return whole, batch_auc, counts


def _area(input: Any, label: Any, clicked: Any, others: Any, curve: str, num_thresholds: int, slide_steps: int) -> Any:
    from flota.paddle.ops.registry import OPERATIONS

    program = default_main_program()
    arguments = {
        "input": input,
        "label": label,
        "stat_pos": clicked,
        "stat_neg": others,
        "curve": curve,
        "num_thresholds": num_thresholds,
        "slide_steps": slide_steps,
    }
    return program.record(OPERATIONS["auc"], arguments, into={1: clicked, 2: others})[0]
