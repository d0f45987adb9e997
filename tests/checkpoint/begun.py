"""A user's script for the tests: begins with vectors that worker 0 has, and trains a step."""

import json
import sys
from pathlib import Path

import torch

import flota

MODES = {"sync": flota.Sync, "async": flota.Async, "geo": lambda: flota.Geo(k_steps=1)}


def main(mode, out, wide=2):
    torch.set_num_threads(1)
    flota.init()
    words = flota.nn.Embedding(None, 2, name="words")
    optimizer = flota.distributed_optimizer(torch.optim.SGD(words.parameters(), lr=1.0), MODES[mode]())
    if flota.is_server():
        flota.init_server()
        flota.run_server()
        return
    flota.init_worker()
    keys = torch.arange(1000) * 7
    if flota.is_first_worker():
        taken = flota.load_vectors(words, keys, torch.ones(1000, wide) * torch.arange(1000.0)[:, None])
    else:
        taken = flota.load_vectors("words")
    seen = words.pull(keys).tolist()
    flota.barrier_worker()
    words(keys[:2]).sum().backward()
    optimizer.step()
    flota.barrier_worker()
    result = {"taken": taken, "seen": seen, "trained": words.pull(keys[:2]).tolist()}
    Path(out, f"worker{flota.worker_index()}.json").write_text(json.dumps(result))
    flota.stop_worker()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
