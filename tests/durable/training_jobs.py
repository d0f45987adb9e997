"""Workers of a job whose servers a test keeps."""

import json
import subprocess
import sys
from pathlib import Path

from flota import config

SCRIPT = Path(__file__).parents[1] / "fleet" / "train.py"
WORKERS = 2


def start_workers(cluster, out, mode, steps):
    settings = json.dumps({"mode": mode, "optimizer": "Adagrad", "steps": steps, "batch": 64, "out": str(out)})
    started = []
    for rank in range(WORKERS):
        environment = config.child_environment(
            TRAINING_ROLE="TRAINER",
            PADDLE_TRAINER_ID=str(rank),
            PADDLE_TRAINERS_NUM=str(WORKERS),
            PADDLE_PSERVERS_IP_PORT_LIST=",".join(cluster.endpoints),
            FLOTA_SECRET=cluster.secret,
            FLOTA_TIMEOUT="60",
        )
        log = (out / f"worker.{rank}").open("w")
        command = [sys.executable, str(SCRIPT), settings]
        started.append(subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT))
        log.close()
    return started
