"""No block of the documentation is passed over, and what is only checked is what it says."""

import re

import pytest
from blocks import ROOT, blocks_of, pages, read_blocks
from checked import CHECKED, ON_CLUSTER, ON_HOSTS
from checks import READERS, flags_are_taken

BLOCKS = {(block.page, block.first_line): block for page in pages() for block in blocks_of(page)}
ASIDE = {**CHECKED, **ON_HOSTS, **ON_CLUSTER}
# Not run by nature: what a command printed, pictures of letters, and what changes in a file.
SHOWN = ("", "text", "diff")


def test_every_block_is_in_a_class():
    unknown = [
        f"{block.where}: {block.language!r}"
        for page in pages()
        for block in blocks_of(page)
        if block.language not in ("python", "sh", *SHOWN, *READERS)
    ]
    assert not unknown, "say what reads such blocks, in READERS of tests/docs/checks.py"


def test_a_diff_is_applied_or_says_that_it_is_only_shown():
    loose = [block.where for block in BLOCKS.values() if block.language == "diff" and "file" not in block.marks]
    assert not loose, "give them a mark file=, so that they are applied"


def test_lists_of_blocks_name_blocks_that_are_there():
    gone = [f"{page}: {line}" for page, line in ASIDE if (page, line) not in BLOCKS]
    assert not gone, "their first lines have changed: bring tests/docs/checked.py up to date"
    everywhere = [(block.page, block.first_line) for page in pages() for block in blocks_of(page)]
    alike = [f"{page}: {line}" for page, line in ASIDE if everywhere.count((page, line)) > 1]
    assert not alike, "two blocks begin so: let the first line of one of them differ"
    twice = sorted({*CHECKED} & {*ON_HOSTS, *ON_CLUSTER} | {*ON_HOSTS} & {*ON_CLUSTER})
    assert not twice


@pytest.mark.parametrize("place", CHECKED, ids=lambda place: f"{place[0]}: {place[1][:40]}")
def test_what_is_not_run_is_checked_in_another_way(place):
    entry = CHECKED[place]
    assert entry.why
    assert entry.how
    for check in entry.how:
        check(BLOCKS[place])
    if entry.tested_by:
        file, _, name = entry.tested_by.partition("::")
        assert re.search(rf"^def {name}\(", (ROOT / file).read_text(), re.MULTILINE), f"{entry.tested_by} is gone"


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS.values() if block.language in READERS], ids=lambda block: block.where
)
def test_blocks_of_data_are_read(block):
    READERS[block.language](block)


def test_a_mark_that_is_misspelt_is_refused_with_a_near_one():
    with pytest.raises(ValueError, match="page, line 2: no mark is called 'sttatus'; there is status"):
        list(read_blocks("page", "<!-- test: sttatus=1 -->\n```sh\nfalse\n```\n"))


def test_a_misspelt_flag_in_a_page_is_noticed():
    (block,) = read_blocks("page", "```sh\nflota launch --server_nun=1 train.py\n```\n")
    with pytest.raises(AssertionError, match="page, line 2"):
        flags_are_taken(block)
