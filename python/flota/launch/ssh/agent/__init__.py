"""The agent: what a launch over SSH runs on each node of the job.

``python -m flota.launch.ssh.agent`` is started through SSH and connects its channel with the ``keeper``, a process of a
session of its own that outlives the connection. Before the job begins, ``preparing`` answers what the launch asks
(``facts``, ``receiving``); then the keeper runs the node's ``parts``, each a ``flota launch`` of its own (``part``),
and sends what they print (``tails``).
"""
