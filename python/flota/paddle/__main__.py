"""``python -m flota.paddle [-m module | script] [arguments]``: runs a program that imports paddle."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from flota import config
from flota.paddle import modules

_USAGE = "usage: python -m flota.paddle [-m module | script] [arguments]"


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_USAGE, file=sys.stderr if not arguments else sys.stdout)
        return 0 if arguments else 2
    modules.install()
    config.lend_modules(str(Path(__file__).parent / "seat"))
    if arguments[0] == "-m":
        if len(arguments) < 2:
            print(_USAGE, file=sys.stderr)
            return 2
        sys.argv = arguments[1:]
        sys.path.insert(0, "")
        if arguments[1] in modules.LAUNCHERS:
            from flota.launch import main as launch

            return int(launch(["--paddle", *arguments[2:]]))
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return 0
    sys.argv = arguments
    sys.path.insert(0, str(Path(arguments[0]).resolve().parent))
    runpy.run_path(arguments[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
