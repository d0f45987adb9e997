"""The samples of one scrape, by family, as prometheus-client writes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import metadata
from typing import Any, SupportsFloat

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.process_collector import ProcessCollector

from flota.prometheus.families import COUNTER, FAMILIES, GAUGE, HISTOGRAM, SUMMARY

_KINDS = {
    COUNTER: CounterMetricFamily,
    GAUGE: GaugeMetricFamily,
    HISTOGRAM: HistogramMetricFamily,
    SUMMARY: SummaryMetricFamily,
}
_VERSION = metadata.version("flota")
_process = ProcessCollector(namespace="flota", registry=None)


class Sheet:
    """What one process tells, once. Unknown names, and labels that a family has not, are errors of the caller's."""

    def __init__(self, role: str, index: int) -> None:
        self._who = [role, str(index)]
        self._families: dict[str, Any] = {}
        self.add("flota_info", 1, _VERSION)
        for metric in _process.collect():
            for sample in metric.samples:
                self.add(sample.name, sample.value)

    def add(self, name: str, value: SupportsFloat | None, *labels: str) -> None:
        """A counter or a gauge. None: there is nothing to tell."""
        if value is not None:
            self._family(name).add_metric(self._labels(name, labels), float(value))

    def add_sum(self, name: str, count: int, total: float, *labels: str) -> None:
        """A summary: of how many, and their sum."""
        self._family(name).add_metric(self._labels(name, labels), count_value=count, sum_value=total)

    def add_histogram(self, name: str, buckets: Sequence[tuple[float, int]], total: float, *labels: str) -> None:
        """``buckets``: how many were at most so large, from the smallest on, the last of all."""
        written = [("+Inf" if most == float("inf") else repr(most), count) for most, count in buckets]
        self._family(name).add_metric(self._labels(name, labels), buckets=written, sum_value=total)

    def collect(self) -> Iterator[Metric]:
        """For ``prometheus_client.CollectorRegistry``."""
        yield from self._families.values()

    def _labels(self, name: str, labels: Sequence[str]) -> list[str]:
        if len(labels) != len(FAMILIES[name].labels):
            raise ValueError(f"{name} has the labels {FAMILIES[name].labels}, not {labels}")
        return [*self._who, *labels]

    def _family(self, name: str) -> Any:
        found = self._families.get(name)
        if found is None:
            family = FAMILIES[name]
            # prometheus-client adds what counters end with.
            short = name.removesuffix("_total") if family.kind == COUNTER else name
            labels = ["role", "index", *family.labels]
            found = self._families[name] = _KINDS[family.kind](short, family.help, labels=labels)
        return found
