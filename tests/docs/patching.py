"""Diffs as pages show them: without line numbers, parts of a file between lines of dots."""

from __future__ import annotations

_DOTS = ("…", "...")


def patched(text: str, diff: str, where: str) -> str:
    """The text after the diff. Each part of it must be found in the text at one place, below the part before it."""
    lines, begin = text.split("\n"), 0
    for part in _parts(diff):
        old = [line[1:] for line in part if line[0] in " -"]
        new = [line[1:] for line in part if line[0] in " +"]
        places = [i for i in range(begin, len(lines) - len(old) + 1) if lines[i : i + len(old)] == old]
        assert len(places) == 1, f"{where}: these lines are at {len(places)} places of the file:\n" + "\n".join(old)
        lines[places[0] : places[0] + len(old)] = new
        begin = places[0] + len(new)
    return "\n".join(lines)


def _parts(diff: str) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for line in diff.split("\n"):
        if line in _DOTS:
            parts.append([])
        else:
            assert not line or line[0] in " +-", f"neither kept nor added nor removed: {line}"
            parts[-1].append(line or " ")
    return parts
