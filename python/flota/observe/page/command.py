"""``flota dashboard``: a running job on a page for browsers.

flota dashboard                                  # of the launch whose logs are in log/
flota dashboard --servers node1:6170,node2:6170  # from any machine that has the job's secret
flota dashboard --link                           # the token for a page of the job that is open already
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence

import uvicorn

from flota import _core, config, tls
from flota.errors import FlotaError, InvalidArgument
from flota.launch.listening import Place, check_protected, listen, read_place
from flota.launch.starting import end_with_parent
from flota.observe import attach
from flota.observe.page.bounds import SILENCE, Bounded
from flota.observe.page.door import Door, link, token
from flota.observe.page.site import Site
from flota.observe.page.watching import Watch

_LAST_ANSWERS = 1  # seconds that answers under way may take at the end
_MOST_LAST_WORDS = 1 << 20  # bytes


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="flota dashboard",
        description="Show a running job on a page for browsers: curves, processes, tables, errors. Ctrl-C ends it.",
        allow_abbrev=False,
    )
    attach.add_arguments(parser)
    parser.add_argument(
        "--listen", default="auto", metavar="[HOST:]PORT",
        help="(default: loopback, port 6180 or the next one that is free); a HOST that others reach needs the job's "
        "certificates or --insecure",
    )  # fmt: skip
    parser.add_argument("--insecure", action="store_true", help="no TLS, also where others reach the page")
    parser.add_argument("--link", action="store_true", help="print what opens a page of this job, and serve none")
    # Of a launch that starts this itself.
    parser.add_argument("--socket", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--launcher", type=int, help=argparse.SUPPRESS)
    return parser


def _opened(arguments: argparse.Namespace) -> tuple[Place, socket.socket]:
    place = read_place("--listen", arguments.listen)
    if arguments.socket is not None:  # the launch has opened and checked it
        return place, socket.socket(fileno=arguments.socket)
    check_protected("--listen", place, insecure=arguments.insecure)
    return place, listen("--listen", place)


def _certificate(place: Place, *, insecure: bool) -> dict[str, str]:
    """What makes uvicorn speak TLS: the certificate of the job's servers, where others reach the page."""
    if place.is_loopback or insecure or config.insecure():
        return {}
    options = _core.ServerOptions()
    tls.protect_server(options)
    if not options.tls.certificate:
        raise InvalidArgument(
            f"the certificates that {config.CERTS} names are a worker's: the page needs a server's, or --insecure"
        )
    return {"ssl_certfile": options.tls.certificate, "ssl_keyfile": options.tls.key}


def _origin(place: Place, listener: socket.socket, *, secure: bool) -> str:
    host = socket.gethostname() if place.host in ("0.0.0.0", "::") else place.host
    host = f"[{host}]" if ":" in host else host
    return f"{'https' if secure else 'http'}://{host}:{listener.getsockname()[1]}"


class _Server(uvicorn.Server):
    """``on_begin`` is called on the event loop when the page answers."""

    on_begin: Callable[[], None] = staticmethod(lambda: None)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self.config.ssl is not None:
            loop = asyncio.get_running_loop()
            # uvicorn has no setting for it, and asyncio gives strangers a minute.
            slow = functools.partial(loop.create_server, ssl_handshake_timeout=SILENCE)
            loop.create_server = slow  # type: ignore[method-assign]
        await super().startup(sockets)
        self.on_begin()


def _serve(arguments: argparse.Namespace) -> None:
    place, listener = _opened(arguments)
    attached = attach.attach(arguments)
    secret = config.job_secret()
    certificate = _certificate(place, insecure=arguments.insecure)
    origin = _origin(place, listener, secure=bool(certificate))
    loop: list[asyncio.AbstractEventLoop] = []

    def on_news() -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            if loop:
                loop[0].call_soon_threadsafe(site.news)
        if watch.seen.over and arguments.launcher is None:
            tell_once("the job is over: its curves stay here until Ctrl-C")

    said: set[str] = set()

    def tell_once(line: str) -> None:
        if line not in said:
            said.add(line)
            _say(line)

    watch = Watch(attached, on_news)
    site = Site(Door(secret, place.host, listener.getsockname()[1], tls=bool(certificate)), watch)
    server = _Server(
        uvicorn.Config(
            site.app, http=Bounded, ws="none", lifespan="off", loop="asyncio", log_level="error", access_log=False,
            server_header=False, proxy_headers=False, timeout_graceful_shutdown=_LAST_ANSWERS, **certificate,  # type: ignore[arg-type]
        )
    )  # fmt: skip

    def on_begin() -> None:
        loop.append(asyncio.get_running_loop())
        watch.start()
        _say(f"the dashboard is at {link(origin, secret)}")
        if arguments.launcher is not None:
            threading.Thread(target=_hear_the_end, args=(watch, server), name="flota end", daemon=True).start()

    server.on_begin = on_begin
    try:
        server.run(sockets=[listener])
    finally:
        watch.close()


def _hear_the_end(watch: Watch, server: uvicorn.Server) -> None:
    """The launch's last words end the page; so does its end without any."""
    line = sys.stdin.readline(_MOST_LAST_WORDS)
    processes = []
    with contextlib.suppress(ValueError, KeyError, TypeError):
        processes = list(json.loads(line)["processes"])
    watch.end(processes, "the launch has ended")
    server.should_exit = True


def _say(line: str) -> None:
    print(line, flush=True)


def _print_link(arguments: argparse.Namespace) -> None:
    attach.attach(arguments)
    _say(token(config.job_secret()))


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    if arguments.launcher is not None:
        end_with_parent()
        if os.getppid() != arguments.launcher:
            return 1
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        if arguments.link:
            _print_link(arguments)
        else:
            _serve(arguments)
    except FlotaError as error:
        print(f"flota dashboard: {error}", file=sys.stderr)
        return 2 if isinstance(error, InvalidArgument) else 1
    except (KeyboardInterrupt, BrokenPipeError):
        with contextlib.suppress(OSError):
            sys.stdout.close()
    sys.stdout.flush()
    if arguments.launcher is not None:
        os._exit(0)  # a look may be under way, and nobody waits for it
    return 0
