"""The median time of a 64-byte request and its answer, beside a bare Asio echo. Bar: at most 1.5x on a transport."""

from __future__ import annotations

import json

import _native


def main() -> None:
    results = _native.run("echo_bench")
    for result in results:
        print(
            f"{result['transport']:14} echo {result['asio_echo_us']:5.1f} µs, pull {result['pull_us']:5.1f} µs:"
            f" {result['ratio']:.2f}x (bar 1.50)"
        )
    print(json.dumps({"benchmark": "latency", "bar": 1.5, "results": results}))


if __name__ == "__main__":
    main()
