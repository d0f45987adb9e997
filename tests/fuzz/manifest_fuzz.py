"""Manifests that nobody wrote: each is refused by ``CheckpointError``, or understood and spelt as it was.

    python tests/fuzz/manifest_fuzz.py --runs 1000000 --seed 1

In one of ten, values are exchanged for others, left out and added, and mostly the checksum is put right again, so that
what lies behind it is reached; the rest are changes of bytes of such a one. The same arguments give the same inputs;
one that fails is printed.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import sys
from typing import Any

from flota.checkpoint.manifest import Manifest, _checksum, _spell
from flota.errors import CheckpointError

_OF_ONE = 10  # inputs of a manifest: itself, and with other bytes

STRANGE: list[Any] = [
    None, True, False, 0, -1, 1, 2**31, 2**63, 2**64 - 1, 2**64, -(2**63), 10**400, 0.5, -0.0, 1e308, "", "x", "..",
    "../../etc", "rows", "sparse", "Adagrad", "\u0000", "x" * 300, [], [[]], {}, {"kind": "SGD"}, [0, 1], [1, 2, 3],
]  # fmt: skip


def sample() -> dict[str, Any]:
    """A manifest with everything that one can have."""
    table = {
        "kind": "sparse", "rule": {"kind": "Adagrad", "lr": 0.1, "lr_decay": 0.0, "weight_decay": 0.0,
        "initial_accumulator_value": 0.0, "eps": 1e-10, "steps": "row"}, "state": ["sum"],
        "init": {"kind": "Uniform", "low": -1.0, "high": 1.0}, "seed": 7, "storage": "float32",
        "allow_nonfinite": False, "dim": 4, "rows": 10, "waiting": 3, "removed": 2, "shrinks": [5, 9],
        "admission": {"kind": "Count", "count": 3, "waiting": 4096},
    }  # fmt: skip
    dense = {
        "kind": "dense", "rule": {"kind": "SGD", "lr": 0.1, "weight_decay": 0.0}, "state": [],
        "init": {"kind": "Constant", "value": 0.0}, "seed": 1, "storage": "float32", "allow_nonfinite": False,
        "shape": [2, 3], "updates": 4, "last_seen": 4,
    }  # fmt: skip
    rows = {"bytes": 100, "sha256": "ab" * 32, "table": "users", "rows": 10, "shards": [0, 1023]}
    return {
        "format": "flota checkpoint", "version": 1, "kind": "persistables", "flota": "0", "step": 9,
        "source": {"mode": "sync", "servers": 2}, "tables": {"users": table, "dense/w": dense},
        "files": {"sparse-00000.safetensors": rows, "waiting-00000.safetensors": {**rows, "part": "waiting"},
                  "dense-00000.safetensors": {"bytes": 9, "sha256": "cd" * 32, "tables": ["dense/w"]}},
        "data": [{"pass": "p#0", "epoch": 1, "pieces": 3, "over_below": 1, "done": [[0, 1]], "begun": [[1, 5]]}],
        "mode": "delta", "era": 10, "mark": 77, "parents": [{"path": "../base", "identity": "0" * 16}],
        "folder": "files-0123456789abcdef",
    }  # fmt: skip


def containers(value: Any) -> list[Any]:
    """The value's lists and mappings, itself included."""
    if isinstance(value, dict):
        return [value, *(each for inner in value.values() for each in containers(inner))]
    if isinstance(value, list):
        return [value, *(each for inner in value for each in containers(inner))]
    return []


def strange(numbers: random.Random) -> Any:
    return copy.deepcopy(numbers.choice(STRANGE))


def changed(body: dict[str, Any], numbers: random.Random) -> bytes:
    for _ in range(numbers.choice((1, 1, 1, 2, 4))):
        place = numbers.choice(containers(body))
        names = list(place) if isinstance(place, dict) else list(range(len(place)))
        action = numbers.random()
        if names and action < 0.7:
            place[numbers.choice(names)] = strange(numbers)
        elif names and action < 0.85:
            del place[numbers.choice(names)]
        elif isinstance(place, dict):
            place[numbers.choice(("rows", "x", "mode", "shape", "part", "admission"))] = strange(numbers)
        else:
            place.append(strange(numbers))
    checksum = _checksum(body) if numbers.random() < 0.95 else "0" * 64
    return _spell({**body, "checksum": checksum})


def damaged(data: bytes, numbers: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(numbers.randint(1, 4)):
        at = numbers.randrange(len(out))
        action = numbers.random()
        if action < 0.5:
            out[at] ^= 1 << numbers.randrange(8)
        elif action < 0.75:
            del out[at : at + numbers.randint(1, 30)]
        else:
            out[at:at] = bytes(numbers.choices(b'{}[],:"0123456789ntf\\\xff', k=numbers.randint(1, 9)))
        if not out:
            break
    return bytes(out)


def run(data: bytes) -> bool:
    """Whether it was understood."""
    try:
        contents = Manifest.from_bytes(data, "manifest.json")
    except CheckpointError:
        return False
    assert contents.to_bytes() == data, "it was understood as something else than it says"
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    numbers = random.Random(arguments.seed)
    whole = json.dumps(sample())
    good = _spell({**sample(), "checksum": _checksum(sample())})
    understood = int(run(good))
    for number in range(arguments.runs):
        if number % _OF_ONE == 0:
            good = changed(json.loads(whole), numbers)
        data = damaged(good, numbers) if number % _OF_ONE else good
        try:
            understood += run(data)
        except BaseException:
            print(f"input {number} of seed {arguments.seed}: {data!r}", file=sys.stderr)
            raise
    print(f"{arguments.runs} manifests, {understood} of them understood, no failure")
    return 0


if __name__ == "__main__":
    sys.exit(main())
