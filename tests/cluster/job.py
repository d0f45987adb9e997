"""The job of the kill matrix: a user's script that trains on files, whose result tells what was lost or doubled.

Each sample is a key of its own in the table "counts", with a gradient of 1: by SGD with a learning rate of 1 its row is
minus the number of times that the servers have learnt from it (divided by the number of workers in geo mode). Beside
it a small model learns in the ordinary way, so that a run in sync mode can be compared bit for bit with another.

A server has no use for torch, and is there again within a moment: what workers do is in ``training.py``.
"""

import json
import sys
from pathlib import Path

from faults import Fault, Faults

import flota


def main(settings):
    out = Path(settings["out"])
    flota.init()
    name = f"server {flota.server_index()}" if flota.is_server() else f"worker {flota.worker_index()}"
    faults = Faults(out, name, [Fault(**fault) for fault in settings["faults"]])
    if flota.is_server():
        with faults.around("start-up"):
            flota.init_server()
        flota.run_server()
        return
    from training import Training

    Training(settings, out, faults).run()


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
