"""The lists of promises are well formed, and name tests and benchmarks that are there."""

import re
import shlex
import xml.etree.ElementTree as Tree
from pathlib import Path

import batch
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


def test_a_run_of_all_tests_says_of_each_command_what_it_alone_would():
    cases = Tree.fromstring(
        '<suite><testcase file="tests/a.py" name="test_x[1]" time="0.5"/><testcase file="tests/a.py" name="test_x[2]" '
        'time="0.5"/><testcase file="tests/a.py" name="test_y" time="1"><failure/></testcase>'
        '<testcase file="tests/b/c.py" name="test_z" time="1"><skipped/></testcase></suite>'
    ).findall("testcase")
    assert batch.said("pytest -q tests/a.py::test_x", cases) == "2 passed in 1.00s"
    assert batch.said("pytest -q tests/a.py", cases) == ""
    assert batch.said("pytest -q tests/b", cases) == ""
    assert batch.said("pytest -q tests/a.py::test_x tests/b", cases) == "2 passed, 1 skipped in 2.00s"
    assert batch.targets("pytest -q tests/a.py -k x") == batch.targets("make x && pytest -q tests/a.py") == []


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
