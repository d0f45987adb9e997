"""The command line's flags: with underscores or dashes, each given once, and a near name for a misspelt one."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Callable, Sequence
from typing import Any

NO_SCRIPT = "\0"
_NO_VALUE = "\0"


class Once(argparse.Action):
    """Keeps a flag's value; another value for it, also by an alias, is refused: one of the two would be ignored."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        seen: dict[str, Any] = namespace.__dict__.setdefault("_seen", {})
        if seen.setdefault(self.dest, values) != values:
            parser.error(f"{option}={values} contradicts {self.option_strings[0]}={seen[self.dest]}, given before it")
        setattr(namespace, self.dest, values)


def count(text: str) -> int | None:
    """A number that may be left empty, as scripts do with a variable that is not set."""
    if not text.strip():
        return None
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"must not be negative, not {number}")
    return number


count.__name__ = "number"  # argparse's word for it in "invalid number value: 'two'"


def port(text: str) -> int | None:
    number = count(text)
    if number is not None and not 1 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"a port is between 1 and 65535, not {number}")
    return number


port.__name__ = "port"


def seconds(text: str) -> float:
    number = float(text)
    if not 0 <= number < 1e6:
        raise argparse.ArgumentTypeError(f"must be a number of seconds, not {text}")
    return number


seconds.__name__ = "number"


def or_auto(text: str) -> str:
    """What a flag was given whose value may be left out, or ``auto``."""
    return text.replace(_NO_VALUE, "auto")


def quantity(text: str) -> float:
    number = float(text)
    if not 0 <= number < 1e9:
        raise argparse.ArgumentTypeError(f"must not be negative, and below 1e9, not {text}")
    return number


quantity.__name__ = "number"


def above_zero(text: str) -> float:
    number = float(text)
    if not 0 < number < 1e9:
        raise argparse.ArgumentTypeError(f"must be above 0 and below 1e9, not {text}")
    return number


above_zero.__name__ = "number"


def one_of(*words: str) -> Callable[[str], str]:
    def word(text: str) -> str:
        if text not in words:
            raise argparse.ArgumentTypeError(f"it must be {' or '.join(words)}, not {text}")
        return text

    return word


class Parser:
    """An argparse parser whose flags may be written with dashes, and which knows the nearest name of a misspelt one."""

    def __init__(self, prog: str) -> None:
        self.argparse = argparse.ArgumentParser(
            prog=prog,
            description="Start the servers and workers of a job, show how they do, and stop them together.",
            usage="%(prog)s [flags] train.py [arguments of train.py]",
            epilog="The job's secret comes from FLOTA_SECRET or FLOTA_SECRET_FILE, certificates also from FLOTA_CERTS "
            "or FLOTA_TLS_*; a job on one host makes its own.",
            allow_abbrev=False,
        )
        self.flags: list[str] = []
        self.may_be_bare: set[str] = set()  # flags whose value may be left out; where there is one, it follows a "="

    def add(self, group: argparse._ArgumentGroup, *names: str, **options: Any) -> None:
        """Adds a flag under all its names, each with underscores and with dashes."""
        spellings = [spelling for name in names for spelling in (name, "--" + name[2:].replace("_", "-"))]
        self.flags += spellings
        options.setdefault("action", Once)
        group.add_argument(*dict.fromkeys(spellings), **options)

    def parse(self, argv: Sequence[str] | None) -> argparse.Namespace:
        words = self._with_values(sys.argv[1:] if argv is None else argv)
        # argparse has no script that may be left out before arguments that are not its own: one is put at the end, and
        # is the script exactly when there is no other.
        known, unknown = self.argparse.parse_known_args([*words, NO_SCRIPT] if "--resume" in words else words)
        if known.training_script == NO_SCRIPT:
            known.training_script = ""
        elif "--resume" in words:
            known.training_script_args.pop()
        if unknown:
            flag = unknown[0].partition("=")[0]
            near = difflib.get_close_matches(flag, self.flags, n=1)
            self.argparse.error(f"there is no flag {flag}" + (f": did you mean {near[0]}?" if near else ""))
        known.training_script_args = [word.removesuffix(f"={_NO_VALUE}") for word in known.training_script_args]
        return known

    def _with_values(self, words: Sequence[str]) -> list[str]:
        """argparse would take the script for the value of a flag that may have none."""
        return [f"{word}={_NO_VALUE}" if word in self.may_be_bare else word for word in words]
