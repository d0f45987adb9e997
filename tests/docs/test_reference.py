"""The reference has every public name, and each name in it says what it is."""

import dataclasses
import inspect
import re
from importlib import import_module
from types import ModuleType

import pytest
from blocks import ROOT

import flota

REFERENCE = {file.name: file.read_text() + "\n" for file in sorted((ROOT / "docs/api").glob("*.md"))}
_ENTRY = re.compile(r"^::: (\S+)\n((?:    .*\n)*)", re.MULTILINE)
# Public modules: what is public in them.
MODULES = ["data", "metrics", "nn", "rules", "initializer", "admission", "errors", "testing", "util"]


def entries():
    return [(match[1], match[2]) for text in REFERENCE.values() for match in _ENTRY.finditer(text)]


def found(path):
    words = path.split(".")
    for count in range(len(words), 0, -1):
        try:
            thing = import_module(".".join(words[:count]))
        except ImportError:
            continue
        for name in words[count:]:
            thing = getattr(thing, name)
        return thing
    raise AssertionError(f"there is no {path}")


def members(path, options):
    """The public names that the reference shows below this one."""
    thing = found(path)
    told = re.search(r"members: \[(.*)\]", options)
    if told:
        return [name.strip() for name in told[1].split(",") if name.strip()]
    if isinstance(thing, type):
        return [
            name
            for name, value in vars(thing).items()
            if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, property))
        ]
    if isinstance(thing, ModuleType):
        here = [name for name, value in vars(thing).items() if getattr(value, "__module__", "") == thing.__name__]
        return [name for name in here if not name.startswith("_")]
    return []


def says(thing):
    text = inspect.getdoc(thing) or ""
    if isinstance(thing, type) and dataclasses.is_dataclass(thing):
        return not text.startswith(f"{thing.__name__}(")  # what dataclass writes by itself
    return bool(text)


def test_every_directive_is_one():
    for name, text in REFERENCE.items():
        assert text.count(":::") == len(_ENTRY.findall(text)), f"docs/api/{name}: a ::: that is not alone on its line"


@pytest.mark.parametrize(("path", "options"), entries(), ids=[path for path, _ in entries()])
def test_what_the_reference_shows_has_docstrings(path, options):
    thing = found(path)
    assert says(thing), f"{path} has no docstring"
    silent = [name for name in members(path, options) if not says(getattr(thing, name))]
    assert not silent, f"{path}: no docstrings for {', '.join(silent)}"


def test_every_public_name_is_in_the_reference():
    shown = [found(path) for path, _ in entries()]
    headings = {name for text in REFERENCE.values() for name in re.findall(r'heading: "flota\.([\w.]+)"', text)}
    known = {*headings, *(path.removeprefix("flota.") for path, _ in entries())}
    missing = []
    for name in flota.__all__:
        value = getattr(flota, name)
        if not isinstance(value, ModuleType) and name not in known and not any(value is thing for thing in shown):
            missing.append(name)
    for module in MODULES:
        if found(f"flota.{module}") in shown:
            continue  # all of it is shown
        public = getattr(found(f"flota.{module}"), "__all__", [])
        missing += [f"{module}.{name}" for name in public if f"{module}.{name}" not in known | {"data.synthetic"}]
    assert not missing, "give them a place in docs/api/"
