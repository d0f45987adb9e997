"""``python -m flota.launch``."""

import sys

from flota.launch import main

if __name__ == "__main__":
    sys.exit(main(prog="python -m flota.launch"))
