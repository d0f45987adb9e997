"""A job while it runs on its nodes, from the head's side: what they tell, which are lost, and its end."""

from __future__ import annotations

import contextlib
import queue
import selectors
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from flota.launch.saying import fail, say
from flota.launch.signals import Signals
from flota.launch.ssh.asking import Asking
from flota.launch.ssh.node import Event, Node
from flota.launch.ssh.showing import Shown
from flota.launch.ssh.starting import Job
from flota.launch.view import View

_TICK = 0.1
END, MOVE = "end", "move"  # what --if_lost says
# Beyond --timeout, for what lies between an order to end and the word that it was done.
_ANSWER = 15.0
_HURRIED = 6.0


class Run:
    def __init__(
        self, job: Job, nodes: Sequence[Node], signals: Signals, shown: Shown, if_lost: str, asking: Asking | None
    ) -> None:
        self._job = job
        self._nodes = list(nodes)
        self._signals = signals
        self._shown = shown
        self._if_lost = if_lost
        self._asking = asking
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._lost: dict[Node, str] = {}  # nodes that are given up, and why
        self._failure = 0
        self._stopping = False
        # Without a word for so long, a connection is given up and made anew: well before its node is.
        self._silence = min(10.0, max(job.lost_after / 4, 3 * job.beat))
        # The agent's own clock runs out first: what it runs has ended when it is given up.
        self._given_up_after = job.lost_after + 2 * job.beat + 1.0

    def run(self, view: Callable[[Shown], View]) -> int:
        """Until the job's end; returns its exit status."""
        for node in self._nodes:
            node.follow(self._events, self._job.beat)
        shown = view(self._shown)
        try:
            status = self._watch(shown)
        finally:
            shown.close()
        return status

    def abandon(self) -> list[Node]:
        """Ends what has begun on these nodes, before anybody followed them. Returns as ``end`` does."""
        for node in self._nodes:
            node.follow(self._events, self._job.beat)
        return self.end()

    def end(self) -> list[Node]:
        """Ends everything everywhere, as far as it can be reached. Returns the nodes on which something may be left."""
        self._stopping = True
        if self._asking is not None:
            self._asking.close()
        for node in self._alive():
            node.want = replace(node.want, stop=1, heralds=(), asks=())
        begun = time.monotonic()
        hurried: float | None = None
        while left := [node for node in self._alive() if node.statuses() is None]:
            self._drain()
            now = time.monotonic()
            if self._signals.received and hurried is None:
                hurried = now
                say("hurrying: what is left is killed")
                for node in left:
                    node.want = replace(node.want, stop=2)
            reached = [node for node in left if node.connected]
            over = now - begun > self._job.arguments.timeout + _ANSWER
            over = over or (hurried is not None and now - hurried > _HURRIED)
            waits = [node for node in left if not node.connected and now - node.heard < self._given_up_after]
            if (over or not reached) and (hurried is not None or not waits):
                break
            self._sever_silent(now)
            self._sleep()
        for node in self._nodes:
            node.finish()
        for node in self._nodes:
            node.leave(6.0)
        self._drain()
        return left

    # --- watching ---

    def _watch(self, view: View) -> int:
        while not self._signals.received:
            self._drain()
            if self._has_failed():
                return self._failure
            alive = self._alive()
            ended = {node: node.statuses() for node in alive}
            for node, statuses in ended.items():
                failed = [status for status in statuses or [] if status]
                failed = failed or [part["status"] for part in node.parts if part["status"]]
                if failed:
                    fail(f"flota launch: the job failed on {node.name}; its logs are in {node.logs}")
                    return failed[0]
            over = [node for node, statuses in ended.items() if statuses is not None]
            if over and all(node in over or node.idles for node in alive):
                return 0  # where all workers have left, nobody knows by itself that the job is over
            now = time.monotonic()
            self._sever_silent(now)
            for node in alive:
                if not node.connected and now - node.heard > self._given_up_after and ended[node] is None:
                    self._give_up(node, f"nothing was heard of it for {now - node.heard:.0f} s ({node.why_broken})")
            if self._has_failed():
                return self._failure
            self._speak_for_the_silent()
            if self._asking is not None:
                self._asking.update(self._alive())
            view.update()
            self._sleep()
        number = self._signals.received.pop()  # one more makes the stop hurry
        say(f"{signal.Signals(number).name}: stopping the job on {len(self._alive())} hosts")
        return 128 + number

    def _has_failed(self) -> bool:
        return self._failure != 0

    def _alive(self) -> list[Node]:
        return [node for node in self._nodes if node not in self._lost]

    def _sleep(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._signals.wake, selectors.EVENT_READ)
            selector.select(_TICK)
        with contextlib.suppress(BlockingIOError):
            self._signals.wake.recv(4096)

    def _sever_silent(self, now: float) -> None:
        for node in self._alive():
            if node.connected and now - node.connection_heard > self._silence:
                node.sever(f"no word for {now - node.connection_heard:.0f} s")

    def _drain(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._take(self._events.get_nowait())

    def _take(self, event: Event) -> None:
        node = event.node
        match event.kind:
            case "said":
                say(f"{node.name}: {event.text}")
            case "told":
                fail(f"{node.name}: {event.text}", "host_failed")
            case "answered" if self._asking is not None:
                self._asking.take(event)
            case "broken" if not self._stopping:
                limit = max(0.0, self._given_up_after - (time.monotonic() - node.heard))
                say(f"{node.name}: the connection broke ({event.text}); trying again for {limit:.0f} s")
            case "back":
                say(f"{node.name}: connected again")
            case "gone" | "failed" if node not in self._lost and node.statuses() is None:
                if self._stopping:
                    self._lost[node] = event.text
                else:
                    self._give_up(node, event.text)

    # --- hosts that are lost ---

    def _give_up(self, node: Node, why: str) -> None:
        """A node will not come back, or only with nothing of the job running: the job ends, or goes on without it."""
        self._lost[node] = why
        node.over = True
        has = [*(f"server {i}" for i in node.share.servers), *(f"worker {i}" for i in node.share.workers)]
        has += [f"the workers of {address}" for address in node.want.takes]
        self._tell_lost(f"{node.name} ({node.address}) is lost, with {', '.join(has)}: {why}")
        reason = self._why_not_without(node)
        if reason:
            self._tell_lost(f"the job ends: {reason}")
            self._failure = 1
            return
        taken = (*([node.known_as] if node.share.workers else []), *node.want.takes)
        heir = min(self._heirs(), key=_load)
        say(f"the workers of {node.name} go on on {heir.name}")
        heir.want = replace(heir.want, takes=(*heir.want.takes, *taken))

    def _why_not_without(self, node: Node) -> str:
        if node.share.servers:
            return "what its servers hold is on its disk; when it is back, the job can be resumed"
        if self._if_lost != MOVE:
            return "with --if_lost=move, its workers would have gone on on another host"
        return "" if self._heirs() else "no host is left on which its workers could go on"

    def _heirs(self) -> list[Node]:
        """Nodes that can run workers: those have what workers need."""
        return [node for node in self._alive() if node.share.workers and not node.over]

    def _tell_lost(self, text: str) -> None:
        fail(f"flota launch: {text}", "host_lost")

    def _speak_for_the_silent(self) -> None:
        """Has somebody tell the servers that the workers of a silent host will be back: until it is decided what
        becomes of them, the others wait for them beyond their own deadlines."""
        silent = [node for node in self._nodes if (node in self._lost or not node.connected) and node.share.workers]
        started = {name for node in self._alive() for name in _that_train(node)}
        missing = [i for node in silent for i in node.workers() if f"worker {i}" not in started]
        speakers = [node for node in self._heirs() if node.connected]
        for node in self._alive():
            heralds = tuple(missing) if speakers and node is speakers[0] else ()
            if node.want.heralds != heralds:
                node.want = replace(node.want, heralds=heralds)


def _load(node: Node) -> tuple[int, ...]:
    return (len(node.want.takes), len(node.share.workers), len(node.share.servers), node.index)


def _that_train(node: Node) -> list[str]:
    """The workers of other hosts that make steps on this one."""
    return [row["name"] for part in node.parts[1:] for row in part["rows"] if row.get("step") is not None]
