"""Where a worker's numbers go beside its notes on server 0: Prometheus's port, and TensorBoard's files."""

from __future__ import annotations

from flota import config
from flota.client import Client
from flota.communicator.staleness import staleness_of
from flota.health import HealthPort
from flota.prometheus.page import open_metrics_port
from flota.prometheus.worker import WorkerCounts
from flota.standing import worker as standing
from flota.tensorboard import Scribe

_STALE_TIMEOUT = 2.0  # seconds


class Outlets:
    """Those that the environment asks for; a second ``open`` changes nothing. Training never waits for them."""

    def __init__(self) -> None:
        self._port: HealthPort | None = None
        self._scribe: Scribe | None = None

    @staticmethod
    def asked_for() -> bool:
        return config.metrics_port() is not None or bool(config.tensorboard_folder())

    def open(self, index: int) -> None:
        """What cannot be had is an error here, before anything is trained."""
        if self._port is None:
            self._port = open_metrics_port("worker", index, WorkerCounts(standing))
        if self._scribe is None and (folder := config.tensorboard_folder()):
            self._scribe = Scribe(folder, index, standing)

    def show_staleness(self, client: Client) -> None:
        """From here on the event files have it, too."""
        if self._scribe is not None:
            self._scribe.stale = lambda: staleness_of(client.statistics(_STALE_TIMEOUT))

    def flush(self) -> None:
        """The last events; the servers are asked no more."""
        if self._scribe is not None:
            self._scribe.close()
            self._scribe = None

    def close(self) -> None:
        self.flush()
        if self._port is not None:
            self._port.close()
            self._port = None
