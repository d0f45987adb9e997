"""The fenced blocks of the documentation's pages, and the marks that say how they are run.

CONTRIBUTING.md has the contract for those who write pages. A mark is a comment above its block, which no reader sees:

    <!-- test: file=train.py after=a_model.py -->
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# README.zh-CN.md has the blocks of README.md: test_readme_languages.py sees to that.
TREE_PAGES = ["README.md", "examples/README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"]

# Word of a mark: what it is.
MARKS = {
    "after": "text of around/NAME that stands before the block's own",
    "file": "the block is this file of the page's folder; other blocks, or `then`, run it",
    "near": "with `output`: numbers are compared, too, and may be 5 % apart",
    "new": "Python begins anew, in another process",
    "output": "the block is compared with what was printed, but for lines that begin with these words: format,data",
    "retry": "commands are given again until they succeed",
    "same": "the block is this file of the folder, as earlier blocks have left it",
    "serves": "this command of the block, from 1 on, runs until the others have ended",
    "status": "exit status of the block, or of each of its commands: 0,1",
    "then": "a command that is run after the block",
    "while": "a command that runs until the block has ended",
    "with": "a folder of around/ whose files are put into the page's, or a script of it that is run there",
}
_MARK = re.compile(r"\s*<!--\s*test:(.*?)-->\s*$", re.DOTALL)
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[^\n`]*)$")


@dataclass(frozen=True)
class Block:
    page: str  # as the tree has it: docs/rows.md
    line: int  # of its first line of text, from 1 on
    language: str
    text: str
    marks: dict[str, str] = field(default_factory=dict)

    @property
    def first_line(self) -> str:
        """What the lists in checked.py know it by: without the comment at its end."""
        return re.split(r"\s{2,}#", self.text.partition("\n")[0])[0].strip()

    @property
    def where(self) -> str:
        return f"{self.page}, line {self.line}"

    @property
    def is_transcript(self) -> bool:
        """Commands with a prompt, and below each what it printed."""
        return self.language in ("", "console", "text") and self.text.startswith("$ ")

    @property
    def commands(self) -> list[str]:
        """Of shell: a command a line, unless the line goes on in the next. Of a transcript: what has a prompt."""
        joined = re.sub(r"\\\n\s*", "", self.text)
        lines = [line.strip() for line in joined.split("\n")]
        if self.is_transcript:
            return [line[2:] for line in lines if line.startswith("$ ")]
        return [line for line in lines if line and not line.startswith("#")]


def pages() -> list[str]:
    """All pages of the documentation. Decisions are records of what was; their blocks are tables and formulae."""
    found = [str(file.relative_to(ROOT)) for file in sorted((ROOT / "docs").rglob("*.md"))]
    return [*TREE_PAGES, *(page for page in found if not page.startswith("docs/decisions/"))]


def blocks_of(page: str) -> list[Block]:
    return list(read_blocks(page, (ROOT / page).read_text(encoding="utf-8")))


def read_blocks(page: str, text: str) -> Iterator[Block]:
    lines = text.split("\n")
    number = 0
    while number < len(lines):
        fence = _FENCE.match(lines[number])
        if not fence:
            number += 1
            continue
        end = number + 1
        while end < len(lines) and lines[end] != fence["indent"] + "```":
            end += 1
        if end == len(lines):
            raise ValueError(f"{page}, line {number + 1}: the block has no end")
        own = [line.removeprefix(fence["indent"]) for line in lines[number + 1 : end]]
        marks = _marks(page, number + 1, lines[:number])
        yield Block(page, number + 2, fence["language"].strip(), "\n".join(own), marks)
        number = end + 1


def _marks(page: str, line: int, before: list[str]) -> dict[str, str]:
    """The mark in the lines before the block, of which the last may be empty."""
    while before and not before[-1].strip():
        before = before[:-1]
    begin = next((i for i in range(len(before) - 1, -1, -1) if before[i].lstrip().startswith("<!--")), None)
    mark = _MARK.match("\n".join(before[begin:])) if begin is not None else None
    if mark is None or mark[0].count("-->") != 1:
        return {}
    marks: dict[str, str] = {}
    for word in shlex.split(mark[1]):
        name, _, value = word.partition("=")
        if name not in MARKS:
            near = difflib.get_close_matches(name, MARKS, n=1)
            raise ValueError(f"{page}, line {line}: no mark is called {name!r}; there is {', '.join(near or MARKS)}")
        marks[name] = value
    return marks
