"""``flota checkpoint inspect | verify | convert | diff``: checkpoints from the command line.

``show.py``, ``check.py`` and ``compare.py`` look into them; ``export.py`` writes them as other programs read them,
``vectors.py`` makes them of what other programs have written. None needs torch but for files of torch's own.
"""

from flota.checkpoint.commands.arguments import main as main
