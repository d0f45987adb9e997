"""What is done with blocks that cannot be run as they stand. Each check raises an AssertionError, or passes."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
import yaml
from blocks import ROOT, Block

from flota import cli
from flota.errors import FlotaError
from flota.launch.arguments import parse
from flota.launch.ssh.inventory import read_hosts

_PROMPT = re.compile(r"^h\d\$ ")
_SEPARATORS = {"|", "&", "&&", ";", "||", ">", "<", "(", ")"}
_HADOLINT = Path(sys.executable).with_name("hadolint")


def commands(block: Block) -> Iterator[list[str]]:
    """The words of each simple command in the block, variables that are set before it left out."""
    for line in block.commands:
        lexer = shlex.shlex(_PROMPT.sub("", line), posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if word in _SEPARATORS or set(word) <= set("|&;<>()"):
                while words and (re.match(r"^\w+=", words[0]) or words[0] in ("nohup", "export")):
                    words.pop(0)
                if words:
                    yield words
                words = []
            else:
                words.append(word)


def bash_reads_it(block: Block) -> None:
    done = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, f"{block.where}: {done.stderr}"


def python_reads_it(block: Block) -> None:
    compile(block.text, block.where, "exec")


class _Parsed(Exception):
    pass


def flags_are_taken(block: Block) -> None:
    """The parser of each ``flota`` command takes what the block gives it."""
    found = [words[1:] for words in commands(block) if words[0] == "flota"]
    assert found, f"{block.where} has no flota command"
    for words in found:
        _parse(block, words)


def _parse(block: Block, words: list[str]) -> None:
    original = argparse.ArgumentParser.parse_args

    def parse_args(parser: argparse.ArgumentParser, *given: object, **named: object) -> None:
        original(parser, *given, **named)  # type: ignore[call-overload]
        raise _Parsed

    with _scripts(words):
        try:
            if words[0] == "launch":
                parse(words[1:], "flota launch")
                return
            with mock.patch.object(argparse.ArgumentParser, "parse_args", parse_args):
                cli.main(words)
        except _Parsed:
            return
        except (FlotaError, SystemExit) as error:
            raise AssertionError(f"{block.where}: flota {' '.join(words)}: {error}") from error
    raise AssertionError(f"{block.where}: flota {words[0]} has parsed nothing")


@contextlib.contextmanager
def _scripts(words: list[str]) -> Iterator[None]:
    """A folder in which the scripts and files that a command names are there."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for link in ("examples", "benchmarks", "deploy"):
            (folder / link).symlink_to(ROOT / link)
        for word in words:
            if word.endswith(".py") and "/" not in word:
                (folder / word).touch()
        try:
            os.chdir(folder)
            yield
        finally:
            os.chdir(before)


def scripts_take_their_flags(block: Block) -> None:
    """Scripts of the tree that the block runs are there, and have the flags that it gives them."""
    found = 0
    for words in commands(block):
        place = next((i for i, word in enumerate(words) if word.startswith(("examples/", "benchmarks/"))), None)
        if place is None:
            continue
        found += 1
        script = ROOT / words[place]
        assert script.is_file(), f"{block.where}: there is no {words[place]}"
        if script.suffix == ".sbatch":
            script = ROOT / "examples/wide_and_deep.py"  # what the batch script hands its arguments to
        if script.suffix == ".py":
            known = re.findall(r"add_argument\(\s*\"(--\w+)\"", script.read_text(encoding="utf-8"))
            asked = [word.partition("=")[0] for word in words[place + 1 :] if word.startswith("--")]
            assert set(asked) <= {*known, "--help"}, f"{block.where}: {script.name} takes {known}, not {asked}"
    assert found, f"{block.where} runs no script of the tree"


def hosts_are_read(block: Block) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(block.text)
        file.flush()
        assert read_hosts(file.name), block.where


def renders(block: Block) -> None:
    """What ``--on kubernetes`` would create is objects that the newest release takes."""
    import kubernetes_validate

    for words in commands(block):
        with _scripts(words):
            done = subprocess.run(
                [sys.executable, "-m", "flota.cli", *words[1:2], "--dry_run", *words[2:]],
                capture_output=True, text=True, timeout=60,
            )  # fmt: skip
        assert done.returncode == 0, f"{block.where}: {done.stderr}"
        objects = [thing for thing in yaml.safe_load_all(done.stdout) if thing]
        assert objects, block.where
        for thing in objects:
            kubernetes_validate.validate(thing, "1.37", strict=True)


def kubectl_creates_it(block: Block) -> None:
    """The whole block is run, but kubectl keeps to itself what it would send."""
    assert block.text.count("kubectl create ") == 1, block.where
    if shutil.which("kubectl") is None:
        pytest.skip("not installed: kubectl (make cluster-tests installs it)")
    text = block.text.replace("kubectl create ", "kubectl create --dry-run=client ")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text], cwd=folder, env={**os.environ, "PATH": path},
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
    assert done.returncode == 0, f"{block.where}: {done.stderr}"
    assert "created (dry run)" in done.stdout


def yaml_reads_it(block: Block) -> None:
    assert list(yaml.safe_load_all(block.text)), block.where


def json_reads_it(block: Block) -> None:
    json.loads(block.text)


def a_dockerfile_has_no_lint(block: Block) -> None:
    done = subprocess.run([str(_HADOLINT), "-"], input=block.text + "\n", capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, ""), f"{block.where}: {done.stdout}{done.stderr}"


# Languages that are not run: what reads them.
READERS = {
    "yaml": yaml_reads_it,
    "json": json_reads_it,
    "dockerfile": a_dockerfile_has_no_lint,
}
