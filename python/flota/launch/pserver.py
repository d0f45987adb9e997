"""``flota pserver``: the parameter server of 0.10, in the foreground.

    flota pserver --port=7164 --ports_num=1 --ports_num_for_sparse=1 --num_gradient_servers=1

It serves one job after the other until SIGINT or SIGTERM; each begins with empty tables, which the trainers' script
fills. Trainers reach it by ``paddle.init(…)`` or ``PADDLE_INIT_*``; see ``flota.roles.pservers`` for what the numbers
mean.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType

from flota import _core, config
from flota.errors import FlotaError, InvalidArgument
from flota.roles.placement import MAX_WORKERS
from flota.roles.places import await_place
from flota.roles.pservers import PserverSettings, check_ports
from flota.roles.secret import use_own_secret
from flota.tls import protect_server, server_set

_LOOK_MS = 200  # how often a waiting pserver looks for a signal
_EVERYWHERE, _LOOPBACK = "0.0.0.0", "127.0.0.1"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="flota pserver",
        description="Serve parameters to trainers, one job after the other, until stopped.",
        epilog=f"The job's secret comes from {config.SECRET} or {config.SECRET_FILE}. Without one, pserver and "
        "trainers of this user on this host share one in ~/.config/flota/secret, and only 127.0.0.1 is listened at. "
        f"Other addresses need certificates: --certs, {config.CERTS} or FLOTA_TLS_*; or --insecure.",
        allow_abbrev=False,
    )
    default = PserverSettings()
    for name, text in (
        ("port", "first port to listen at"),
        ("ports_num", "how many ports, each a server of its own"),
        ("ports_num_for_sparse", "how many ports for rows; every port carries both kinds, so the greater number holds"),
        ("num_gradient_servers", "how many pservers the job has"),
    ):
        parser.add_argument(
            f"--{name}", type=int, default=getattr(default, name), metavar="N", help=f"{text} (default: %(default)s)"
        )
    parser.add_argument(
        "--host", help=f"address to listen at (default: {_EVERYWHERE} where a secret is set, else {_LOOPBACK})"
    )
    parser.add_argument("--certs", default="", metavar="DIR", help="certificates for TLS, as flota certs makes them")
    parser.add_argument("--insecure", action="store_true", help="listen off loopback without TLS")
    return parser


class Pserver:
    """One pserver: a server for each of its ports."""

    def __init__(self, host: str, port: int, ports: int, pservers: int, *, certs: str, insecure: bool) -> None:
        self._host = host
        self._port = port
        self._ports = ports
        self._pservers = pservers
        self._certs = certs
        self._insecure = insecure
        # Refused now what cannot be listened on: with several pservers, the first trainer is waited for before that.
        _core.Server.make(self._options(0, port))

    def serve(self, stopped: Callable[[], bool]) -> None:
        """One job: from the trainers' coming to their end."""
        place = self._place(stopped)
        if place is None:
            return
        servers: list[_core.Server] = []
        try:
            for i in range(self._ports):
                servers.append(_core.Server.start(self._options(place * self._ports + i, self._port + i)))
            where = ", ".join(server.endpoint for server in servers)
            print(f"flota pserver {place} of {self._pservers} listening on {where}", flush=True)
            for server in servers:
                while not stopped() and not server.wait(_LOOK_MS):
                    pass
        finally:
            for server in servers:
                server.stop()
        if not stopped():
            print("flota pserver: the trainers have ended; the next job begins with empty tables", flush=True)

    def _place(self, stopped: Callable[[], bool]) -> int | None:
        if self._pservers == 1:
            return 0
        where = f"{self._host}:{self._port}"
        print(f"flota pserver, one of {self._pservers}: the first trainer says which, at {where}", flush=True)
        return await_place(self._host, self._port, self._pservers, stopped)

    def _options(self, index: int, port: int) -> _core.ServerOptions:
        options = _core.ServerOptions()
        options.endpoint = f"{self._host}:{port}"
        options.secret = config.job_secret()
        options.index = index
        options.count = self._ports * self._pservers
        protect_server(options, server_set(self._certs) if self._certs else None, insecure=self._insecure)
        return options


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    stop_asked = False

    def ask_to_stop(_signal: int, _frame: FrameType | None) -> None:
        nonlocal stop_asked
        stop_asked = True

    try:
        check_ports(arguments.port, arguments.ports_num, arguments.ports_num_for_sparse)
        if not 1 <= arguments.num_gradient_servers <= MAX_WORKERS:
            raise InvalidArgument(f"--num_gradient_servers={arguments.num_gradient_servers}: a job has at least one")
        host = arguments.host or (_EVERYWHERE if config.has_secret() else _LOOPBACK)
        if not config.has_secret():
            if not host.startswith("127.") and host not in ("localhost", "::1"):
                raise InvalidArgument(
                    f"--host={host}: trainers on other hosts need a secret to know: set {config.SECRET}"
                )
            use_own_secret()
        signal.signal(signal.SIGINT, ask_to_stop)
        signal.signal(signal.SIGTERM, ask_to_stop)
        ports = max(arguments.ports_num, arguments.ports_num_for_sparse)
        pserver = Pserver(
            host, arguments.port, ports, arguments.num_gradient_servers,
            certs=arguments.certs, insecure=arguments.insecure,
        )  # fmt: skip
        while not stop_asked:
            pserver.serve(lambda: stop_asked)
    except FlotaError as error:
        print(f"flota pserver: {error}", file=sys.stderr)
        return 2 if isinstance(error, InvalidArgument) else 1
    return 0
