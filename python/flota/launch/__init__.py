"""Starting jobs: ``flota launch --server_num 2 --worker_num 4 train.py``, or ``python -m flota.launch`` for the same.

``arguments`` says what may be asked for, ``hosts`` and ``plan`` decide what runs where, ``protection`` keeps others
out of it, ``environment`` tells each process who it is, ``processes`` and ``guard`` see to it that they end,
``restarts`` says which of them begin again and ``herald`` tells the others, ``progress`` and ``view`` show how they do,
and ``running`` watches them. ``durable`` and ``resuming`` are about jobs that outlive their launch; ``local`` is the
command. ``certs``, ``pserver`` and ``version`` are commands beside it. Nothing here imports torch: a launch starts at
once.
"""

from flota.launch.local import main

__all__ = ["main"]
