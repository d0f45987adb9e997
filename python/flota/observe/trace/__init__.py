"""Where the time of a step goes: ``flota trace`` of a running job, ``flota.trace`` from within a process."""
