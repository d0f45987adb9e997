"""All tests that promises name, in one run: a test has one outcome, however many promises it shows."""

import re
import shlex
import subprocess
import xml.etree.ElementTree as Tree
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Jobs on hosts that are namespaces: one of them at a time.
BY_THEMSELVES = "tests/engines/"


def targets(command):
    """The files and tests of a command that is nothing but a run of pytest; else none."""
    if re.search(r"[;&|$<>]", command):
        return []
    words = shlex.split(command)
    if words[:2] != ["pytest", "-q"] or any(word.startswith("-") for word in words[2:]):
        return []
    return words[2:]


def run(commands, environment, folder):
    """Runs the files of these commands; returns the outcomes of their tests."""
    files = sorted({target.partition("::")[0] for command in commands for target in targets(command)})
    cases = []
    for name, how, some in (
        ("most", ["-n", "2", "--dist", "loadfile"], [file for file in files if not file.startswith(BY_THEMSELVES)]),
        ("engines", [], [file for file in files if file.startswith(BY_THEMSELVES)]),
    ):
        if not some:
            continue
        report = folder / f"{name}.xml"
        report.unlink(missing_ok=True)
        options = ["-q", *how, f"--junitxml={report}", "-o", "junit_family=xunit1", "-p", "no:cacheprovider"]
        subprocess.run(["pytest", *options, *some], cwd=ROOT, env=environment, check=False)
        cases += Tree.parse(report).iter("testcase") if report.exists() else ()
    return cases


def said(command, cases):
    """What pytest would say of the command alone, if all that it names passed; else nothing."""
    passed, skipped, seconds = 0, 0, 0.0
    for target in targets(command):
        path, _, name = target.partition("::")
        mine = [case for case in cases if _is_of(case, path, name)]
        if not mine or any(case.find(bad) is not None for case in mine for bad in ("failure", "error")):
            return ""
        skipped += sum(case.find("skipped") is not None for case in mine)
        passed += sum(case.find("skipped") is None for case in mine)
        seconds += sum(float(case.get("time", 0)) for case in mine)
    return f"{passed} passed{f', {skipped} skipped' if skipped else ''} in {seconds:.2f}s" if passed else ""


def _is_of(case, path, name):
    file = case.get("file", "")
    if file != path and not file.startswith(path.rstrip("/") + "/"):
        return False
    full = case.get("name", "")
    return not name or full == name or full.partition("[")[0] == name.rpartition("::")[2]
