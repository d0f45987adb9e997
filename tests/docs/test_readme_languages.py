"""The README is the same in both languages: headings, blocks, links and tables."""

import re

import pytest
from blocks import ROOT, read_blocks

ENGLISH, CHINESE = "README.md", "README.zh-CN.md"
TEXTS = {name: (ROOT / name).read_text(encoding="utf-8") for name in (ENGLISH, CHINESE)}
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def prose(name):
    return _FENCED.sub("", TEXTS[name])


def by_heading(name, pattern):
    """What the pattern finds below each heading."""
    return [re.findall(pattern, part, re.MULTILINE) for part in re.split(r"^#+ .*$", prose(name), flags=re.MULTILINE)]


def headings(name):
    return re.findall(r"^(#+) (.*)$", prose(name), re.MULTILINE)


def test_both_have_the_same_headings():
    english, chinese = headings(ENGLISH), headings(CHINESE)
    levels = [[level for level, _ in found] for found in (english, chinese)]
    assert levels[0] == levels[1], (
        f"{ENGLISH} has the headings\n{english}\nand {CHINESE}\n{chinese}\n"
        f"Translate what was added to {ENGLISH}, and take out of {CHINESE} what is gone: same number, order and levels."
    )


def test_both_have_the_same_blocks():
    english, chinese = (list(read_blocks(name, TEXTS[name])) for name in (ENGLISH, CHINESE))
    for ours, theirs in zip(english, chinese, strict=False):
        assert (ours.language, ours.text) == (theirs.language, theirs.text), (
            f"the block at {ours.where} is not the one at {theirs.where}: copy it from {ENGLISH}, letter for letter"
        )
    assert len(english) == len(chinese), f"{ENGLISH} has {len(english)} blocks and {CHINESE} {len(chinese)}: copy them"


@pytest.mark.parametrize(
    ("what", "pattern"),
    [("items of lists", r"^- "), ("rows of tables", r"^\|"), ("commands in tables", r"`python benchmarks/\w+\.py`")],
)
def test_below_each_heading_both_have_as_many(what, pattern):
    counts = [[len(found) for found in by_heading(name, pattern)] for name in (ENGLISH, CHINESE)]
    titles = [title for _, title in headings(ENGLISH)]
    wrong = [
        f"{title}: {english} and {chinese}"
        for title, english, chinese in zip(["(top)", *titles], *counts, strict=True)
        if english != chinese
    ]
    assert not wrong, f"{what} in {ENGLISH} and {CHINESE}, by heading: {wrong}; bring {CHINESE} up to date"


def test_both_link_to_the_same():
    links = [
        {link for found in by_heading(name, r"\]\(([^)]+)\)") for link in found} - {ENGLISH, CHINESE}
        for name in (ENGLISH, CHINESE)
    ]
    assert links[0] == links[1], f"only one of {ENGLISH} and {CHINESE} links to {sorted(links[0] ^ links[1])}"


def test_each_leads_to_the_other():
    assert f"({CHINESE})" in TEXTS[ENGLISH]
    assert f"({ENGLISH})" in TEXTS[CHINESE]
