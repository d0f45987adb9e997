"""``flota launch --on ray``: servers and workers as actors of a Ray cluster that runs already.

    driver                          node (any number)
    ──────                          ─────────────────
    job.py                          actor.py    Seat: a Ray actor, in a place that Ray has set aside
      watching.py  RayLaunch          │ stdin, stdout: lines of JSON
        crew.py    RayCrew          keeper.py   starts the script, ends it, keeps what it printed
          process.py RayProcess ──► Seat          └─ python train.py

The driver decides everything, by the rules of a local launch (``restarts``, ``reviving``, ``running``); a seat does
what it is told and says what it sees. Ray finds a place for each seat, and another one when its node is lost.
``cluster`` is how Ray is asked, ``seats`` what it is asked for, ``placing`` makes a plan of what it answers,
``keeping`` is about what servers keep, ``settings`` are this engine's flags, and ``protection`` says who gets which
secrets.

Ray pickles what goes between its processes. What flota hands it are numbers, strings, lists and dicts, and a class that
each node imports from its own flota.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flota.launch.arguments import Arguments


def launch(arguments: Arguments) -> int:
    """Runs the job to its end."""
    from flota.launch.ray.job import run  # with Ray, which a keeper does without

    return run(arguments)
