"""What a launch tells a node's agent to run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Spec:
    """What the node is to run, as the launch says it."""

    argv: list[str]  # flags of flota launch
    environment: dict[str, str]  # of each part, the secret among it
    addresses: list[str]  # as the job knows this host; several where it took over another's
    logs: str  # folder, from the workspace on
    servers: list[int]
    workers: list[int]
    node: int
    note: str  # where the node's number is written down, from the workspace on
    certs: dict[str, str]  # PEM files by name
    timeout: float
    lost_after: float
    beat: float  # seconds between two signs of life
    resume: bool
    mark: str  # a file that is in the folder of logs if the head sees it, too
    servers_are: dict[str, str]  # what whoever speaks to the servers for a worker is told
