"""``flota launch --hosts node1,node2 train.py``: a job on hosts that are reached by SSH.

On the head, where the command is given: ``inventory`` reads which hosts there are, ``placing`` says what runs where,
``checks`` looks at them all before anything starts, ``dispatch`` brings them the package (``package``), ``starting``
says what each is to run, and ``running`` follows them to the end, each through a ``node`` with its ``connection``. On
each host an ``agent`` does the rest; ``protocol`` is what the two speak. Fabric is imported when a connection is made.
"""

from __future__ import annotations

from flota.launch.ssh.launching import launch

__all__ = ["launch"]
