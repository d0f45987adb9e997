"""Bytes of real memory a row at 10 million rows. Bar: 1.25 x (key + weights + state + counters)."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

CASES = [("SGD", 16, 0), ("Adagrad", 16, 1), ("Adam", 16, 2), ("SGD", 8, 0), ("Adagrad", 10, 1), ("SGD", 64, 0)]

# A process for each case: what one leaves behind must not count for the next.
PROGRAM = """
import sys, numpy as np
from flota import _core, rules
name, dim, rows = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))
spec = _core.TableSpec()
spec.name, spec.dim, spec.rule = "memory", dim, getattr(rules, name)().to_native()
spec.init.kind = _core.InitKind.constant
table = _core.SparseTable(spec)
portion = 65536
out = np.zeros((portion, dim), np.float32)
keys = np.zeros(portion, np.int64)
before = resident()
for first in range(0, rows, portion):
    count = min(portion, rows - first)
    keys[:count] = np.arange(first, first + count)
    table.pull(keys.ctypes.data, count, out.ctypes.data, True)
print((resident() - before) / rows)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    arguments = parser.parse_args()
    results = []
    for name, dim, slots in CASES:
        command = [sys.executable, "-c", PROGRAM, name, str(dim), str(arguments.rows)]
        measured = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        payload = 8 + 4 * dim * (1 + slots) + 8
        results.append({"rule": name, "dim": dim, "bytes": measured, "payload": payload, "ratio": measured / payload})
        ratio = measured / payload
        print(f"{name:8} dim {dim:3}: {measured:6.1f} bytes a row for {payload} of content: {ratio:.2f}x (bar 1.25)")
    print(json.dumps({"benchmark": "memory", "rows": arguments.rows, "bar": 1.25, "results": results}))


if __name__ == "__main__":
    main()
