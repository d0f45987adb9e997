"""Kubernetes by ``kubectl``, which whoever runs it has, with their credentials in place."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from flota.errors import InvalidArgument, SystemFailure

Object = dict[str, Any]

_REQUEST_SECONDS = 30
_COMMAND_SECONDS = 120.0  # for a command of several requests
_LOGGED = re.compile(r"[IWEF]\d{4} \d\d:\d\d:\d\d")  # a line of its log; what it has to say, it says below again


@dataclass(frozen=True)
class Kubectl:
    """A cluster and a namespace; "": as kubectl is set up."""

    context: str = ""
    namespace: str = ""

    def command(self, words: Iterable[str]) -> list[str]:
        program = shutil.which("kubectl")
        if program is None:
            raise InvalidArgument(
                "kubectl is not on PATH: jobs on Kubernetes are started and watched with it; install it, or print what "
                "it would be given with --dry-run"
            )
        place = [f"--context={self.context}"] if self.context else []
        place += [f"--namespace={self.namespace}"] if self.namespace else []
        return [program, *place, *words]

    def run(self, words: Sequence[str], *, seconds: float = 0) -> str:
        """What it printed; ``seconds``: beside its requests' it may wait so long for the cluster. Raises SystemFailure
        with its words where it failed."""
        done = self.tried(words, seconds=seconds)
        if done.returncode != 0:
            raise SystemFailure(f"kubectl {words[0]}: {reason(done.stderr)}")
        return done.stdout

    def tried(
        self, words: Sequence[str], *, given: str | None = None, seconds: float = 0
    ) -> subprocess.CompletedProcess[str]:
        command = self.command([f"--request-timeout={_REQUEST_SECONDS}s", *words])
        try:
            return subprocess.run(
                command, input=given, stdin=None if given is not None else subprocess.DEVNULL,
                capture_output=True, text=True, errors="replace", timeout=seconds + _COMMAND_SECONDS,
                start_new_session=True,  # Ctrl-C is for this process, which ends the job in order
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise SystemFailure(
                f"kubectl {words[0]} did not come back within {seconds + _COMMAND_SECONDS:.0f} s"
            ) from error

    def found(self, kinds: str, name: str) -> list[Object]:
        """The objects of these kinds that are the job's."""
        return self.listed(kinds, f"app.kubernetes.io/instance={name},app.kubernetes.io/name=flota")

    def listed(self, kinds: str, selector: str) -> list[Object]:
        """Those that have these labels."""
        text = self.run(["get", kinds, f"--selector={selector}", "--output=json"])
        try:
            return list(json.loads(text)["items"])
        except (ValueError, KeyError, TypeError) as error:
            raise SystemFailure(f"kubectl get {kinds} printed what is no list of objects: {text[:200]!r}") from error

    def patch(self, thing: str, changes: Object) -> bool:
        """Changes these fields of one object, such as ``jobs.batch/ads-worker``. False: they name its resource version,
        and somebody else has changed it since."""
        done = self.tried(["patch", thing, "--type=merge", f"--patch={json.dumps(changes)}"])
        if done.returncode == 0:
            return True
        if "resourceVersion" in changes.get("metadata", {}) and "(Conflict)" in done.stderr:
            return False
        raise SystemFailure(f"kubectl patch {thing}: {reason(done.stderr)}")

    def has(self, kind: str) -> bool:
        """Whether the cluster knows objects of this kind, such as jobsets.jobset.x-k8s.io."""
        group = kind.partition(".")[2]
        listed = self.run(["api-resources", f"--api-group={group}", "--output=name", "--cached"])
        return kind in listed.split()


def reason(text: str) -> str:
    """Of what it printed as it failed, what it has to say."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    said = [line for line in lines if not _LOGGED.match(line)] or lines
    return "; ".join(said[-3:]) if said else "it failed without a word"
