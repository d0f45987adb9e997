"""The table in this process against plain arrays: gather and fused update. Run: make bench, or this file alone.

Bars per core, from the project's limits: pull at dim 16 at least 0.40 of the array's gather, at dim 64 0.70; push at
dim 16, uniform keys, at least 0.45 (SGD), 0.60 (Adagrad), 0.70 (Adam) of the array's update. The gather of the bars
prefetches into the first-level cache, as the one they were set with did; one that prefetches into the second is faster
and stands beside it.
"""

from __future__ import annotations

import argparse
import json

import _native

PULL_BARS = {16: 0.40, 64: 0.70}
PUSH_BARS = {"sgd": 0.45, "adagrad": 0.60, "adam": 0.70}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--quick", action="store_true", help="dim 16 and batches of 13,312 only")
    arguments = parser.parse_args()
    cases = [(16, 13_312)] if arguments.quick else [(16, 13_312), (16, 106_496), (64, 13_312)]
    results = []
    for dim, batch in cases:
        # Rows of dim 64 with Adam's state are 768 bytes: fewer of them fit beside the array of the same size.
        rows = arguments.rows if dim <= 16 else arguments.rows // 4
        results += _native.run("table_bench", rows, dim, batch)
    for result in results:
        result["pull_bar"] = PULL_BARS[result["dim"]]
        if result["dim"] == 16 and result["pattern"] == "uniform":
            result["push_bar"] = PUSH_BARS[result["rule"]]
        print(
            f"dim {result['dim']:3} batch {result['batch']:7,} {result['pattern']:8} {result['rule']:8}"
            f" pull {result['pull']:6.1f} M rows/s = {result['pull_ratio']:.2f} of a gather"
            f" (bar {result['pull_bar']:.2f}; {result['pull_ratio_l2']:.2f} of one through the L2),"
            f" push {result['push']:6.1f} = {result['push_ratio']:.2f}"
            + (f" of an update (bar {result['push_bar']:.2f})" if "push_bar" in result else " of an update")
        )
    print(json.dumps({"benchmark": "table", "results": results}))


if __name__ == "__main__":
    main()
