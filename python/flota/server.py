"""One parameter server, in the foreground: ``python -m flota.server --port 7164``.

The job's secret comes from ``FLOTA_SECRET`` or ``FLOTA_SECRET_FILE``, never from the command line, where every user of
the machine could read it. Off loopback it needs certificates, from flags or the environment, or ``--insecure``. When
the server listens it prints one line, ``flota server 0 of 1 listening on HOST:PORT``. It ends when a client asks
for it, or with SIGINT or SIGTERM. With ``--durable DIR`` what it holds outlives it: started again with the same folder,
it goes on where it was (docs/durability.md). With ``--health_port`` it tells over HTTP, at the same address, whether it
is alive and whether it serves (``flota.health``); with ``--metrics_port`` it tells Prometheus what it counts, on
loopback unless ``--metrics_host`` says otherwise (``flota.prometheus``). Flags win over the environment.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from types import FrameType

from flota import _core, config
from flota.durable import Durable, from_environment, keep_server
from flota.errors import FlotaError, InvalidArgument
from flota.health import open_health_port
from flota.log import as_json, say, speak_as, take_server_lines
from flota.prometheus.page import open_metrics_port
from flota.prometheus.server import server_counts
from flota.tls import ServerTls, protect_server, server_set

# How often the waiting thread looks for a signal.
_LOOK_MS = 200


def _not_negative(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"must not be negative, not {number}")
    return number


def _at_least_1(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {number}")
    return number


def _port(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"a port is between 1 and 65535, not {number}")
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m flota.server", description="Run one parameter server.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=0, help="port to listen on; 0 takes a free one (default)")
    parser.add_argument(
        "--index", type=_not_negative, default=0, help="this server's place among all, from 0 (default)"
    )
    parser.add_argument("--servers", type=_at_least_1, default=1, help="how many servers the job has (default: 1)")
    parser.add_argument("--tls-certificate", default="", metavar="FILE", help="PEM certificate for TCP connections")
    parser.add_argument("--tls-key", default="", metavar="FILE", help="PEM key of the certificate")
    parser.add_argument("--tls-authority", default="", metavar="FILE", help="demand client certificates signed by it")
    parser.add_argument("--certs", default="", metavar="DIR", help="all of these: a folder that flota certs made")
    parser.add_argument("--insecure", action="store_true", help="listen off loopback without TLS")
    parser.add_argument("--no-local-sockets", action="store_true", help="serve TCP only, also peers on this host")
    parser.add_argument(
        "--max-connections", type=_at_least_1, default=4096, help="most connections at once (default: 4096)"
    )
    parser.add_argument("--until-stdin-ends", action="store_true", help="end when standard input does")
    parser.add_argument(
        "--durable",
        default="",
        metavar="DIR",
        help="keep all that it holds in this folder (default: one in FLOTA_DURABLE_DIR, if set)",
    )
    parser.add_argument(
        "--durable_sync", action="store_true", help="answer when a change is on the disk: it outlives the machine too"
    )
    parser.add_argument(
        "--snapshot_seconds",
        type=float,
        metavar="S",
        help="longest time between two snapshots (default: FLOTA_SNAPSHOT_SECONDS, or 300)",
    )
    parser.add_argument(
        "--snapshot_mb",
        type=float,
        metavar="MB",
        help="least redo log between two snapshots in MiB (default: FLOTA_SNAPSHOT_MB, or 256)",
    )
    parser.add_argument(
        "--recover_before_damage", action="store_true", help="use a damaged redo log up to where it is damaged"
    )
    parser.add_argument(
        "--health_port",
        type=_port,
        metavar="PORT",
        help="answer GET /healthz and /readyz there (default: FLOTA_HEALTH_PORT, or nowhere)",
    )
    parser.add_argument(
        "--metrics_port",
        type=_port,
        metavar="PORT",
        help="answer GET /metrics there (default: FLOTA_METRICS_PORT, or nowhere)",
    )
    parser.add_argument(
        "--metrics_host",
        default="",
        metavar="HOST",
        help="address of that port (default: FLOTA_METRICS_HOST, or 127.0.0.1)",
    )
    parser.add_argument("--max-payload-mb", type=_at_least_1, default=256, help="largest message in MiB (default: 256)")
    return parser


def _options(arguments: argparse.Namespace) -> _core.ServerOptions:
    options = _core.ServerOptions()
    host = f"[{arguments.host}]" if ":" in arguments.host else arguments.host
    options.endpoint = f"{host}:{arguments.port}"
    options.secret = config.job_secret()
    options.index = arguments.index
    options.count = arguments.servers
    options.local_sockets = not arguments.no_local_sockets
    options.max_connections = arguments.max_connections
    options.max_payload = arguments.max_payload_mb << 20
    protect_server(options, _tls(arguments), insecure=arguments.insecure)
    keep_server(options, _durable(arguments))
    take_server_lines(options)
    return options


def _check_metrics(arguments: argparse.Namespace) -> None:
    if arguments.metrics_host and arguments.metrics_port is None and config.metrics_port() is None:
        raise InvalidArgument("--metrics_host is the address of a port that nobody asked for: give --metrics_port")


def _durable(arguments: argparse.Namespace) -> Durable | None:
    """How this server is kept: flags win over the environment, and that over what holds where nothing is said."""
    given = {
        name: value
        for name, value in (
            ("sync", arguments.durable_sync or None),
            ("snapshot_seconds", arguments.snapshot_seconds),
            ("snapshot_mb", arguments.snapshot_mb),
            ("before_damage", arguments.recover_before_damage or None),
        )
        if value is not None
    }
    kept = from_environment(arguments.index, arguments.durable)
    if kept is None and given:
        raise InvalidArgument(f"{', '.join(given)}: how to keep what a server holds; name the folder by --durable")
    return kept and replace(kept, **given)


def _tls(arguments: argparse.Namespace) -> ServerTls | None:
    files = ServerTls(arguments.tls_certificate, arguments.tls_key, arguments.tls_authority)
    if files == ServerTls():
        return server_set(arguments.certs) if arguments.certs else None
    if arguments.certs:
        raise InvalidArgument("--certs names a whole set, and so do --tls-…: give one of them")
    return files


def _wait_for_stdin(server: _core.Server) -> None:
    # A parent that dies, in whatever way, closes its end of the pipe. Not through sys.stdin: its lock, held by a thread
    # that waits for ever, would make the interpreter abort at its end.
    while os.read(0, 4096):
        pass
    server.stop()


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    stop_asked = False

    def ask_to_stop(_signal: int, _frame: FrameType | None) -> None:
        nonlocal stop_asked
        stop_asked = True

    signal.signal(signal.SIGINT, ask_to_stop)
    signal.signal(signal.SIGTERM, ask_to_stop)
    try:
        speak_as("server", arguments.index)
        _check_metrics(arguments)
        # Before what may take long: recovering.
        health = open_health_port(arguments.host, arguments.health_port)
        server = _core.Server.start(_options(arguments))
        metrics = open_metrics_port(
            "server", arguments.index, server_counts(server), host=arguments.metrics_host, port=arguments.metrics_port
        )
    except FlotaError as error:
        if as_json():
            say("refused", str(error), "error")
        else:
            print(f"flota server: {error}", file=sys.stderr)
        return 1
    if arguments.until_stdin_ends:
        threading.Thread(target=_wait_for_stdin, args=(server,), daemon=True).start()
    if health is not None:
        health.ready = True
    print(f"flota server {arguments.index} of {arguments.servers} listening on {server.endpoint}", flush=True)
    while not stop_asked and not server.wait(_LOOK_MS):
        pass
    server.stop()
    for port in (health, metrics):
        if port is not None:
            port.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
