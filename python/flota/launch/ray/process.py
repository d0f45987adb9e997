"""One process of the job as the driver sees it: what its seat says of it, and what is said to the seat."""

from __future__ import annotations

import contextlib
import math
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flota.errors import FlotaError, SystemFailure
from flota.launch.plan import Member
from flota.launch.processes import Process
from flota.launch.ray import cluster
from flota.launch.ray.seats import Node, Sought
from flota.launch.saying import say

_RETRY = 0.5  # seconds before a seat that does not answer is asked again
_SILENT_AFTER = 10.0  # seconds until the user is told of it
_CONFIRMED_WITHIN = 5.0  # seconds that the workers' last word may come after a server's end
_STOPPED_WITHIN = 3.0  # seconds that a seat may be silent when its process is to end


class RayProcess(Process):
    """A process in a seat, once it has one. Ends as any other; or is lost with its seat, which comes back elsewhere, or
    does not."""

    def __init__(
        self,
        member: Member,
        log: Path,
        starts_before: int,
        *,
        asks: Mapping[str, float],
        kept: str,
        wait: float,
        check: Callable[[str, Any, Mapping[str, Any]], None],
        endpoints: Callable[[], list[str]],
        take_report: Callable[[str, float], None],
        is_confirmed: Callable[[], bool],
    ) -> None:
        """``asks``: resources of its seat. ``kept``: the folder of what it keeps, or nothing; in the node's folder for
        temporary files, if it is no path from the root. ``wait``: seconds that its seat may be silent, or sought.
        ``check``: refuses a node on which the process could not run. ``endpoints``: where the servers are by now.
        ``take_report``: takes what it reports. ``is_confirmed``: whether it is known of every worker that it needs no
        servers any more."""
        super().__init__(member, log, starts_before)
        self.seat: Any = None
        self.node: Node | None = None
        self.moved = False  # the seat is another one than at the last start
        self.was_moved = False  # as it has ever been
        self.holds = False  # a server: it has kept something, which is in its folder there
        self.lost_for_good = ""  # why no other start is possible
        self._asks = asks
        self.kept = kept
        self._token = ""
        self.sought: Sought | None = None  # a seat that is nowhere yet
        self._wait = wait
        self._check = check
        self._endpoints = endpoints
        self._told: list[str] = []  # of them, the last that its seat has surely heard
        self._telling: list[str] = []
        self._take_report = take_report
        self._is_confirmed = is_confirmed
        self._ended_on: Node | None = None
        self._lost = False
        self._taken = 0
        self._call: Any = None
        self._ask_at = 0.0
        self._heard = time.monotonic()
        self._told_silent = False
        self._is_running = False
        self._pid: int | None = None
        self._end: tuple[int, float] | None = None  # its status, and when it was heard of

    @property
    def pid(self) -> int | None:
        return self._pid

    @property
    def running(self) -> bool:
        return self._is_running

    @property
    def ending(self) -> str:
        if self.sought is not None:
            return "waits for a place"
        if self._lost and self._ended_on is None:
            return f"got no place: {self.lost_for_good}"
        if self._lost:
            return f"was lost with its place on {self._ended_on}"
        return super().ending + (f" on {self._ended_on or self.node}" if self.status is not None else "")

    @property
    def silent(self) -> float:
        """Seconds since the seat was heard."""
        return time.monotonic() - self._heard

    def begin(self, order: Mapping[str, Any]) -> None:
        """Starts it, or starts it again, in its seat."""
        self._begin_start()
        try:
            self._open_log().close()
        except OSError as error:
            raise SystemFailure(f"{self.name} could not be started: {error}") from error
        self.status, self._end, self._lost, self._ended_on = None, None, False, None
        asked = {**order, "start": self.starts, "name": self.name, "kept": self.kept}
        if not cluster.ask(self.seat.start.remote(self._token, asked)):
            raise cluster.NotThere(f"{self.name} could not be started: its seat on {self.node} is gone")
        self.moved = False
        self._began = time.monotonic()
        self._is_running = True

    def signal(self, number: int) -> None:
        if self._is_running and number != signal.SIGCONT:
            self.seat.signal.remote(self._token, number)

    def poll(self) -> bool:
        self._listen()
        if not self._is_running:
            return True
        if self.asked_to_stop and self._end is None and self.silent > _STOPPED_WITHIN:
            self._end = (-signal.SIGKILL, time.monotonic())  # its keeper ends it, having heard nothing
        if self._end is None or self._is_early(*self._end):
            return False
        self.status = self._end[0]
        self._ran = time.monotonic() - self._began
        self._is_running = False
        return True

    def _is_early(self, status: int, heard: float) -> bool:
        """A server that ended as all workers had said goodbye may be heard of before the last of them."""
        if self.member.role != "server" or status != 0 or self.asked_to_stop:
            return False
        return not self._is_confirmed() and time.monotonic() - heard < _CONFIRMED_WITHIN

    # --- the seat ---

    def seek(self, sought: Sought) -> None:
        """Has no seat, and is started in this one as soon as that is somewhere."""
        self.seat, self.node, self.sought = sought.seat, None, sought
        self._call, self._token, self._told_silent = None, "", False
        self.status, self._lost, self._ended_on, self.lost_for_good = None, False, None, ""
        self.due = math.inf

    def leave_seat(self) -> Any:
        """Nothing runs in it, and nothing will. Returns the seat."""
        seat, self.seat = self.seat, None
        self.sought = self._call = None
        return seat

    def sit(self, hello: Mapping[str, Any], *, moved: bool) -> None:
        """Its seat is where it says."""
        self.node, self._token = Node.of(hello), str(hello["token"])
        self._taken, self._told, self.moved = 0, [], moved
        self._heard = time.monotonic()

    def _look_for_place(self, sought: Sought) -> None:
        try:
            hello = sought.hello()
            if hello is not None:
                self._check(self.name, self.seat, hello)
        except FlotaError as error:
            self._get_none(str(error))
            return
        if hello is not None:
            self.sought = None
            self.sit(hello, moved=True)
            self.was_moved = False
            self.due = time.monotonic()
            return
        if sought.waited > self._wait:
            self._get_none(f"Ray has had no room for it for {self._wait:g} s (--ray_wait){self._what_there_is()}")

    def _get_none(self, why: str) -> None:
        self.sought = None
        self._lose(why)

    def _what_there_is(self) -> str:
        return f": it asks for {cluster.resources_text(self._asks)}; free is: {cluster.what_there_is()}"

    def _listen(self) -> None:
        """Takes what the seat has answered, and asks it again."""
        if self.sought is not None and self.waiting:
            self._look_for_place(self.sought)
        if self.seat is None or self.node is None:
            return
        now = time.monotonic()
        if self._call is not None and cluster.answered(self._call):
            call, self._call = self._call, None
            try:
                answer = cluster.ask(call)
            except FlotaError as error:
                self._ask_at = now + _RETRY
                if cluster.is_dead(error.__cause__):
                    self._lose(f"Ray has given up its place on {self.node} ({error})")
            else:
                self._hear(answer)
        if self._call is None and now >= self._ask_at and not self.lost_for_good:
            self._telling = self._endpoints()
            news = None if self._telling == self._told else self._telling
            self._call = self.seat.hear.remote(self._token, self._taken, self.kept, news)
        self._look_at_silence()

    def _hear(self, answer: Mapping[str, Any]) -> None:
        if self._told_silent:
            say(f"{self.name} answers again, after {self.silent:.0f} s")
        self._heard, self._told_silent = time.monotonic(), False
        self.holds = bool(answer["holds"])
        if answer["token"] != self._token:
            self._move()
            return
        self._told = self._telling
        for number, news in answer["news"]:
            if number > self._taken:
                self._taken = number
                self._take(news)

    def _move(self) -> None:
        """The seat is a new one: Ray has started it again, here or elsewhere."""
        try:
            hello = cluster.ask(self.seat.hello.remote())
        except FlotaError:
            return  # and again, when it answers
        before = self.node
        self.sit(hello, moved=True)
        self.was_moved = True
        if self._is_running:
            self._lost, self._ended_on = True, before
            self._end = (-signal.SIGKILL, time.monotonic())

    def _look_at_silence(self) -> None:
        if not (self._is_running or self.waiting) or self.silent < _SILENT_AFTER or self.asked_to_stop:
            return
        if not self._told_silent:
            self._told_silent = True
            say(f"{self.name} on {self.node} has not answered for {_SILENT_AFTER:g} s; waiting up to {self._wait:g} s")
        if self.waiting:
            self.due = time.monotonic() + _RETRY  # nothing can be started there now
        if self.silent > self._wait:
            self._lose(self._why_silent())

    def _why_silent(self) -> str:
        alive = self.node is not None and cluster.node_is_alive(self.node.id)
        return (
            f"its place on {self.node} has not answered for {self._wait:g} s (--ray_wait)"
            + (", though Ray takes that node to be alive" if alive else "; Ray has lost that node")
            + f". Ray has found it no other place{self._what_there_is()}"
        )

    def _lose(self, why: str) -> None:
        if self.lost_for_good:
            return
        self.lost_for_good = why
        self.due = None
        self._lost, self._ended_on = True, self.node
        if self._is_running:
            self._end = (-signal.SIGKILL, time.monotonic())

    # --- its news ---

    def _take(self, news: Mapping[str, Any]) -> None:
        if "log" in news:
            self._write(news["log"].encode("latin-1"))
        elif "report" in news:
            self._take_report(news["report"], news["age"])
        elif news.get("started") == self.starts:
            self._pid = news["pid"]
        elif news.get("ended") == self.starts and self._is_running:
            self._end = (news["status"], time.monotonic())
        elif news.get("failed") == self.starts or ("gone" in news and self._is_running):
            why = news.get("why") or news["gone"]
            self._write(f"flota: {self.name} cannot run: {why}\n".encode())
            if self._is_running and self._end is None:
                self._end = (1 if "why" in news else -signal.SIGKILL, time.monotonic())

    def _write(self, data: bytes) -> None:
        with contextlib.suppress(OSError), self.log.open("ab") as log:  # a full disk
            log.write(data)
