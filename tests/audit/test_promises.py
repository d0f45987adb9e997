"""The lists of promises are well formed, and name tests and benchmarks that are there."""

import re
import shlex
from pathlib import Path

import pytest
from promises import FOLDER, Promise, subjects

ROOT = Path(__file__).parents[2]
SUBJECTS = subjects()


def test_every_list_is_read_and_has_a_place_of_its_own():
    assert len(SUBJECTS) == len(list(FOLDER.glob("*.toml")))
    assert len({subject.order for subject in SUBJECTS}) == len(SUBJECTS)


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.title)
def test_what_shows_a_promise_is_there(subject):
    texts = [promise.text for promise in subject.promises]
    assert len(set(texts)) == len(texts)
    for promise in subject.promises:
        for word in shlex.split(promise.command):
            path, _, test = word.partition("::")
            if re.fullmatch(r"(tests|benchmarks|scripts|examples)/\S+", path):
                assert (ROOT / path).exists(), f"{path} of: {promise.text}"
                name = test.partition("[")[0].rpartition("::")[2]
                assert not name or f"def {name}(" in (ROOT / path).read_text(), f"{word} of: {promise.text}"


def test_a_promise_is_judged_by_what_came_out():
    plain = Promise("p", "c")
    assert plain.judge(0, "....\n12 passed, 1 skipped in 3.4s\n") == (True, "12 passed, 1 skipped")
    assert Promise("p", "pytest x").judge(0, "2 skipped in 0.1s") == (False, "2 skipped in 0.1s")
    assert plain.judge(1, "1 failed") == (False, "status 1")
    assert plain.judge(None, "") == (False, "no end in time")
    bounded = Promise("p", "c", shows=r"speed: ([\d.]+)", at_least=0.9)
    assert bounded.judge(0, "speed: 0.8\nspeed: 0.95") == (True, "0.95")
    assert bounded.judge(0, "nothing") == (False, "not found")
    worst = Promise("p", "c", shows=r"pull: ([\d.]+) ms", at_most=50, worst=True)
    assert worst.judge(0, "pull: 80 ms, pull: 10 ms") == (False, "80")
