"""What the head keeps of the logs of its nodes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from flota.launch.ssh.agent.tails import make_links, remove_logs


class Copies:
    """One node's logs, in a folder of its own. A full disk costs the copies, and not the job."""

    def __init__(self, folder: Path, *, go_on: bool) -> None:
        """``go_on``: a resumed job adds to what is there."""
        self.folder = folder
        self.trouble = ""  # why something is missing
        self._seen: dict[str, int] = {}
        folder.mkdir(parents=True, exist_ok=True)
        if not go_on:
            remove_logs(folder)

    def make_links(self, servers: list[int], workers: list[int]) -> None:
        """The documented names, of logs that are there from now on: some stay empty."""
        for role, indices in (("server", servers), ("worker", workers)):
            for index in indices:
                (self.folder / f"{role}log.{index}").touch()
        make_links(self.folder, servers, workers)

    @property
    def seen(self) -> Mapping[str, int]:
        """How much has come of each log."""
        return self._seen

    def add(self, name: str, at: int, data: bytes) -> None:
        """Takes a piece that begins at byte ``at``; what was there before is passed over."""
        if name != Path(name).name or name.startswith("."):
            return
        seen = self._seen.get(name, 0)
        new = data[max(0, seen - at) :]
        self._seen[name] = max(seen, at + len(data))
        if not new:
            return
        try:
            with (self.folder / name).open("ab") as log:
                log.write(new)
        except OSError as error:
            self.trouble = self.trouble or f"{self.folder / name} lacks what its node printed: {error.strerror}"
