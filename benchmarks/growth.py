"""What a pulled row costs from 1 to 100 million rows, beside a gather from an array of as many rows.

Bar: at 100 million at most 2x the cost at 1 million, apart from what the caches explain, which is what the array's
curve shows.
"""

from __future__ import annotations

import argparse
import json

import _native


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millions", type=int, nargs="+", default=[1, 3, 10, 30, 100])
    arguments = parser.parse_args()
    results = _native.run("growth_bench", *arguments.millions)
    first, last = results[0], results[-1]
    for result in results:
        print(
            f"{result['rows'] / 1e6:6.0f} M rows: array {result['array_ns']:5.1f} ns, pull {result['pull_ns']:5.1f} ns,"
            f" {result['bytes_a_row']:.0f} bytes a row, longest batch while filling {result['longest_batch_ms']:.1f} ms"
        )
    growth = last["pull_ns"] / first["pull_ns"]
    caches = last["array_ns"] / first["array_ns"]
    print(f"pull grew {growth:.2f}x, the array {caches:.2f}x; apart from the caches {growth / caches:.2f}x (bar 2.00)")
    print(json.dumps({"benchmark": "growth", "growth": growth, "array_growth": caches, "results": results}))


if __name__ == "__main__":
    main()
