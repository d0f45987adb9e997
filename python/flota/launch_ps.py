"""``python -m flota.launch_ps``: what ``flota.launch`` was called when there was another for collective training."""

import sys

from flota.launch import main

if __name__ == "__main__":
    sys.exit(main(prog="python -m flota.launch_ps"))
