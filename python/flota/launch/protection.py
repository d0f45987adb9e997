"""What a launch gives the processes of a job so that nobody else takes part in it: a secret, and certificates."""

from __future__ import annotations

import secrets
from pathlib import Path

from flota import certificates, config, tls
from flota.errors import InvalidArgument
from flota.launch.plan import Plan

_UNSET = dict.fromkeys(config.PROTECTION, "")


def check_protection(plan: Plan) -> None:
    """Refuses, before anything is started, a job that would lack a secret or certificates, or cannot read them."""
    if config.has_secret():
        config.job_secret()
    elif not plan.alone:
        raise InvalidArgument(
            f"a job on several hosts needs a secret that all of them know: set {config.SECRET}, or "
            f"{config.SECRET_FILE} to the path of a file that holds it, on each"
        )
    certs = plan.arguments.certs
    if certs and plan.arguments.insecure:
        raise InvalidArgument("--certs and --insecure contradict each other: with certificates there is TLS")
    if certs:
        _check_set(plan, certs)
    elif not _is_said(plan) and _away(plan) and not plan.alone:
        raise InvalidArgument(
            f"{_away(plan)[0]} is reached over a network, and the job has no certificates: make some with `flota "
            f"certs` and give them by --certs or {config.CERTS} on each host, or allow traffic that anybody on that "
            "network can read and change, with --insecure"
        )


def protection(plan: Plan, folder: Path) -> tuple[dict[str, str], str | None]:
    """What to add to the environment of every process, never to a command line; and a note for the user.

    ``folder`` can be entered by this user alone and goes away with the launch: certificates are made there for a job
    that is all this launch's own. Requires: ``check_protection`` passed.
    """
    settings = {} if config.has_secret() else {config.SECRET: secrets.token_hex(32)}
    arguments = plan.arguments
    # Flags win over the environment, which the processes inherit.
    if arguments.insecure:
        return {**settings, **_UNSET, config.INSECURE: "1"}, None
    if arguments.certs:
        return {**settings, **_UNSET, config.CERTS: str(Path(arguments.certs).resolve())}, None
    if text := config.certs_text():
        # Unpacked once for all, into the folder that goes away with this launch in whatever way it ends.
        return {**settings, **_UNSET, config.CERTS: str(certificates.unpack(text, folder / "certs"))}, None
    if _is_said(plan) or not _away(plan):
        return settings, None
    hosts = list(dict.fromkeys(endpoint.address for endpoint in plan.servers))
    made = certificates.make_job_set(folder / "certs", hosts)
    note = f"TLS for {', '.join(hosts)}: this launch has made certificates, which end with it (--insecure: none)"
    return {**settings, config.CERTS: str(made)}, note


def _is_said(plan: Plan) -> bool:
    """Whether somebody has decided, by flag or environment."""
    return plan.arguments.insecure or config.insecure() or config.has_certificates()


def _away(plan: Plan) -> list[str]:
    """The servers that other hosts can reach."""
    return [str(endpoint) for endpoint in plan.servers if not tls.is_loopback(str(endpoint))]


def _check_set(plan: Plan, certs: str) -> None:
    roles = {member.role for member in plan.members}
    if "server" in roles:
        tls.server_set(certs)
    if "worker" in roles:
        tls.client_set(certs)
