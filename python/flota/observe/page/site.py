"""What is at which path of the page, and the checks that every request passes before anything is looked at.

GET /                  the page                    GET /data/history    curves so far
GET /login?token=…     a cookie for the link       GET /data/stream     server-sent events, one for each look
GET /static/NAME       its styles and modules      GET /data/heat       what is asked for of each table
                                                   GET /data/log?name=  the end of a process's log
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from flota.observe.page.door import Door
from flota.observe.page.watching import Watch

MOST_STREAMS = 24
_BEAT = 15.0  # seconds after which a stream says that it is there, for want of news

_STATIC = Path(__file__).with_name("static")
_KINDS = {
    ".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}  # fmt: skip
# For everybody: what the page that asks for the link looks like.
_OPEN = ("/login", "/static/door.css", "/static/icon.svg", "/static/enter.js")

_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class Site:
    """One page of one job. Its methods run on the event loop of ``run``'s server."""

    def __init__(self, door: Door, watch: Watch) -> None:
        self._door = door
        self._watch = watch
        self._files = {file.name: (file.read_bytes(), _KINDS[file.suffix]) for file in sorted(_STATIC.iterdir())}
        self._streams: set[asyncio.Event] = set()
        routes = [
            Route("/", lambda _: self._file("index.html")),
            Route("/login", self._login),
            Route("/static/{name}", lambda request: self._file(request.path_params["name"])),
            Route("/data/history", self._history),
            Route("/data/heat", lambda _: _data(self._watch.seen.heat)),
            Route("/data/log", self._log),
            Route("/data/stream", self._stream),
        ]
        self.app: ASGIApp = _Checked(Starlette(routes=routes), door, self._file("door.html", 401))

    def news(self) -> None:
        """There is something new for those who watch."""
        for stream in self._streams:
            stream.set()

    def _file(self, name: str, status: int = 200) -> Response:
        if name not in self._files:
            return Response("there is no such file\n", 404, media_type="text/plain")
        content, kind = self._files[name]
        return Response(content, status, media_type=kind)

    async def _login(self, request: Request) -> Response:
        if not self._door.opens(request.query_params.get("token", "").strip()):
            return self._file("door.html", 401)
        # Not a redirect: a link in somebody else's page would lead to one whose cookie, being strict, is not sent.
        answer = self._file("enter.html")
        answer.headers["set-cookie"] = self._door.set_cookie()
        return answer

    async def _history(self, _: Request) -> Response:
        return _data(await asyncio.to_thread(self._watch.history))

    async def _log(self, request: Request) -> Response:
        lines = await asyncio.to_thread(self._watch.log, request.query_params.get("name", ""))
        if lines is None:
            return Response("no process of that name has a log on this host\n", 404, media_type="text/plain")
        return _data(json.dumps({"lines": lines}).encode())

    async def _stream(self, _: Request) -> Response:
        if len(self._streams) >= MOST_STREAMS:
            return Response("too many watch this page at the same time\n", 503, headers={"retry-after": "5"})
        return StreamingResponse(self._events(), media_type="text/event-stream")

    async def _events(self) -> AsyncIterator[bytes]:
        news = asyncio.Event()
        if len(self._streams) >= MOST_STREAMS:  # others came while this one was answered
            return
        self._streams.add(news)
        self._watch.count(+1)
        try:
            sent = 0
            yield b"retry: 2000\n\n"
            while True:
                seen = self._watch.seen
                # Who reads slowly gets the newest, and not all that came meanwhile.
                if seen.number > sent:
                    sent = seen.number
                    yield b"data: " + seen.event + b"\n\n"
                if seen.over:
                    return
                try:
                    await asyncio.wait_for(news.wait(), _BEAT)
                except asyncio.TimeoutError:
                    yield b": here\n\n"
                news.clear()
        finally:
            self._streams.discard(news)
            self._watch.count(-1)


def _data(content: bytes) -> Response:
    return Response(content, media_type="application/json")


class _Checked:
    """The checks, and the headers that all answers have."""

    def __init__(self, app: ASGIApp, door: Door, refused: Response) -> None:
        self._app = app
        self._door = door
        self._refused = refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        refusal = self._refusal(scope)

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                if message["status"] >= 400:
                    headers["connection"] = "close"  # strangers keep none
            await send(message)

        await (refusal or self._app)(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if scope["method"] not in ("GET", "HEAD"):
            return Response("this page changes nothing: GET only\n", 405, headers={"allow": "GET, HEAD"})
        if len(headers.getlist("host")) != 1 or not self._door.is_called(headers["host"]):
            return Response("this page is not called so: open it by the link that was printed\n", 421)
        path: str = scope["path"]
        # A page of another port of this host is the same site to a browser, and has no business here.
        if path.startswith("/data/") and headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return Response("not from another page\n", 403)
        if path in _OPEN or self._door.is_known(headers.get("cookie", "")):
            return None
        return self._refused
