"""Pages of real jobs; nothing that a test started outlives it."""

import os
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "launch"))

from paged import CHROMIUM, Page, PagedJob


@pytest.fixture
def start_job(tmp_path):
    """Starts a launch with a page, of two servers and two workers unless other flags say otherwise."""
    started = []

    def start(*flags, **settings):
        job = PagedJob(tmp_path, flags, settings)
        started.append(job)
        return job

    yield start
    for job in started:
        job.clean_up()


@pytest.fixture(scope="module")
def page(start_cluster):
    """``flota dashboard`` of a cluster that nobody trains on."""
    cluster = start_cluster(servers=2)
    page = Page(f"--servers={','.join(cluster.endpoints)}", FLOTA_SECRET=cluster.secret)
    try:
        page.wait()
        yield page
    finally:
        page.close()


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium, which asks nobody but the page."""
    if not os.path.exists(CHROMIUM):
        pytest.skip(f"there is no {CHROMIUM}: scripts/engines installs it")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    flags = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield found
        found.close()
