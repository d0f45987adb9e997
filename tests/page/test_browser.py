"""The page in a real browser, while a real job trains."""

import os
import signal

import pytest
from paged import PagedJob

from waiting import wait_until

pytestmark = pytest.mark.timeout(170)
SECONDS = 60_000  # milliseconds that the page may take to show what is waited for

PHONE = {"width": 360, "height": 740}
PARTS = ["curves", "graph", "processes", "tables", "heat", "events", "saves"]


@pytest.fixture(scope="module")
def job(tmp_path_factory, browser):
    """One job for the tests that leave it as it is."""
    job = PagedJob(tmp_path_factory.mktemp("job"), ["--snapshot_seconds=2"], {})
    try:
        job.link()
        yield job
        assert job.finish() == 0, job.output
    finally:
        job.clean_up()


class Visit:
    """A window on a page, and what the browser has complained of and asked for."""

    def __init__(self, browser, link, **settings):
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **settings})
        self.page = self.context.new_page()
        self.page.set_default_timeout(SECONDS)
        self.trouble, self.asked = [], []
        self.page.on("console", lambda line: self.trouble.append(line.text) if line.type != "log" else None)
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.page.on("dialog", lambda dialog: self.trouble.append("a dialog"))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(link)
        self.row("worker 0", "ok").wait_for()

    def row(self, name, mark=""):
        wanted = f'[data-mark="{mark}"]' if mark else ""
        return self.page.locator(f'#processes tr[data-name="{name}"]{wanted}')

    def state(self, name):
        return self.page.locator(f'#state[data-state="{name}"]')

    def event(self, name, kind):
        return self.page.locator(f'#event-list li[data-name="{name}"][data-kind="{kind}"]').first


@pytest.fixture
def visit(browser):
    opened = []

    def visit(link, **settings):
        opened.append(Visit(browser, link, **settings))
        return opened[-1]

    yield visit
    for one in opened:
        one.context.close()
    for one in opened:
        assert one.trouble == []


def test_the_link_leads_in_and_leaves_the_address_bar(job, visit):
    seen = visit(job.link())
    origin = job.link().partition("/login")[0]
    assert seen.page.url == f"{origin}/"
    (cookie,) = seen.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    seen.page.reload()
    seen.state("live").wait_for()
    seen.page.go_back()
    assert "token" not in seen.page.url


def test_nothing_is_asked_of_anybody_else(job, visit):
    seen = visit(job.link())
    seen.page.locator("#hot-keys li").first.wait_for()
    origin = job.link().partition("/login")[0]
    assert len(seen.asked) > 10
    assert all(url.startswith(f"{origin}/") for url in seen.asked)


def test_curves_grow_while_the_job_trains(job, visit):
    seen = visit(job.link())

    def drawn(chart):
        return (
            seen.page.evaluate(f"document.querySelector('[data-chart=\"{chart}\"] path.total')?.getAttribute('d')")
            or ""
        )

    # Not by wait_for_function: the page lets no text be run as script, the test's neither.
    for chart in ("loss", "auc", "samples"):
        wait_until(lambda chart=chart: "L" in drawn(chart), timeout=60)
    before = drawn("samples").count("L")
    wait_until(lambda: drawn("samples").count("L") > before, timeout=60)
    assert seen.page.locator('[data-chart="auc"] b').inner_text() == "0.7500"


def test_tables_hot_keys_and_checkpoints_are_there(job, visit):
    seen = visit(job.link())
    seen.page.locator('#table-list tr[data-table="users"] svg.spark').wait_for()
    seen.page.locator("#hot-keys li", has_text="7").first.wait_for()
    assert "1024 virtual shards of users" in seen.page.locator("#heat-map").get_attribute("aria-label")
    drawn = "new Set(document.querySelector('#heat-map').getContext('2d').getImageData(0, 0, 32, 32).data).size"
    assert seen.page.evaluate(drawn) > 10
    seen.page.locator('#save-list tr[data-save="snapshot"]', has_text="server 0").wait_for()
    saved = seen.page.locator('#save-list tr[data-save="checkpoint"]')
    saved.wait_for()
    assert "saved" in saved.inner_text()


def test_a_log_is_shown_as_text(job, visit):
    seen = visit(job.link())
    seen.row("worker 1").get_by_role("button").click()
    lines = seen.page.locator("#log-lines")
    lines.get_by_text("worker 1 <img src=x onerror=alert(1)>").wait_for()
    assert lines.locator("img").count() == 0
    seen.page.keyboard.press("Escape")
    assert not seen.page.locator("#log").is_visible()


