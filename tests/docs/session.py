"""Runs blocks of one page in its folder, as a reader would who works through it. Started by running.py.

Standard input has a list of steps as JSON. Python steps share one namespace; shell steps hand their variables on. What
each step printed goes into a file, and is shown where something fails.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

_RETRY_SECONDS = 60.0
_KEEP_VARIABLES = "trap 'status=$?; export -p > \"$DOCS_VARIABLES\"; exit $status' EXIT\n"


class Failed(Exception):
    """A block did not do what its page says."""


def main() -> int:
    steps = json.load(sys.stdin)
    folder = Path.cwd()
    os.environ["DOCS_VARIABLES"] = str(folder.with_name("variables"))
    sys.path.insert(0, str(folder))
    namespace: dict[str, object] = {"__name__": "__main__"}
    for step in steps:
        log = folder.with_name(step["log"])
        print(f"[{step['where']}]", flush=True)
        with log.open("wb") as file, _printing_to(file.fileno()):
            try:
                if step["kind"] == "python":
                    _run_python(step, namespace)
                else:
                    _run_shell(step)
            except (Exception, SystemExit) as error:
                failure: str | None = _reason(error)
            else:
                failure = None
        if failure is not None:
            print(f"{step['where']}: {failure}\n--- it printed:\n{log.read_text(errors='replace')[-6000:]}")
            return 1
    return 0


def _reason(error: BaseException) -> str:
    return str(error) if isinstance(error, Failed) else "".join(traceback.format_exception(error))


@contextlib.contextmanager
def _printing_to(file: int) -> Iterator[None]:
    """What this process and its children print goes there."""
    kept = os.dup(1), os.dup(2)
    try:
        os.dup2(file, 1)
        os.dup2(file, 2)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, before in enumerate(kept, 1):
            os.dup2(before, number)
            os.close(before)


def _run_python(step: dict, namespace: dict[str, object]) -> None:
    for part in step["parts"]:
        # So many empty lines that a traceback names the line of the page.
        code = compile("\n" * (part["line"] - 1) + part["text"], part["name"], "exec")
        exec(code, namespace)
        sys.stdout.flush()


def _run_shell(step: dict) -> None:
    serving = [_start(command) for command in step["serving"]]
    try:
        for command, status in step["commands"]:
            _run_command(command, status, step["retry"])
    finally:
        for process in serving:
            _stop(process)


def _bash(command: str) -> list[str]:
    variables = os.environ["DOCS_VARIABLES"]
    before = f'[[ -e "{variables}" ]] && source "{variables}"\n'
    return ["bash", "-euo", "pipefail", "-c", before + _KEEP_VARIABLES + command]


def _run_command(command: str, status: int | None, retry: bool) -> None:
    deadline = time.monotonic() + _RETRY_SECONDS
    while True:
        done = subprocess.run(_bash(command), stdin=subprocess.DEVNULL)
        if status is None or done.returncode == status:
            return
        if not retry or time.monotonic() > deadline:
            raise Failed(f"exit status {done.returncode}, not {status}, of\n{command}")
        time.sleep(0.2)


def _start(command: str) -> subprocess.Popen:
    return subprocess.Popen(_bash(command), stdin=subprocess.DEVNULL, start_new_session=True)


def _stop(process: subprocess.Popen) -> None:
    """As Ctrl-C and SIGTERM do: what serves must end by itself, and in order."""
    if process.poll() is not None:
        raise Failed(f"what was to serve had ended, with status {process.returncode}")
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise Failed("what served did not end after SIGTERM") from None


if __name__ == "__main__":
    sys.exit(main())
