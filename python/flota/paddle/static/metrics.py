"""``paddle.static.accuracy`` and ``auc``: metrics that a program computes, and keeps from run to run."""

from __future__ import annotations

from typing import Any

import torch

from flota.errors import InvalidArgument
from flota.paddle.graph import names
from flota.paddle.graph.building import kept
from flota.paddle.graph.program import default_main_program
from flota.paddle.graph.variable import Variable, sketches_of
from flota.paddle.ops.registry import call, call_as, into

__all__ = ["accuracy", "auc"]


def accuracy(input: Any, label: Any, k: int = 1, correct: Any = None, total: Any = None) -> Any:
    """The part of the samples whose label is among the ``k`` classes of the greatest scores. ``total`` and ``correct``
    become how many there were, and of how many it was."""
    layer = names.generate("accuracy")
    for _ in range(2):  # the reference has the best scores and their places under these names, and scripts fetch tmp_2
        names.generate(f"{layer}.tmp")
    part = call_as(layer, "accuracy", input, label, k)
    if correct is not None or total is not None:
        count = call("slice", call("shape", label), axes=[0], starts=[0], ends=[1])
        found = call("round", call("multiply", part, call("cast", count, "float32")))
        for given, value in ((correct, found), (total, count)):
            if given is not None:
                into(call("cast", value, given.dtype), given)
    return part


def auc(
    input: Any,
    label: Any,
    curve: str = "ROC",
    num_thresholds: int = 4095,
    topk: int = 1,
    slide_steps: int = 1,
    ins_tag_weight: Any = None,
) -> tuple[Any, Any, list[Any]]:
    """The area under the curve of all batches, that of the last ``slide_steps`` (0: of all), and the counts
    behind both: clicks and others by bucket of the last ones, and of all."""
    if topk != 1 or ins_tag_weight is not None:
        raise InvalidArgument("auc: topk is 1, and ins_tag_weight is not known here: leave both out")
    if curve not in ("ROC", "PR"):
        raise InvalidArgument(f"auc: curve is ROC or PR, not {curve!r}")
    buckets = num_thresholds + 1
    rows = [max(slide_steps, 1)] * 2 + [1, 1]
    counts = [kept(names.generate("_generated_var"), [each, buckets], torch.int64, 0) for each in rows]
    layer = names.generate("auc")

    batch = call("auc_batch", input, label, num_thresholds)

    def area(clicked: Any, others: Any, steps: int) -> Any:
        program = default_main_program()
        # Made beforehand, by the name that scripts fetch it by: the new counts would count as well.
        made = Variable(program, names.generate(f"{layer}.tmp"), sketches_of([], torch.float64), stop_gradient=True)
        program.add(made)
        before = {"batch": batch, "stat_pos": clicked, "stat_neg": others, "slide_steps": steps}
        program.record_into("auc_counts", before, (clicked, others))
        program.record_into("auc_area", {"stat_pos": clicked, "stat_neg": others, "curve": curve}, made)
        return made

    whole = area(counts[2], counts[3], 0)
    return whole, area(counts[0], counts[1], slide_steps), counts
