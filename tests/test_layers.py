"""The tree is the architecture: imports and includes go down only, in Python and in the native core.

Standard library only, so that `make check` needs no build. A module or folder that is in no layer is an error: add it
to the table where it belongs.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYTHON = ROOT / "python" / "flota"
NATIVE = ROOT / "native"

# Top to bottom. A module may use the lines below its own, never its neighbours. "flota" is the public __init__: what
# stands above it sees flota as a user does.
PYTHON_LAYERS = """
    cli launch_ps __main__
    paddle
    flota
    observe
    launch
    training
    util
    fleet testing
    vectors
    saving shrinking inference
    communicator
    nn optim data metrics checkpoint
    workers
    client server
    tables
    roles strategy report eras
    prometheus tensorboard
    standing
    timeline
    tls durable health
    certificates log
    config rules initializer admission arrays pages
    checks
    errors
    ending lazy _core
"""

NATIVE_LAYERS = """
    bindings
    server client data
    wire durable
    table
    optim
    common
"""

# Beyond the layers: the client and the wire never see a table.
NEVER_INCLUDED = {"client": {"table", "optim"}, "wire": {"table", "optim"}}

# Headers from outside, and the only folders that may include them.
CONFINED_HEADERS = {
    re.compile(r"nanobind/|Python\.h|torch/|pybind11/"): {"bindings"},
    re.compile(r"boost/asio|sys/socket\.h|netinet/"): {"bindings", "server", "client", "wire"},
}

READ_THE_ENVIRONMENT = {"config", "roles"}


def depths(layers: str) -> dict[str, int]:
    return {name: depth for depth, line in enumerate(layers.strip().splitlines()) for name in line.split()}


def may_use(layers: dict[str, int], user: str, used: str) -> str | None:
    """Why `user` may not use `used`; None when it may."""
    for name in (user, used):
        if name not in layers:
            return f"{name} is in no layer"
    if user == used or layers[user] < layers[used]:
        return None
    return f"{user} may not use {used}"


# --- Python ---


def python_files(package: Path) -> Iterator[tuple[str, Path, ast.Module]]:
    """(the layer's name, file, its syntax tree) of each module."""
    for file in sorted(package.rglob("*.py")):
        first = file.relative_to(package).parts[0].removesuffix(".py")
        yield "flota" if first == "__init__" else first, file, ast.parse(file.read_text(), str(file))


def imported_names(tree: ast.Module, file: Path, package: Path) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of each import, with relative ones made absolute; `from a import b` gives a.b."""
    folder = ["flota", *file.parent.relative_to(package).parts]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = folder[: len(folder) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def python_violations(package: Path) -> list[str]:
    layers = depths(PYTHON_LAYERS)
    modules = {path.stem for path in package.iterdir()} | layers.keys()
    found = []
    for user, file, tree in python_files(package):
        for line, name in imported_names(tree, file, package):
            top, *rest = name.split(".")
            if top != "flota":
                continue
            # `from flota import Client` uses the public __init__; `from flota import client` the module.
            used = rest[0] if rest and rest[0] in modules else "flota"
            if reason := may_use(layers, user, used):
                found.append(f"{file.relative_to(package.parent)}:{line}: {reason}")
    return found


def environment_reads(package: Path) -> list[str]:
    readers = {"environ", "environb", "getenv", "getenvb"}
    found = []
    for user, file, tree in python_files(package):
        if user in READ_THE_ENVIRONMENT:
            continue
        for node in ast.walk(tree):
            by_attribute = (
                isinstance(node, ast.Attribute)
                and node.attr in readers
                and isinstance(node.value, ast.Name)
                and node.value.id == "os"
            )
            by_import = (
                isinstance(node, ast.ImportFrom)
                and node.module == "os"
                and any(alias.name in readers for alias in node.names)
            )
            if by_attribute or by_import:
                found.append(f"{file.relative_to(package.parent)}:{node.lineno}: reads the environment")
    return found


# --- native ---

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)


def native_files(root: Path) -> Iterator[tuple[str, Path, str]]:
    """(folder, file, text) of each native source."""
    for file in sorted(path for path in root.rglob("*") if path.suffix in {".h", ".cc"}):
        yield file.relative_to(root).parts[0], file, file.read_text()


def native_reason(layers: dict[str, int], user: str, ours: str | None, outside: str | None) -> str | None:
    """Why a file in `user` may not include the header `ours` ("folder/file.h") or <outside>; None when it may."""
    if outside is not None:
        for header, folders in CONFINED_HEADERS.items():
            if header.match(outside) and user not in folders:
                return f"{user} may not include <{outside}>"
        return None
    used, slash, _ = (ours or "").partition("/")
    if not slash:
        return f'"{ours}" does not name its folder'
    if used in NEVER_INCLUDED.get(user, set()):
        return f"{user} may not use {used}"
    return may_use(layers, user, used)


def native_violations(root: Path) -> list[str]:
    layers = depths(NATIVE_LAYERS)
    found = []
    for user, file, text in native_files(root):
        for match in INCLUDE.finditer(text):
            if reason := native_reason(layers, user, match[1], match[2]):
                line = text.count("\n", 0, match.start()) + 1
                found.append(f"{file.relative_to(root.parent)}:{line}: {reason}")
        if re.search(r"\b(?:secure_)?getenv\s*\(", text):
            found.append(f"{file.relative_to(root.parent)}: reads the environment")
    return found


# --- this tree ---


def test_python_imports_go_down_only():
    assert python_violations(PYTHON) == []


def test_native_includes_go_down_only():
    assert native_violations(NATIVE) == []


def test_only_config_and_roles_read_the_environment():
    assert environment_reads(PYTHON) == []


# --- the checks themselves ---


def tree_of(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        ("client.py", "import flota.fleet", "client may not use fleet"),
        ("client.py", "from flota import fleet", "client may not use fleet"),
        ("client.py", "from flota.nn.embedding import Embedding", "client may not use nn"),
        ("client.py", "from . import nn", "client may not use nn"),
        ("client.py", "from .server import main", "client may not use server"),
        ("client.py", "def f():\n    from flota import Client", "client may not use flota"),
        ("nn/embedding.py", "from ..optim import wrap", "nn may not use optim"),
        ("nn/deep/bag.py", "from ... import fleet", "nn may not use fleet"),
        ("errors.py", "from flota.config import Config", "errors may not use config"),
        ("misc.py", "import flota.errors", "misc is in no layer"),
        ("client.py", "from flota.misc import thing", "misc is in no layer"),
    ],
)
def test_a_python_import_that_goes_up_is_caught(tmp_path, file, text, reason):
    package = tree_of(tmp_path / "flota", {"misc.py": "", file: text})
    assert [found.split(": ", 1)[1] for found in python_violations(package)] == [reason]


def test_python_imports_that_go_down_pass(tmp_path):
    files = {
        "__init__.py": "from flota.fleet import init\nfrom .client import Client",
        "client.py": "import os, torch\nfrom flota import errors\nfrom flota._core import Session",
        "nn/__init__.py": "from flota.nn.embedding import Embedding",
        "nn/embedding.py": "from .bag import Bag\nfrom ..client import Client\nfrom .. import config",
        "paddle/__init__.py": "import flota\nfrom flota import Client",
    }
    assert python_violations(tree_of(tmp_path / "flota", files)) == []


@pytest.mark.parametrize(
    ("file", "include", "reason"),
    [
        ("common/a.h", '"optim/rule.h"', "common may not use optim"),
        ("optim/a.cc", '"table/index.h"', "optim may not use table"),
        ("table/a.cc", '"wire/frame.h"', "table may not use wire"),
        ("wire/a.cc", '"table/index.h"', "wire may not use table"),
        ("wire/a.cc", '"durable/log.h"', "wire may not use durable"),
        ("client/a.cc", '"table/index.h"', "client may not use table"),
        ("client/a.cc", '"optim/rule.h"', "client may not use optim"),
        ("client/a.cc", '"server/server.h"', "client may not use server"),
        ("table/a.cc", "<boost/asio.hpp>", "table may not include <boost/asio.hpp>"),
        ("server/a.cc", "<nanobind/nanobind.h>", "server may not include <nanobind/nanobind.h>"),
        ("table/a.cc", '"index.h"', '"index.h" does not name its folder'),
        ("misc/a.cc", '"common/hash.h"', "misc is in no layer"),
    ],
)
def test_a_native_include_that_goes_up_is_caught(tmp_path, file, include, reason):
    root = tree_of(tmp_path / "native", {file: f"#include <vector>\n  #  include {include}\n"})
    assert [found.split(": ", 1)[1] for found in native_violations(root)] == [reason]


def test_native_includes_that_go_down_pass(tmp_path):
    files = {
        "bindings/module.cc": '#include <nanobind/nanobind.h>\n#include "client/client.h"\n',
        "server/server.cc": '#include <boost/asio.hpp>\n#include "table/sparse_table.h"\n#include "wire/frame.h"\n',
        "table/index.cc": '#include "table/index.h"\n// #include "wire/frame.h" is what this must not do\n',
    }
    assert native_violations(tree_of(tmp_path / "native", files)) == []


@pytest.mark.parametrize("text", ["import os\nos.environ['A']", "import os\nos.getenv('A')", "from os import environ"])
def test_an_environment_read_is_caught(tmp_path, text):
    package = tree_of(tmp_path / "flota", {"client.py": text, "config.py": text, "roles.py": text})
    assert [found.split(":")[0] for found in environment_reads(package)] == ["flota/client.py"]
    native = tree_of(tmp_path / "native", {"wire/a.cc": 'auto home = std::getenv("HOME");'})
    assert native_violations(native) == ["native/wire/a.cc: reads the environment"]