def test_a_phone_needs_no_sideways_scroll(job, visit):
    seen = visit(job.link(), viewport=PHONE, has_touch=True, is_mobile=True)
    seen.page.locator("#hot-keys li").first.wait_for()
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    for part in PARTS:
        box = seen.page.locator(f"#{part}").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= PHONE["width"]


def test_the_keyboard_reaches_all_of_it(job, visit):
    seen = visit(job.link())
    seen.page.locator("#hot-keys li").first.wait_for()
    seen.page.keyboard.press("Tab")
    assert seen.page.locator(".skip").evaluate("e => e === document.activeElement")
    reached = set()
    for _ in range(60):
        seen.page.keyboard.press("Tab")
        found = seen.page.evaluate(
            "(() => { const e = document.activeElement; const style = getComputedStyle(e);"
            "return [e.closest('section')?.id ?? e.id, e === document.body || style.outlineStyle !== 'none']; })()"
        )
        assert found[1], f"the focus is not seen on {found[0]}"
        reached.add(found[0])
    assert {"theme", "curves", "processes", "tables", "heat", "saves"} <= reached


def test_arrow_keys_read_the_curves_and_space_hides_one(job, visit):
    seen = visit(job.link())
    plot = seen.page.locator('[data-chart="samples"] .plot')
    plot.locator('path[data-line="worker 1"][d]').wait_for()
    plot.focus()
    seen.page.keyboard.press("ArrowLeft")
    readout = plot.locator(".readout")
    readout.wait_for()
    assert "worker 1" in readout.inner_text()
    seen.page.keyboard.press("Escape")
    readout.wait_for(state="hidden")
    toggle = seen.page.locator("#legend button", has_text="worker 1")
    toggle.focus()
    seen.page.keyboard.press("Space")
    plot.locator('path[data-line="worker 1"]').wait_for(state="detached")
    assert toggle.get_attribute("aria-pressed") == "false"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_as_light_or_dark_as_the_system_until_somebody_chooses(job, visit, scheme):
    seen = visit(job.link(), color_scheme=scheme)
    ground = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"

    def is_dark():
        return sum(seen.page.evaluate(ground)) < 3 * 128

    assert is_dark() == (scheme == "dark")
    seen.page.locator("#theme").click()  # auto, light, dark
    assert not is_dark()
    seen.page.locator("#theme").click()
    assert is_dark()
    seen.page.reload()
    seen.state("live").wait_for()
    assert is_dark()


def test_without_the_link_it_says_how_to_get_in_and_takes_the_token(job, browser):
    origin, _, token = job.link().partition("/login?token=")
    context = browser.new_context()
    try:
        page = context.new_page()
        page.set_default_timeout(SECONDS)
        assert page.goto(origin).status == 401
        page.get_by_text("flota dashboard --link").wait_for()
        page.keyboard.type(token)
        page.keyboard.press("Enter")
        page.locator('#state[data-state="live"]').wait_for()
        assert page.url == f"{origin}/"
    finally:
        context.close()


def test_a_killed_worker_shows_with_its_log_and_so_does_its_restart_and_the_jobs_end(start_job, visit):
    job = start_job("--max_restarts=3")
    seen = visit(job.link())
    row = seen.row("worker 1", "ok")
    row.locator("svg.bar").wait_for()  # it trains
    os.kill(int(row.get_attribute("data-pid")), signal.SIGKILL)

    died = seen.event("worker 1", "error")
    died.wait_for()
    assert "was killed by SIGKILL" in died.inner_text()
    died.locator("summary").click()
    died.get_by_text("worker 1 <img src=x onerror=alert(1)>").wait_for()
    seen.event("worker 1", "good").wait_for()
    announced = seen.page.locator("#announce")
    assert "worker 1" in announced.inner_text()

    seen.row("worker 1", "ok").wait_for()
    assert "restart 1" in seen.row("worker 1").inner_text()
    assert seen.page.locator('#graph .node[data-name="worker 1"]').get_attribute("data-mark") == "ok"

    assert job.finish() == 0, job.output
    seen.state("over").wait_for()
    assert "The job is over" in seen.page.locator("#banner").inner_text()
    assert seen.row("worker 0", "done").count() == 1
    assert "L" in seen.page.locator('[data-chart="loss"] path.total').get_attribute("d")


def test_a_page_that_is_gone_is_said_and_what_was_seen_stays(start_job, visit):
    job = start_job()
    seen = visit(job.link())
    os.kill(job.page_pid(), signal.SIGKILL)
    seen.state("lost").wait_for()
    assert "does not answer" in seen.page.locator("#banner").inner_text()
    assert seen.row("worker 0").count() == 1
    seen.trouble.clear()  # of what it asks in vain
    assert job.finish() == 0, job.output
    seen.context.close()
    seen.trouble.clear()
