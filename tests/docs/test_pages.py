"""What the pages of the documentation tell readers to do is done, in the order in which they would do it."""

import pytest
from blocks import blocks_of, pages
from checked import CHECKED, ON_CLUSTER, ON_HOSTS
from running import run_page


def blocks_to_run(page):
    aside, chosen, left_out = {*CHECKED, *ON_HOSTS, *ON_CLUSTER}, [], False
    for block in blocks_of(page):
        if (page, block.first_line) in aside:
            left_out = True
        elif runs(block):
            left_out = False
        # Nor is the output compared of what was left out.
        if not left_out:
            chosen.append(block)
    return chosen


def runs(block):
    return block.language in ("python", "sh") or block.is_transcript or "file" in block.marks


PAGES = [page for page in pages() if any(runs(block) for block in blocks_to_run(page))]


@pytest.mark.timeout(175)
@pytest.mark.parametrize("page", PAGES)
def test_a_page_does_what_it_says(page, tmp_path):
    run_page(blocks_to_run(page), tmp_path)
