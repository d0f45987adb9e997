"""Who may see a job's page: whoever has its link, which is made of the job's secret and does not tell it.

token    of the link: HMAC of the secret, so that the page and ``flota dashboard --link`` know it without each other
cookie   what a browser gets for the token: of this page's process alone, and of no use to another one
host     what a request may call this page: a name that somebody else's DNS can lead here is none of them
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import secrets
import socket
from http.cookies import CookieError, SimpleCookie
from urllib.parse import quote

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def token(secret: str) -> str:
    """What opens the page of the job that has this secret. Half of the HMAC, which nobody guesses either, so that a
    link fits on one line of a terminal and can be clicked there."""
    whole = hmac.new(secret.encode(), b"flota page: link 1", hashlib.sha256).digest()
    return base64.urlsafe_b64encode(whole[:16]).decode().rstrip("=")


def link(origin: str, secret: str) -> str:
    return f"{origin}/login?token={quote(token(secret))}"


class Door:
    def __init__(self, secret: str, host: str, port: int, *, tls: bool) -> None:
        """``host``: where the page listens."""
        self._token = token(secret).encode()
        self._session = secrets.token_urlsafe(32).encode()
        self._tls = tls
        # Cookies do not tell ports apart: pages of several jobs on one host have cookies of their own.
        self.cookie = f"flota_{port}"
        self._hosts = _LOOPBACK | {host.lower(), socket.gethostname().lower(), socket.getfqdn().lower()}

    def opens(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self._token)

    def is_known(self, cookies: str) -> bool:
        """Whether a request with this Cookie header comes from somebody who has come in."""
        try:
            found = SimpleCookie(cookies).get(self.cookie)
        except CookieError:
            return False
        return found is not None and hmac.compare_digest(found.value.encode(), self._session)

    def set_cookie(self) -> str:
        """The Set-Cookie header for one whose token opened it."""
        secure = "; Secure" if self._tls else ""
        return f"{self.cookie}={self._session.decode()}; Path=/; HttpOnly; SameSite=Strict{secure}"

    def is_called(self, host: str) -> bool:
        """Whether a Host header names this page. An address does: only names can be led elsewhere. Any port: it may be
        reached through a tunnel."""
        name = host.strip().lower()
        if name.startswith("["):
            name = name[1:].partition("]")[0]
        elif name.count(":") == 1:
            name = name.partition(":")[0]
        if name in self._hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True
