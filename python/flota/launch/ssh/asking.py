"""Other numbers of workers that the head is asked for: a node asks the servers, and its answers are handed on."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Sequence
from dataclasses import replace

from flota.launch.changes import pass_on
from flota.launch.control import Asker, Control
from flota.launch.ssh.node import Event, Node


class Asking:
    def __init__(self, control: Control) -> None:
        self._control = control
        self._numbers = itertools.count(1)
        self._under_way: dict[int, tuple[Node, Asker]] = {}

    def update(self, alive: Sequence[Node]) -> None:
        """Hears what is asked. ``alive``: nodes that are not lost."""
        for workers, asker in self._control.numbers():
            node = next((node for node in alive if node.connected and node.share.takes_workers and not node.over), None)
            if node is None:
                asker.end("no host of the job can be reached: again when one is", done=False)
                continue
            # A change goes on also where nobody waits any more, until somebody asks for another one.
            for number in [number for number, (_, before) in self._under_way.items() if before.gone]:
                self._forget(number)
            number = next(self._numbers)
            self._under_way[number] = (node, asker)
            node.want = replace(node.want, asks=(*node.want.asks, (number, workers)))
        for number, (node, asker) in list(self._under_way.items()):
            if node not in alive or node.over:
                asker.end(f"{node.name} is lost, which had asked the servers; what they have heard goes on", done=False)
                self._forget(number)

    def take(self, event: Event) -> None:
        """An answer."""
        if event.of not in self._under_way:
            return
        with contextlib.suppress(ValueError):
            told = json.loads(event.text)
            pass_on(told, self._under_way[event.of][1])
            if "end" in told:
                self._forget(event.of)

    def close(self) -> None:
        for number, (_, asker) in list(self._under_way.items()):
            asker.end("the job has ended", done=False)
            self._forget(number)

    def _forget(self, number: int) -> None:
        node, _ = self._under_way.pop(number)
        node.want = replace(node.want, asks=tuple(ask for ask in node.want.asks if ask[0] != number))
