"""``flota version``: which flota, and what is in it, in the form of ``paddle version``."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path


def _torch_has_cuda() -> bool:
    """Read from torch's own file: importing it takes seconds."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return False
    text = (Path(spec.origin).parent / "version.py").read_text(encoding="utf-8")
    return re.search(r"^cuda\b[^=]*=\s*['\"]", text, re.MULTILINE) is not None


def facts() -> dict[str, bool]:
    return {
        "with_avx": platform.machine() == "x86_64",  # the native library is compiled for x86-64-v3 there
        "with_gpu": _torch_has_cuda(),  # workers' arithmetic is torch's
        "with_double": False,  # rows and dense parameters are float32, or narrower
        "with_python": True,
        "with_rdma": False,
        "with_timer": False,
    }


def main(argv: Sequence[str] | None = None) -> int:
    if argv:
        print(f"flota version: it takes no arguments, not {' '.join(argv)}", file=sys.stderr)
        return 2
    print(f"flota {metadata.version('flota')}, compiled with")
    for name, holds in facts().items():
        print(f"    {name}: {'ON' if holds else 'OFF'}")
    return 0
