"""One thread looks at the job, for all who watch the page: once a second, and every five while nobody does."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flota.observe.attach import Attached
from flota.observe.page import scene
from flota.observe.page.events import Events
from flota.observe.page.history import History, Point, point_of
from flota.observe.page.logs import tail
from flota.observe.page.saves import Saves
from flota.observe.sight import Sight
from flota.observe.whole import WholeTable, tables, with_dense_as_one

EVERY = 1.0  # seconds between two looks
EVERY_UNSEEN = 5.0
_OVER_AFTER = 5.0  # seconds without server or launch, after which a job that was seen is over


@dataclass(frozen=True)
class Seen:
    """What was seen last, as JSON: made once, however many read it."""

    number: int = 0
    event: bytes = b"{}"  # how it does now, and its point of the curves
    heat: bytes = b"[]"
    over: bool = False


class Watch:
    """Thread safety: any thread."""

    def __init__(self, attached: Attached, on_news: Callable[[], None], timeout: float = 2.0) -> None:
        """``on_news`` is called on the looking thread after each look. ``timeout``: seconds that a server may take."""
        self._attached = attached
        self._on_news = on_news
        self._looker = attached.looker(timeout)
        self._lock = threading.Lock()  # of all below
        self._history = History()
        self._events = Events()
        self._saves = Saves(attached.durable)
        self._logs: dict[str, str] = {}
        self._last: tuple[Sight, list[dict[str, Any]]] | None = None
        self._heard_at: float | None = None  # when a server answered last
        self._seen = Seen()
        self._watchers = 0
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="flota page", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._wake.set()

    # --- for those who watch ---

    @property
    def seen(self) -> Seen:
        return self._seen

    def count(self, change: int) -> None:
        """Somebody begins to watch, or no longer does."""
        with self._lock:
            self._watchers += change
        if change > 0:
            self._wake.set()

    def history(self) -> bytes:
        with self._lock:
            return _json(self._history.plain())

    def log(self, name: str) -> list[str] | None:
        """The end of the log of the process of that name; None: no process that is known has it."""
        with self._lock:
            path = self._logs.get(name)
        return None if path is None else tail(path, 200)

    def end(self, processes: Sequence[dict[str, Any]], why: str) -> None:
        """The job is over, and these are its processes as its launch saw them last; none: as they were seen here."""
        with self._lock:
            if self._last is not None and not self._seen.over:
                sight, before = self._last
                self._publish(sight, list(processes) or before, None, over=why)
        self._on_news()

    # --- looking ---

    def _run(self) -> None:
        while not self._closing.is_set() and not self._seen.over:
            began = time.monotonic()
            try:
                self._look()
            except Exception as error:  # whatever a server or worker of another version says: the next look may do
                self._fail(error)
            # Cleared before anybody is counted: who comes from here on, the first of them, wakes this thread.
            self._wake.clear()
            watched = self._watchers > 0
            rest = max(0.0, began + (EVERY if watched else EVERY_UNSEEN) - time.monotonic())
            (self._closing if watched else self._wake).wait(rest)

    def _look(self) -> None:
        sight = self._looker.look()
        told = self._attached.processes()
        with self._lock:
            if self._seen.over:
                return
            self._last = sight, told
            now = time.monotonic()
            over = ""
            if any(server.alive for server in sight.servers):
                self._heard_at = now
            elif self._heard_at is not None and not told and now - self._heard_at > _OVER_AFTER:
                over = "its servers are gone"
            self._publish(sight, told, self._heard_at == now, over=over)
        self._on_news()

    def _publish(self, sight: Sight, told: list[dict[str, Any]], heard: bool | None, *, over: str) -> None:
        """``heard``: whether there is a point for the curves."""
        whole = tables(sight)
        point = point_of(sight, with_dense_as_one(whole)) if heard else None
        found = scene.processes(sight, told)
        if over:
            found = scene.ended(found)
        if point is not None:
            self._history.add(point)
        self._events.take(sight.time if not over else time.time(), found)
        self._logs = {one["name"]: one["path"] for one in found if one["path"]}
        event = {"now": self._now(sight, whole, found, over), "point": point.plain() if point is not None else None}
        self._seen = Seen(self._seen.number + 1, _json(event), _json(scene.heat(whole)), bool(over))

    def _fail(self, error: Exception) -> None:
        trouble = f"what servers or workers say was not understood: {type(error).__name__}: {error}"
        with self._lock:
            if not self._seen.over:
                self._seen = replace(self._seen, number=self._seen.number + 1, event=_json({"trouble": trouble}))
        self._on_news()

    def _now(self, sight: Sight, whole: list[WholeTable], found: list[dict[str, Any]], over: str) -> dict[str, Any]:
        alive = [server for server in sight.servers if server.alive]
        point: Point | None = self._history.recent[-1] if self._history.recent else None
        sparse = [table for table in whole if table.sparse]
        return {
            "time": time.time(),
            "title": self._attached.title,
            "elapsed": max((server.uptime for server in sight.servers), default=0.0),
            "over": over,
            "heard": bool(alive),
            "loss": point.plain()["loss"] if point else None,
            "sps": point.plain()["sps"] if point else None,
            "metrics": point.plain()["m"] if point else {},
            "rows": sum(table.rows for table in sparse),
            "bytes": sum(table.bytes for table in whole),
            "memory": sum(server.memory_bytes for server in sight.servers),
            "mode": next((str(worker.note.get("mode", "")) for worker in sight.workers), ""),
            "processes": [{name: value for name, value in one.items() if name != "path"} for one in found],
            "tables": scene.tables(with_dense_as_one(whole)),
            "events": list(self._events.found),
            "saves": self._saves.plain(sight),
            "has_launch": self._attached.log_dir is not None,
        }


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False, default=str).encode()
