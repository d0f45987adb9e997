"""Starting jobs: ``flota launch --server_num 2 --worker_num 4 train.py``, or ``python -m flota.launch`` for the same.

``arguments`` says what may be asked for, ``hosts`` and ``plan`` decide what runs where, ``protection`` keeps others out
of it, ``environment`` tells each process who it is, ``processes`` and ``guard`` see to it that they end, ``progress``
and ``view`` show how they do, and ``local`` is the life of one launch on one host. ``certs``, ``pserver`` and
``version`` are commands beside it. Nothing here imports torch: a launch starts at once.
"""

from flota.launch.local import main

__all__ = ["main"]
