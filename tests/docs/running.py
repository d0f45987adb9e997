"""Runs the blocks of a page in a folder of its own, cut off from everything else that runs on the machine.

The folder has links to the tree's ``examples``, ``benchmarks`` and ``deploy``, as a clone has them, and what marks of
the page put there. Processes of the page are in namespaces of their own for network and processes: ports are free, and
nothing outlives the page.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from blocks import ROOT, Block

AROUND = Path(__file__).with_name("around")
SECONDS = 165.0  # that a page may take; pytest ends the process after 180
_LINKS = ("examples", "benchmarks", "deploy")
# What the environment of whoever runs the tests may say about jobs.
_JOB_NAMES = ("FLOTA_", "PADDLE_", "FLAGS_", "POD_IP", "TRAINING_ROLE", "KUBECONFIG")
# Numbers, times, and names that are made of them differ from run to run.
_VARIES = re.compile(r"\b[0-9a-f]{12,}\b|\d[\d,.:]*(?:e[-+]\d+)?")
_LOGGED = re.compile(r"^INFO \S+ \S+ launch\] ")  # when the launch said a line; pages leave it out
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_PATH = re.compile(r"(?<![\w/])/[\w./-]*/")


def run_page(
    blocks: Sequence[Block],
    folder: Path,
    *,
    files: Mapping[str, str] | None = None,
    cut_off: bool = True,
    **settings: str,
) -> None:
    """Runs these blocks of one page in their order, and compares what is marked so with what was printed. ``files`` are
    in the folder beforehand; ``settings`` are in the environment."""
    place = folder / "page"
    place.mkdir()
    for name in _LINKS:
        (place / name).symlink_to(ROOT / name)
    for name, text in (files or {}).items():
        (place / name).write_text(text)
    deadline = time.monotonic() + SECONDS
    for part in _parts(blocks):
        _run_part(part, place, alone() if cut_off else [], settings, deadline - time.monotonic())
    for shown, log in _shown(blocks):
        compare(shown, (folder / log).read_text(errors="replace"))


def _parts(blocks: Sequence[Block]) -> Iterator[list[Block]]:
    """The blocks that one process runs: a mark ``new`` begins another."""
    part: list[Block] = []
    for block in blocks:
        if "new" in block.marks and part:
            yield part
            part = []
        part.append(block)
    if part:
        yield part


def _run_part(
    part: Sequence[Block], place: Path, within: Sequence[str], settings: dict[str, str], seconds: float
) -> None:
    steps = [step for block in part for step in steps_of(block)]
    if not steps:
        return
    done = subprocess.run(
        [*within, sys.executable, str(Path(__file__).with_name("session.py"))],
        input=json.dumps(steps), cwd=place, env=_environment(place, settings), stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=seconds,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


@functools.cache
def alone() -> list[str]:
    """What cuts a command off; without it where this machine has none of it, and then ports may be in use."""
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    words = ["unshare", *user, "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    # A reader's network has more than loopback, but none of these jobs leaves the machine.
    words += ["sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    if shutil.which("unshare") is None or subprocess.run([*words, "true"], capture_output=True).returncode != 0:
        return []
    return words


def _environment(place: Path, settings: dict[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_JOB_NAMES)}
    home = place.with_name("home")
    home.mkdir(exist_ok=True)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    # Small arithmetic on a busy machine: more threads would only be in the way.
    return {**kept, "HOME": str(home), "PATH": path, "OMP_NUM_THREADS": "1", "COLUMNS": "100", **settings}


def log_of(block: Block) -> str:
    return f"log-{block.line:04}"


def steps_of(block: Block) -> Iterator[dict[str, Any]]:
    """What session.py does for this block."""
    where = {"where": block.where, "log": log_of(block)}
    if "with" in block.marks:
        yield {**where, "log": f"{log_of(block)}-with", **_shell([_put(AROUND / block.marks["with"])])}
    if block.language == "diff" and "file" in block.marks:
        yield {**where, **_python([_changing(block)])}
    elif "file" in block.marks:
        yield {**where, "log": f"{log_of(block)}-file", **_python([_writing(block)])}
    elif "same" in block.marks:
        yield {**where, **_python([_comparing(block)])}
    elif block.language == "python":
        before = [_around(block)] if "after" in block.marks else []
        yield {**where, **_python([*before, {"name": block.page, "line": block.line, "text": block.text}])}
    elif block.language == "sh" or block.is_transcript:
        yield {**where, **_commands(block)}
    if "then" in block.marks:
        log = f"{log_of(block)}-then" if block.language != "python" or "file" not in block.marks else log_of(block)
        yield {**where, "log": log, **_shell([block.marks["then"]])}


def _put(source: Path) -> str:
    """The command that puts something of around/ into the folder, or that makes it there."""
    assert source.exists(), f"there is no {source.relative_to(ROOT)}"
    return f"{sys.executable} {source}" if source.is_file() else f"cp -r {source}/. ."


def _around(block: Block) -> dict[str, Any]:
    file = AROUND / block.marks["after"]
    return {"name": str(file.relative_to(ROOT)), "line": 1, "text": file.read_text(encoding="utf-8")}


def _writing(block: Block) -> dict[str, Any]:
    text = block.text + "\n"
    if "after" in block.marks:
        # Imports of the future stand first in a file.
        text = (AROUND / block.marks["after"]).read_text(encoding="utf-8") + "\n" + text
    name = block.marks["file"]
    if name.endswith(".py"):
        compile(text, block.where, "exec")
    writing = f"import pathlib\npathlib.Path({name!r}).write_text({text!r})"
    return {"name": "file=", "line": 1, "text": writing}


def _changing(block: Block) -> dict[str, Any]:
    name = block.marks["file"]
    here = str(Path(__file__).parent)
    changing = (
        f"import pathlib, sys\nsys.path.append({here!r})\nfrom patching import patched\nfile = pathlib.Path({name!r})\n"
        f"file.write_text(patched(file.read_text(), {block.text!r}, {block.where!r}))"
    )
    return {"name": "file=", "line": 1, "text": changing}


def _comparing(block: Block) -> dict[str, Any]:
    name = block.marks["same"]
    comparing = (
        f"import pathlib\nfound = pathlib.Path({name!r}).read_text()\n"
        f"assert found.strip() == {block.text.strip()!r}, 'the changes of the page make another file:\\n' + found"
    )
    return {"name": "same=", "line": 1, "text": comparing}


def _python(parts: list[dict[str, Any]]) -> dict[str, Any]:
    return {"kind": "python", "parts": parts}


def _shell(commands: Sequence[str]) -> dict[str, Any]:
    return {"kind": "shell", "commands": [(command, 0) for command in commands], "serving": [], "retry": False}


def _commands(block: Block) -> dict[str, Any]:
    marks, commands = block.marks, block.commands
    statuses = [int(word) for word in marks.get("status", "0").split(",")]
    serving = [marks["while"]] if "while" in marks else []
    if "serves" in marks:
        serving += [commands.pop(int(marks["serves"]) - 1)]
    elif len(statuses) == 1 and not block.is_transcript:
        commands = [block.text]  # as it stands: loops and exports go over several lines
    if len(statuses) == 1:
        statuses *= len(commands)
    assert len(statuses) == len(commands), f"{block.where}: {len(commands)} commands and {len(statuses)} statuses"
    ends = [*zip(commands, statuses, strict=True)]
    return {"kind": "shell", "commands": ends, "serving": serving, "retry": "retry" in marks}


def _shown(blocks: Sequence[Block]) -> Iterator[tuple[Block, str]]:
    """Each block that shows an output, and the log of what printed it: itself, if it is a transcript."""
    before: Block | None = None
    for block in blocks:
        if block.language in ("python", "sh"):
            before = block
        elif "output" in block.marks:
            if not block.is_transcript:
                assert before is not None, f"{block.where}: output of nothing"
            yield block, log_of(block if block.is_transcript or before is None else before)


def compare(shown: Block, printed: str) -> None:
    """Every line that the page shows was printed, in this order; other lines may have been printed between them.
    Numbers (unless the mark says ``near``), folders, and how many spaces there are do not matter, nor do the page's
    lines of dots."""
    originals, near = printed.split("\n"), "near" in shown.marks
    printed_lines = [_even(line) for line in originals]
    begin, others = 0, tuple(word for word in shown.marks["output"].split(",") if word)
    for line in shown.text.split("\n"):
        wanted = _even(line)
        if not wanted or wanted in ("…", "...") or line.startswith("$ ") or line.strip().startswith(others or "\0"):
            continue
        lines = range(begin, len(printed_lines))
        found = next((i for i in lines if printed_lines[i] == wanted and (not near or _near(line, originals[i]))), None)
        assert found is not None, f"{shown.where} shows a line that was not printed:\n{line}\n--- printed:\n{printed}"
        begin = found + 1


def _near(line: str, printed: str) -> bool:
    pairs = zip(_NUMBER.findall(line), _NUMBER.findall(printed), strict=True)
    return all(abs(float(a) - float(b)) <= 0.05 * abs(float(a)) for a, b in pairs)


def _even(line: str) -> str:
    return " ".join(_VARIES.sub("#", _PATH.sub("", _LOGGED.sub("", line))).split())
