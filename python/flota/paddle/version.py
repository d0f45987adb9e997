"""``paddle.version``: of the release whose API this is."""

from __future__ import annotations

from importlib import metadata

import flota.paddle

full_version = flota.paddle.__version__
major, minor, patch = full_version.split(".")
rc = "0"  # it is no candidate
istaged = True
with_mkl = "OFF"


def show() -> None:
    """Prints it, and the release of flota that has it."""
    for name in ("full_version", "major", "minor", "patch", "rc"):
        print(f"{name}: {globals()[name]}")
    print(f"flota: {metadata.version('flota')}")


def mkl() -> str:
    return with_mkl


def cuda() -> str:
    """Of the CUDA that it was built with: none."""
    return "False"


cudnn = xpu = cuda
