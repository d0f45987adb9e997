"""A place as release 0.10 writes it: ``paddle.init(…)``, the ``PADDLE_INIT_*`` variables and ``paddle pserver``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from flota import checks, config
from flota.errors import InvalidArgument
from flota.roles.endpoints import check_endpoints, split_list
from flota.roles.placement import MAX_WORKERS, LocalRoleMaker, Placement, Role, RoleMaker
from flota.roles.places import tell_places
from flota.roles.secret import use_own_secret
from flota.tls import is_loopback

PREFIX = "PADDLE_INIT_"
MAX_PORTS = 64

_FLAGS = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True)
class PserverSettings:
    """The settings of 0.10, with the meaning and the defaults that its documents give.

    ``trainer_count`` is the number of trainers of the whole job, ``num_gradient_servers`` that of its pservers.
    ``pservers`` are hosts, all at ``port``; one that has another port is written host:port. A pserver listens at as
    many ports from its first one as the greater of ``ports_num`` and ``ports_num_for_sparse`` says: each is a server of
    its own, with a share of the dense parameters and of the rows.
    """

    use_gpu: bool = False
    trainer_count: int = 1
    port: int = 7164
    ports_num: int = 1
    ports_num_for_sparse: int = 1
    num_gradient_servers: int = 1
    trainer_id: int = 0
    pservers: str = "127.0.0.1"

    def __post_init__(self) -> None:
        checks.flag("use_gpu", self.use_gpu)
        checks.whole("trainer_count", self.trainer_count, 1, MAX_WORKERS)
        check_ports(self.port, self.ports_num, self.ports_num_for_sparse)
        checks.whole("num_gradient_servers", self.num_gradient_servers, 1, MAX_WORKERS)
        if not isinstance(self.pservers, str):
            raise InvalidArgument(f"pservers must be hosts with commas between them, not {self.pservers!r}")
        named = len(self.first_ports)
        if named != self.num_gradient_servers:
            raise InvalidArgument(
                f"num_gradient_servers={self.num_gradient_servers}, but pservers={self.pservers} names {named}: it is "
                "the number of pservers, and trainer_count that of trainers"
            )
        whole = f"trainer_id, with trainer_count={self.trainer_count} (the number of trainers of the whole job),"
        checks.whole(whole, self.trainer_id, 0, self.trainer_count - 1)

    @property
    def ports(self) -> int:
        return max(self.ports_num, self.ports_num_for_sparse)

    @property
    def first_ports(self) -> tuple[str, ...]:
        """The first endpoint of each pserver."""
        hosts = split_list("pservers", self.pservers)
        if not hosts:
            raise InvalidArgument("pservers is empty: name the host of each, such as 127.0.0.1")
        return check_endpoints("pservers", [_with_port(host, self.port) for host in hosts])

    @property
    def servers(self) -> tuple[str, ...]:
        """All servers of the job: those of a pserver one after the other."""
        first = (endpoint.rpartition(":") for endpoint in self.first_ports)
        return check_endpoints("pservers", [f"{host}:{int(p) + i}" for host, _, p in first for i in range(self.ports)])


def check_ports(port: int, ports_num: int, ports_num_for_sparse: int) -> None:
    checks.whole("port", port, 1, 65535)
    checks.whole("ports_num", ports_num, 1, MAX_PORTS)
    checks.whole("ports_num_for_sparse", ports_num_for_sparse, 0, MAX_PORTS)
    last = port + max(ports_num, ports_num_for_sparse) - 1
    if last > 65535:
        raise InvalidArgument(f"port={port}: the last of its ports would be {last}, and there is none above 65535")


def _with_port(host: str, port: int) -> str:
    bare = ":" not in host or host.endswith("]")
    return f"{host}:{port}" if bare else host


def settings_given(arguments: Mapping[str, Any]) -> tuple[PserverSettings, bool]:
    """The settings in effect: arguments, then ``PADDLE_INIT_*``, then the defaults; and whether they speak of a job. A
    process that is told of neither trainers nor pservers trains alone."""
    known = {field.name: field.type for field in fields(PserverSettings)}
    for name in arguments:
        if name not in known:
            raise checks.unknown("paddle.init", name, known)
    said = {name: os.environ.get(PREFIX + name.upper(), "").strip() for name in known}
    told = {name: _parse(name, str(known[name]), text) for name, text in said.items() if text}
    given = {**told, **arguments}
    job = any(name not in ("use_gpu", "trainer_count") for name in given) or given.get("trainer_count", 1) != 1
    return PserverSettings(**given), job


def _parse(name: str, kind: str, text: str) -> Any:
    variable = PREFIX + name.upper()
    if kind == "bool":
        if text.lower() not in _FLAGS:
            raise InvalidArgument(f"{variable}={text}: it must be True or False")
        return _FLAGS[text.lower()]
    if kind == "int":
        if not (text.isascii() and text.isdigit()):
            raise InvalidArgument(f"{variable}={text}: it must be a whole number")
        return int(text)
    return text


class PserverRoleMaker(RoleMaker):
    """A trainer of 0.10. The first one tells pservers their places, once it knows that they are there."""

    def __init__(self, settings: PserverSettings, *, job: bool = True) -> None:
        self._settings = settings
        self._job = job
        self._told = False

    def placement(self) -> Placement:
        if not self._job:
            return LocalRoleMaker().placement()
        settings = self._settings
        if not config.has_secret():
            away = [endpoint for endpoint in settings.servers if not is_loopback(endpoint)]
            if away:
                raise InvalidArgument(
                    f"pserver {away[0]} is on another host: set {config.SECRET}, or {config.SECRET_FILE} to the path "
                    "of a file that holds it, for all pservers and trainers"
                )
            use_own_secret()
        if settings.trainer_id == 0 and settings.num_gradient_servers > 1 and not self._told:
            tell_places(settings.first_ports)
            self._told = True
        return Placement(Role.WORKER, settings.trainer_id, settings.trainer_count, settings.servers)
