"""Starting jobs: ``flota launch --server_num 2 --worker_num 4 train.py``, or ``python -m flota.launch`` for the same.

``command`` is the command, ``arguments`` and ``parser`` say what may be asked for, and ``engines`` where it can run:
each engine is a module or package here. On the hosts where the command is given (``local``), ``hosts`` and ``plan``
decide what runs where, ``protection`` keeps others out of it, ``environment`` tells each process who it is,
``processes`` and ``guard`` see to it that they end, ``restarts`` says which of them begin again and ``herald`` tells
the others, ``progress`` and ``view`` show how they do, and ``running`` watches them. ``durable`` and ``resuming`` are
about jobs that outlive their launch. ``certs``, ``pserver`` and ``version`` are commands beside it. Nothing here
imports torch: a launch starts at once.
"""

from flota.launch.command import main

__all__ = ["main"]
