"""What a worker tells: how it does (``flota.standing``), and where its time goes (``flota.timeline``)."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, SupportsFloat, cast

from flota import timeline
from flota.standing import Standing

if TYPE_CHECKING:
    from flota.prometheus.sheet import Sheet


class WorkerCounts:
    """For ``page.open_metrics_port``. Thread safety: one call at a time, whatever the training threads do."""

    def __init__(self, standing: Standing) -> None:
        self._standing = standing
        self._seconds: dict[str, float] = {}

    def __call__(self, sheet: Sheet) -> None:
        standing = self._standing
        sheet.add("flota_steps_total", standing.step)
        sheet.add("flota_samples_total", standing.samples)
        sheet.add("flota_loss", _number(standing.loss))
        sheet.add("flota_learning_rate", _number(standing.learning_rate))
        sheet.add("flota_phase", 1, standing.phase, standing.mode or "local")
        for name, value in list(standing.metrics.items()):
            sheet.add("flota_metric", value, name)
        self._fill_seconds(sheet)
        if standing.in_flight is not None:
            with contextlib.suppress(Exception):  # of a connection that ends meanwhile
                sheet.add("flota_steps_in_flight", standing.in_flight())
        self._fill_pass(sheet)

    def _fill_seconds(self, sheet: Sheet) -> None:
        found = timeline.seconds()
        for part in timeline.PARTS:
            # The forward pass is what no span has, and a span counts when it ends: until then it would be the forward
            # pass's, and taken back afterwards. To Prometheus a counter that falls was reset.
            spent = self._seconds[part] = max(self._seconds.get(part, 0.0), found[part])
            sheet.add("flota_step_seconds_total", spent, part)

    def _fill_pass(self, sheet: Sheet) -> None:
        place = self._standing.place
        if not place.pieces:
            return
        sheet.add("flota_pass_epoch", place.epoch)
        sheet.add("flota_pass_done_ratio", place.done)
        passed = time.monotonic() - place.began
        if place.done and passed > 0:
            sheet.add("flota_pass_remaining_seconds", passed * (1 - place.done) / place.done)


def _number(value: object) -> float | None:
    """NaN and infinity are numbers to Prometheus; None: it is none."""
    with contextlib.suppress(Exception):
        return float(cast(SupportsFloat, value))
    return None
