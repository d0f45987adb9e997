"""The names that scripts use are there, and take what the reference's take."""

import inspect
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from surface_names import NAMES

from flota.paddle.modules import MODULES, home_of

SIGNATURES = json.loads((Path(__file__).parent / "golden" / "signatures.json").read_text())

# Where scripts do not call it as the reference would let them.
OTHERWISE = {
    "paddle.Tensor",  # made by to_tensor
    "paddle.static.Variable",  # made by operations
    "paddle.disable_static",  # its place is the CPU
}


@pytest.mark.parametrize("module", NAMES)
def test_every_name_of_a_module_is_there(module):
    missing = [name for name in NAMES[module] if not hasattr(import_module(home_of(module)), name)]
    assert not missing


def test_every_module_can_be_imported_as_scripts_do():
    assert set(NAMES) <= set(MODULES)
    lines = [f"from {module} import {', '.join(names)}" for module, names in NAMES.items()]
    code = "\n".join(["from flota.paddle.modules import install", "install()", *lines])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", [name for name in SIGNATURES if name not in OTHERWISE])
def test_arguments_have_the_references_names_and_order(name):
    module, _, last = name.rpartition(".")
    own = list(inspect.signature(getattr(import_module(home_of(module)), last)).parameters)
    # Of operations `name` is taken by what calls them.
    wanted, own = ([each for each in names if each != "name"] for names in (SIGNATURES[name], own))
    assert own[: len(wanted)] == wanted
