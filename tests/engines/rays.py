"""Ray clusters for tests: on several hosts, or several nodes on one, and launches on them."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from hosts import Host, Hosts, Running

from waiting import wait_until

BIN = Path(sys.executable).parent
NODES = Path(__file__).with_name("ray_nodes.py")
# Each host has Ray's folder for itself, which ends with it. Its path must be short: there are sockets in it.
PRIVATE = ("/root/.ssh", "/tmp/ray")
# Nobody is called; a busy machine is given time; a node that is lost is noticed in seconds, not in Ray's minute.
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_raylet_start_wait_time_s": "100",
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "1500",
}
START = 140.0  # seconds that a busy machine may take
LONGEST = 110.0


def environment(**settings: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FLOTA_", "PADDLE_", "RAY_"))}
    return {**kept, **ENVIRONMENT, **settings}


class Launch:
    """``flota launch --on ray`` on a host, in a folder of its own."""

    def __init__(self, host: Host, folder: Path, *words: object, **settings: str) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self._host = host
        self._environment = environment(**settings)
        self.running: Running = host.start(
            [BIN / "flota", "launch", "--on=ray", *map(str, words)], cwd=folder, env=self._environment
        )

    @property
    def output(self) -> str:
        return self.running.output

    def log(self, name: str) -> str:
        with contextlib.suppress(FileNotFoundError):
            return (self.folder / "log" / name).read_text(errors="replace")
        return ""

    def wait_for(self, text: str, log: str = "", timeout: float = LONGEST) -> None:
        """Until it has printed this, or one of its processes has."""

        def said() -> bool:
            found = re.search(text, self.log(log) if log else self.output, re.MULTILINE) is not None
            assert found or self.running.status is None, self.output
            return found

        try:
            wait_until(said, timeout)
        except AssertionError:
            printed = self.log(log) if log else ""
            raise AssertionError(f"no {text!r} after {timeout:g} s:\n{self.output}{printed}") from None

    def scale(self, workers: int, *flags: str) -> tuple[int, str]:
        """Its exit status, and what it said."""
        command = [BIN / "flota", "scale", "--workers", str(workers), *flags]
        scale = self._host.start(command, cwd=self.folder, env=self._environment)
        return scale.wait(LONGEST), scale.output

    def place_of(self, name: str) -> str:
        """The address of the node that a process was placed on."""
        found = re.search(rf"{name} is on (?:\S+ \()?([0-9.]+)\)?$", self.output, re.MULTILINE)
        assert found, self.output
        return found[1]

    def wait(self, timeout: float = LONGEST) -> int:
        return self.running.wait(timeout)


class Nodes:
    """Several nodes of Ray's on one host, each at an address of its own; ``head``: where drivers find them."""

    def __init__(self, host: Host, addresses: list[str], running: Running, orders: int) -> None:
        self.host = host
        self.addresses = addresses
        self._running = running
        self._orders = orders
        self._said = 0
        self.head = self._answer("ready")

    @contextlib.contextmanager
    def without(self, address: str) -> Iterator[None]:
        """Ends all of a node's processes at once, with SIGKILL; afterwards there is a node again."""
        os.write(self._orders, f"kill {address}\n".encode())
        self._answer("killed")
        try:
            yield
        finally:
            os.write(self._orders, f"add {address}\n".encode())
            self._answer("added")

    def _answer(self, word: str) -> str:
        def answers() -> list[str]:
            return re.findall(rf"^{word} (\S+)$", self._running.output[self._said :], re.MULTILINE)

        def there() -> bool:
            assert self._running.status is None, self._running.output
            return bool(answers())

        wait_until(there, START)
        found = answers()[0]
        self._said = len(self._running.output)
        return found


@contextlib.contextmanager
def nodes_on_one_host(folder: Path, count: int, cpus: int) -> Iterator[Nodes]:
    # What a host that is switched off leaves is in a folder for temporary files that ends with the test.
    with tempfile.TemporaryDirectory(prefix="fr-", dir="/tmp") as short, Hosts(folder, 1, private=PRIVATE) as hosts:
        host = hosts[0]
        network = host.address.rpartition(".")[0]
        addresses = [f"{network}.{100 + i}" for i in range(count)]
        for address in addresses:
            host.run(["ip", "address", "add", f"{address}/24", "dev", "eth0"])
        reading, writing = os.pipe()
        try:
            with os.fdopen(reading) as orders:
                running = host.start(
                    [sys.executable, NODES, cpus, host.address, *addresses],
                    env=environment(TMPDIR=short, RAY_TMPDIR="/tmp"),
                    stdin=orders,
                )
            yield Nodes(host, addresses, running, writing)
        finally:
            os.close(writing)


@contextlib.contextmanager
def ray_on_hosts(folder: Path, count: int, cpus: int, **settings: str) -> Iterator[Hosts]:
    """Ray started by hand on several hosts, each with a folder for temporary files of its own."""
    with tempfile.TemporaryDirectory(prefix="fr-", dir="/tmp") as short, Hosts(folder, count, private=PRIVATE) as hosts:
        head = f"{hosts[0].address}:6379"
        for host in hosts:
            temporary = Path(short, host.name)
            temporary.mkdir()
            is_head = host is hosts[0]
            where = ["--head", "--port=6379", "--include-dashboard=false", "--temp-dir=/tmp/ray"]
            running = host.start(
                [
                    BIN / "ray", "start", *(where if is_head else [f"--address={head}"]), "--block",
                    f"--node-ip-address={host.address}", f"--num-cpus={cpus}", "--object-store-memory=80000000",
                    "--disable-usage-stats",
                ],
                env=environment(TMPDIR=str(temporary), **settings),
            )  # fmt: skip
            wait_until(lambda running=running: "Ray runtime started" in running.output, START)
        yield hosts
