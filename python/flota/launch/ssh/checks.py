"""What is looked at on every node before anything starts on any: all at once, and all problems are told together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

from flota.errors import FlotaError, SystemFailure
from flota.launch.hosts import Endpoint
from flota.launch.saying import show
from flota.launch.signals import Signals
from flota.launch.ssh.connection import Refused, Unreachable
from flota.launch.ssh.node import Node

_ANSWER = 60.0  # seconds for a request that takes a moment only
_REACH = 5.0  # seconds for a connection between two nodes
_MOST_THREADS = 64


class Interrupted(Exception):
    """A signal came; its number, and what to say."""

    def __init__(self, number: int, text: str = "interrupted before anything was started") -> None:
        super().__init__(text)
        self.number = number


def on_each(nodes: Sequence[Node], work: Callable[[Node], Any], signals: Signals) -> dict[Node, Any | FlotaError]:
    """Does it on all nodes at once; by node what came out, or the error. ``Interrupted``: they are all left."""
    with ThreadPoolExecutor(min(_MOST_THREADS, len(nodes) or 1)) as pool:
        futures: dict[Future[Any], Node] = {pool.submit(work, node): node for node in nodes}
        left = set(futures)
        while left:
            _, left = wait(left, timeout=0.1, return_when=FIRST_COMPLETED)
            if signals.received:
                for node in nodes:
                    node.sever()  # whoever waits for it goes on
                pool.shutdown(cancel_futures=True)
                raise Interrupted(signals.received.pop())  # one more hurries what is yet to end
        results: dict[Node, Any | FlotaError] = {}
        for future, node in futures.items():
            error = future.exception()
            if error is not None and not isinstance(error, FlotaError):
                raise error
            results[node] = future.result() if error is None else error
        return {node: results[node] for node in nodes}


@dataclass
class Findings:
    """What was found out of a node, and what is wrong."""

    facts: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


class Checks:
    """The checks of a job's nodes. ``found`` fills as they go on; nodes with which something is wrong are left out of
    what needs it."""

    def __init__(self, nodes: Sequence[Node], signals: Signals) -> None:
        self._nodes = nodes
        self._signals = signals
        self.found = {node: Findings() for node in nodes}

    def all(
        self, workspaces: dict[Node, str], script: str, servers: list[Endpoint], workers: list[Endpoint], *, make: bool,
        job: str,
    ) -> None:  # fmt: skip
        """Everything, in the order in which one thing needs another. ``make``: the workspace need not be there."""
        self._do(lambda node: self.found[node].facts.update(node.ask("facts", _ANSWER)))
        self._compare()
        self._do(lambda node: self._find_workspace(node, workspaces[node], script, make=make, job=job))
        self._listen(servers, workers)
        self._reach(servers)
        self._do(lambda node: node.ask("unlisten", _ANSWER))

    def connect(self) -> None:
        """Starts the agents. One that could not be started says so when it is asked for the first time."""
        self._do(lambda node: node.connect())

    def refuse(self) -> None:
        """Shows what was found, and raises where anything is wrong."""
        show(self._table())
        wrong = [(node, problem) for node in self._nodes for problem in self.found[node].problems]
        if wrong:
            lines = "\n".join(f"  {node.name}: {problem}" for node, problem in wrong)
            raise SystemFailure(f"nothing was started:\n{lines}")

    def _sound(self) -> list[Node]:
        return [node for node in self._nodes if not self.found[node].problems]

    def _answering(self) -> list[Node]:
        return [node for node in self._nodes if self.found[node].facts]

    def _do(self, work: Callable[[Node], Any]) -> None:
        nodes = [node for node in self._nodes if node in self._sound() or node in self._answering()]
        for node, result in on_each(nodes, work, self._signals).items():
            if isinstance(result, (Refused, Unreachable)):
                self.found[node].problems.append(str(result))
                self.found[node].facts.clear()  # nothing more can be asked there
            elif isinstance(result, FlotaError):
                self.found[node].problems.append(str(result))

    def _compare(self) -> None:
        from flota import _core

        here = metadata.version("flota")
        for node in self._answering():
            findings = self.found[node]
            facts, where = findings.facts, findings.facts["executable"]
            if facts["flota"] != here:
                findings.problems.append(
                    f"its Python ({where}) has flota {facts['flota']}, and this is flota {here}: install the same there"
                )
            elif facts["wire"] != _core.PROTOCOL_VERSION:
                findings.problems.append(
                    f"its flota ({where}) speaks version {facts['wire']} of the wire protocol, and this one "
                    f"{_core.PROTOCOL_VERSION}: install the same build there"
                )
            if not facts["torch"]:
                findings.problems.append(f"its Python ({where}) has no torch: install it there")

    def _find_workspace(self, node: Node, path: str, script: str, *, make: bool, job: str) -> None:
        found = node.ask("workspace", _ANSWER, path=path, make=make, script=script, job=job, node=node.index)
        node.workspace = found["path"]
        if found["problem"]:
            self.found[node].problems.append(found["problem"])

    def _listen(self, servers: list[Endpoint], workers: list[Endpoint]) -> None:
        alone = len(self._nodes) == 1

        def listen(node: Node) -> None:
            places = [(f"server {i}", servers[i].address, servers[i].port) for i in node.share.servers]
            places += [(f"worker {i}", workers[i].address, workers[i].port) for i in node.share.workers]
            self.found[node].problems += node.ask("listen", _ANSWER, places=places, alone=alone)["problems"]

        self._do(listen)

    def _reach(self, servers: list[Endpoint]) -> None:
        """From every node to every server."""
        homes = {i: node for node in self._answering() for i in node.share.servers}
        indices = sorted(homes)
        if not indices:
            return

        def reach(node: Node) -> None:
            targets = [(servers[i].address, servers[i].port) for i in indices]
            for at, why in node.ask("reach", _ANSWER, targets=targets, timeout=_REACH)["failures"]:
                home = homes[indices[at]]
                if home is node or self._lacks_listener(home, servers[indices[at]]):
                    continue  # told already
                self.found[node].problems.append(
                    f"{node.name} cannot reach server {indices[at]} of {home.name} at {servers[indices[at]]} ({why}): "
                    "a firewall, or an address that only some know (address: in hosts.yaml)"
                )

        self._do(reach)

    def _lacks_listener(self, home: Node, endpoint: Endpoint) -> bool:
        marks: Iterable[str] = (
            f"port {endpoint.port} ",
            f"address {endpoint.address},",
            f"{endpoint.address}, at",
            f" {endpoint}:",
        )
        return any(mark in problem for problem in self.found[home].problems for mark in marks)

    def _table(self) -> str:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(title="the job's hosts", title_justify="left", title_style="bold")
        for name in ("host", "address", "Python", "flota", "torch", "cores", "runs", "workspace", ""):
            table.add_column(name, overflow="fold")
        for node in self._nodes:
            facts = self.found[node].facts
            problems = len(self.found[node].problems)
            cells = [str(facts.get(name, "-")) or "none" for name in ("python", "flota", "torch", "cores")]
            verdict = "good" if not problems else f"{problems} problem{'s' * (problems > 1)}"
            runs = [*(f"server {i}" for i in node.share.servers), *(f"worker {i}" for i in node.share.workers)]
            row = [node.name, node.address, *cells, _brief(runs), node.workspace or "-", verdict]
            table.add_row(*(Text(cell) for cell in row))
        console = Console(width=None if Console().is_terminal else 140)
        with console.capture() as captured:
            console.print(table)
        return captured.get().rstrip()


def _brief(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])}, … {len(names)} in all"
