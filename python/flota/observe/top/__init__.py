"""``flota top``: a running job in a terminal."""
