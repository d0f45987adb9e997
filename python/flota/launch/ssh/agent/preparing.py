"""What an agent answers before the job begins. Each request has one answer: ``refused``, with a text, where it could
not be done."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from flota.errors import FlotaError, InvalidArgument
from flota.launch.ssh.agent.facts import Listeners, facts, find_workspace, unreached
from flota.launch.ssh.agent.receiving import Receiver
from flota.launch.ssh.package import RESERVED, Entry
from flota.launch.ssh.protocol import Message, encode


class Preparation:
    """The state that requests build up. ``close`` gives back what only the preparation needs."""

    def __init__(self) -> None:
        self.workspace = Path("/")
        self._mark: Path | None = None
        self._listeners = Listeners()
        self._receiver: Receiver | None = None
        self._coming: list[Entry] = []
        self._broken = ""  # why the files that come can no longer be taken
        self._answers: dict[str, Callable[[Message], dict[str, Any] | None]] = {
            "facts": lambda _: facts(),
            "workspace": self._find_workspace,
            "marks": self._marks,
            "listen": self._listen,
            "reach": self._reach,
            "unlisten": self._unlisten,
            "entries": self._take_entries,
            "file": self._take_piece,
            "dispatched": self._finish,
        }

    def answer(self, message: Message) -> bytes:
        """The bytes to send back; none for what has no answer."""
        handler = self._answers.get(message.op)
        if handler is None:
            return encode("refused", text=f"this agent knows no request {message.op}")
        try:
            answer = handler(message)
        except FlotaError as error:
            return encode("refused", text=str(error))
        except OSError as error:
            return encode("refused", text=f"{error.strerror or error}: {error.filename or self.workspace}")
        except (KeyError, TypeError, ValueError) as error:
            return encode("refused", text=f"the request {message.op} is not as it must be: {error!r}")
        return b"" if answer is None else encode(message.op, **answer)

    def close(self) -> None:
        """The workspace stays this job's."""
        self._listeners.close()
        if self._mark is not None:
            self._mark.unlink(missing_ok=True)

    def release(self) -> None:
        if self._receiver is not None:
            self._receiver.close()

    def _find_workspace(self, message: Message) -> dict[str, Any]:
        fields = message.fields
        self.workspace, problem = find_workspace(fields["path"], make=fields["make"])
        script = fields["script"]
        if not problem and script and not (self.workspace / script).is_file():
            problem = f"there is no script {script} in {self.workspace}"
        if not problem:
            # Whoever else of the job sees it has the same folder.
            self._mark = self.workspace / f"{RESERVED}mark-{fields['job']}-{fields['node']}"
            self._mark.touch(mode=0o600)
        return {"path": str(self.workspace), "problem": problem}

    def _marks(self, message: Message) -> dict[str, Any]:
        prefix = f"{RESERVED}mark-{message.fields['job']}-"
        found = [int(mark.name.removeprefix(prefix)) for mark in self.workspace.glob(f"{prefix}*")]
        return {"nodes": sorted(found)}

    def _listen(self, message: Message) -> dict[str, Any]:
        places = [(str(name), str(address), int(port)) for name, address, port in message.fields["places"]]
        return {"problems": self._listeners.open(places, alone=message.fields["alone"])}

    def _unlisten(self, _: Message) -> dict[str, Any]:
        self._listeners.close()
        return {}

    def _reach(self, message: Message) -> dict[str, Any]:
        targets = [(str(address), int(port)) for address, port in message.fields["targets"]]
        failures = unreached(targets, float(message.fields["timeout"]))
        return {"failures": [[i, text] for i, text in sorted(failures.items())]}

    def _take_entries(self, message: Message) -> dict[str, Any]:
        if self._receiver is None:
            self._receiver = Receiver(self.workspace)
        entries = [Entry.from_list(values) for values in message.fields["entries"]]
        lacking = self._receiver.lacking(entries)
        self._coming += [entries[i] for i in lacking]
        if message.fields["last"]:
            self._receiver.begin()
        return {"lacking": lacking}

    def _take_piece(self, message: Message) -> None:
        """A piece of a file has no answer: a launch that sends many does not wait for each."""
        if self._broken:
            return
        try:
            if self._receiver is None:
                raise InvalidArgument("a file came before its package was announced")
            self._receiver.write(self._coming[message.fields["file"]], message.payload, last=message.fields["last"])
        except FlotaError as error:
            self._broken = str(error)
        except OSError as error:
            self._broken = f"{error.strerror}: {error.filename or self.workspace}"

    def _finish(self, _: Message) -> dict[str, Any]:
        if self._broken:
            raise InvalidArgument(self._broken)
        if self._receiver is None:
            raise InvalidArgument("nothing was dispatched")
        written, removed = self._receiver.finish()
        return {"written": written, "removed": removed}
