"""What each process of a job tells Prometheus: ``families`` names it all, ``server`` and ``worker`` fill it in, and
``page`` shows it at ``/metrics`` on the loop of ``flota.health``.

Nothing is counted for it: a scrape reads what servers and ``flota.standing`` have anyway, on the port's thread.
"""
