"""flota's own lines on workers: text, or JSON objects."""

import ast
import json
import math
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from flota import config, log
from flota.errors import InvalidArgument


@pytest.fixture(autouse=True)
def forget_the_speaker(monkeypatch):
    monkeypatch.setattr(log, "_speaker", ("script", 0))


def test_text_is_one_line_for_each_of_the_message(capsys):
    log.say("configuration", "two workers\nmode=sync")
    assert capsys.readouterr() == ("", "flota: two workers\nflota: mode=sync\n")


def test_json_says_when_who_what_and_in_words(capsys, monkeypatch):
    monkeypatch.setenv("FLOTA_LOG_FORMAT", "json")
    log.speak_as("worker", 3)
    log.say("restarted", 'worker 3 was "started" again\nand goes on', "warning", steps=7, loss=math.nan)
    out, error = capsys.readouterr()
    (line,) = error.splitlines()
    said = json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert out == ""
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", said.pop("time"))
    assert said.pop("pid") > 0
    assert said == {
        "level": "warning", "role": "worker", "index": 3, "event": "restarted",
        "message": 'worker 3 was "started" again\nand goes on', "steps": 7, "loss": None,
    }  # fmt: skip


@pytest.mark.parametrize("form", config.LOG_FORMATS)
@pytest.mark.parametrize("least", config.LOG_LEVELS)
def test_lines_below_the_level_are_not_said(capsys, monkeypatch, form, least):
    monkeypatch.setenv("FLOTA_LOG_FORMAT", form)
    monkeypatch.setenv("FLOTA_LOG_LEVEL", least)
    for level in config.LOG_LEVELS:
        log.say("tried", f"a line of {level}", level)
    text = capsys.readouterr().err
    said = [level for level in config.LOG_LEVELS if f"a line of {level}" in text]
    assert said == list(config.LOG_LEVELS[config.LOG_LEVELS.index(least) :])


@pytest.mark.parametrize(("name", "known"), [("FLOTA_LOG_FORMAT", "text, json"), ("FLOTA_LOG_LEVEL", "debug, info, w")])
def test_what_is_no_form_and_no_level_is_refused_at_the_start(monkeypatch, name, known):
    monkeypatch.setenv(name, "loud")
    with pytest.raises(InvalidArgument, match=f"{name}=loud: it is one of {known}"):
        log.speak_as("worker", 0)


def test_a_full_disk_ends_nothing():
    script = "from flota import log; log.say('tried', 'x'); print('goes on')"
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=full, text=True, timeout=60
        )
    assert done.stdout == "goes on\n"


def test_lines_of_several_threads_do_not_mix(tmp_path, monkeypatch):
    monkeypatch.setenv("FLOTA_LOG_FORMAT", "json")
    with (tmp_path / "lines").open("w") as stream:
        monkeypatch.setattr(log.sys, "stderr", stream)
        threads = [
            threading.Thread(target=lambda i=i: [log.say("tried", f"{i} " * 200) for _ in range(50)]) for i in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        monkeypatch.undo()
    lines = (tmp_path / "lines").read_text().splitlines()
    assert len([json.loads(line) for line in lines]) == 200


# --- what the documentation says ---

ROOT = Path(__file__).parents[2]
# The functions that say lines, and the place of the event among their arguments.
IN_LAUNCH = {"say": 1, "fail": 1, "show_table": 0, "line_of": 0}


def events():
    found = set()
    for file in sorted((ROOT / "python/flota").rglob("*.py")):
        text = file.read_text()
        of_launch = "from flota.launch.saying import" in text
        places = IN_LAUNCH if of_launch else {"say": 0, "line_of": 0}
        for node in ast.walk(ast.parse(text)):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            name = called.removeprefix("log.")
            if isinstance(node, ast.Call) and name in places and len(node.args) > places[name]:
                argument = node.args[places[name]]
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    found.add(argument.value)
    return found


def test_the_page_has_all_events():
    page = (ROOT / "docs/observing/logs.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    told = {word for row in rows for word in re.findall(r"`(\w+)`", row.split("|")[1])}
    said = {event for event in events() if re.fullmatch(r"[a-z_]+", event)}
    assert len(said) > 15
    assert said - told == set()
