"""``python -m flota.observe.page``: the page, as a launch starts it."""

import sys

from flota.observe.page.command import main

if __name__ == "__main__":
    sys.exit(main())
