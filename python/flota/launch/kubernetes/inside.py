"""What ``flota scale`` has run in a worker's pod, told what that worker is told: one envoy.

    python -m flota.launch.kubernetes.inside SECONDS scale 3

Servers may take so many seconds, in place of what ``FLOTA_TIMEOUT`` says there: whoever asks waits.
"""

from __future__ import annotations

import os
import sys

from flota import config
from flota.launch.kubernetes.late import told_higher


def main() -> None:
    if len(sys.argv) < 3:
        print("usage: python -m flota.launch.kubernetes.inside SECONDS WORD [NUMBER]", file=sys.stderr)
        sys.exit(2)
    seconds, *words = sys.argv[1:]
    environment = config.child_environment(**{config.TIMEOUT: seconds, **told_higher()})
    os.execve(sys.executable, [sys.executable, "-m", "flota.launch.envoy", *words], environment)


if __name__ == "__main__":
    main()
