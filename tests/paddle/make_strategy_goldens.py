"""Writes golden/strategy.json: what the reference's DistributedStrategy has, and its values when nothing is set. Runs
where the reference is installed:

GLOG_minloglevel=3 python tests/paddle/make_strategy_goldens.py
"""

import inspect
import json
from pathlib import Path

from paddle.distributed.fleet import DistributedStrategy


def plain(value):
    """As JSON has it; messages and objects of the reference's own by their kind alone."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, float):
        return float(f"{value:.6g}")  # there they are single
    if isinstance(value, (bool, int, str)):
        return value
    return list(value) if hasattr(value, "__len__") else {}


strategy = DistributedStrategy()
names = [name for name in dir(strategy) if not name.startswith("_") and name != "strategy"]
found = {name: plain(getattr(strategy, name)) for name in names if not inspect.ismethod(getattr(strategy, name))}

path = Path(__file__).parent / "golden" / "strategy.json"
lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(value)}" for name, value in found.items())
path.write_text("{\n" + lines + "\n}\n")
