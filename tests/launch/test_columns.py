"""What is shown of a process, in words and in columns."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from flota.launch import picture
from flota.launch.columns import COLUMNS, chosen, heading, in_words
from flota.launch.rows import Row
from flota.launch.saying import age

ROWS = [
    Row("worker 0", "running", True, True, 1200, 5432.1, 0.43219, 0.79123, 0.25, 12, 0.5, 90.0),
    Row("worker 1", "was killed by SIGKILL, starts again in 4 s", False, True, 900, 4000.0, float("nan")),
    Row("server 0", "running", True, False),
]
WORKERS = ROWS[:2]


def painted(width, rows=ROWS, room=10, **settings):
    console = Console(file=io.StringIO(), width=width, **settings)
    console.print(picture.launch("train.py", rows, ["a line of the log"], width=width, room=room))
    return console.file.getvalue()


def test_a_line_says_what_was_told_and_nothing_else():
    assert in_words(ROWS[0]) == (
        "worker 0: step 1200, 5,432 samples/s, loss 0.4322, AUC 0.7912, waits 25%, 12 steps ahead, 01:30 left, running"
    )
    assert in_words(Row("worker 3", "running", True, True, 1)) == "worker 3: step 1, - samples/s, loss -, running"


def test_the_heading_is_of_all_workers_that_run():
    assert heading("train.py", 75, ROWS) == (
        "train.py · 01:15 · 5,432 samples/s · loss nan · AUC 0.7912 · 50% of the pass done, 01:30 left"
    )
    assert heading("train.py", 1, ROWS[2:]) == "train.py · 00:01"


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_no_line_is_wider_than_the_terminal(width):
    text = painted(width)
    assert max(map(len, text.splitlines())) <= width
    assert "worker 0" in text
    assert "1,200" in text
    assert "0.4322" in text
    assert " ".join(text.split()).count("was killed") == 1
    assert "a line of the log" in text


def test_without_room_the_less_important_goes_first():
    names = [[column.name for column in chosen(COLUMNS, WORKERS, room, 2)] for room in (80, 56, 48, 42, 10)]
    assert names == [
        ["step", "samples/s", "loss", "AUC", "waits", "ahead", "left"],
        ["step", "samples/s", "loss", "AUC", "waits", "left"],
        ["step", "samples/s", "loss", "AUC", "left"],
        ["step", "samples/s", "loss", "AUC"],
        ["step", "samples/s", "loss"],
    ]


def test_all_that_a_job_without_passes_tells_fits_80_columns():
    told = replace(ROWS[0], left_seconds=None, staleness=1.25)

    assert "process step samples/s loss AUC waits ahead stale state" in painted_words(80, [told, ROWS[2]])


def painted_words(width, rows):
    return " ".join(painted(width, rows).split())


def test_staleness_is_said_in_lines():
    assert "12 steps ahead, staleness 1.2, 01:30 left" in in_words(replace(ROWS[0], staleness=1.25))


def test_a_heading_that_is_too_long_is_cut_between_its_parts():
    lines = picture.heading_line(heading("train.py", 75, ROWS), 60).plain.splitlines()
    assert lines == ["train.py · 01:15 · 5,432 samples/s · loss nan · AUC 0.7912", "50% of the pass done, 01:30 left"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "00:00"), (3599, "59:59"), (3600, "1h00m"), (86399, "23h59m"), (86400, "1d00h"), (86400 * 99, "99d00h")],
)
def test_how_long_something_runs_takes_six_characters(seconds, text):
    assert age(seconds) == text


def test_what_no_worker_tells_has_no_column():
    assert [column.name for column in chosen(COLUMNS, [ROWS[1]], 200, 2)] == ["step", "samples/s", "loss"]
    assert [column.name for column in chosen(COLUMNS, [], 200, 2)] == ["step", "samples/s", "loss"]


def test_more_processes_than_there_is_room_for_are_counted():
    text = painted(80, [Row(f"worker {i}", "running", True, True, i) for i in range(30)], room=4)
    assert "worker 3" in text
    assert "worker 4" not in text
    assert "and 26 more" in text


def test_colour_is_never_all_that_says_something():
    plain = painted(80, no_color=True, force_terminal=True)
    assert "\x1b[3" not in plain
    assert "was killed" in " ".join(plain.split())
    assert "\x1b[32m" in painted(80, force_terminal=True, color_system="standard")
