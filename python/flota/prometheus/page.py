"""``GET /metrics``, and the port at which it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from flota import config
from flota.health import Answer, HealthPort, Page

if TYPE_CHECKING:
    from flota.prometheus.sheet import Sheet

PATH = "/metrics"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Fill = Callable[["Sheet"], None]


def page_of(role: str, index: int, fill: Fill) -> Page:
    """The page of a process; ``fill`` puts into a sheet what it has to tell beside what all processes do."""
    # With prometheus-client, which is for those who are asked for it.
    from prometheus_client import CollectorRegistry, generate_latest

    from flota.prometheus.sheet import Sheet

    def page() -> Answer:
        sheet = Sheet(role, index)
        fill(sheet)
        registry = CollectorRegistry()
        registry.register(sheet)
        return Answer(200, generate_latest(registry).decode(), CONTENT_TYPE)

    return page


def open_metrics_port(
    role: str, index: int, fill: Fill, *, host: str = "", port: int | None = None
) -> HealthPort | None:
    """Opens the port, if one is asked for: ``port`` at ``host``, or what ``FLOTA_METRICS_PORT`` and
    ``FLOTA_METRICS_HOST`` say."""
    asked = config.metrics_port() if port is None else port
    if asked is None:
        return None
    opened = open_port(host or config.metrics_host(), asked, {PATH: page_of(role, index, fill)})
    opened.ready = True
    return opened


def open_port(host: str, port: int, pages: Mapping[str, Page], *, threaded: bool = True) -> HealthPort:
    return HealthPort(
        host.strip("[]"), port, pages=pages, threaded=threaded, purpose="metrics",
        chosen_by=f"{config.METRICS_PORT} or --metrics_port",
    )  # fmt: skip
