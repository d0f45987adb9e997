"""Writes golden/signatures.json: what the reference's functions take. Runs where the reference is installed:

GLOG_minloglevel=3 python tests/paddle/make_signature_goldens.py
"""

import importlib
import inspect
import json
from pathlib import Path

from surface_names import NAMES, WITH_ARGUMENTS

found = {}
for module in WITH_ARGUMENTS:
    for name in NAMES[module]:
        value = getattr(importlib.import_module(module), name, None)  # 1.x's are not there any more
        if not callable(value):
            continue
        try:
            arguments = inspect.signature(value).parameters.values()
        except (TypeError, ValueError):
            continue  # written in C++
        if all(each.kind == each.POSITIONAL_OR_KEYWORD for each in arguments):
            found[f"{module}.{name}"] = [each.name for each in arguments]

path = Path(__file__).parent / "golden" / "signatures.json"
lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(arguments)}" for name, arguments in found.items())
path.write_text("{\n" + lines + "\n}\n")
