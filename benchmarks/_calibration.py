"""What pulls, pushes and dense exchanges cost in CPU time, here and on a server: short measurements on this machine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _simulator import Cost

from flota import _core
from flota.client import Tls
from flota.communicator.remote import push_options
from flota.initializer import Uniform
from flota.rules import SGD
from flota.testing import LocalCluster

_SMALL, _LARGE = 512, 8_192  # rows of a call
_DENSE_SMALL, _DENSE_LARGE = 4_096, 400_000
_TABLE = 200_000  # rows there are


def cpu_of(pid: int) -> float:
    """CPU seconds that the process has used."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


class Calibration:
    """Calls to one server by this transport."""

    def __init__(self, cluster: LocalCluster, transport: Any, dim: int, seconds: float, tls: Tls | None) -> None:
        self._pid = cluster.servers[0].pid
        self._seconds = seconds
        self._dim = dim
        self._client = cluster.client(transport=transport, worker=1, tls=tls)
        init = Uniform(-0.01, 0.01)
        self._table = self._client.create_sparse_table("calibration", dim=dim, rule=SGD(lr=0.01), init=init, seed=7)
        self._table.pull(torch.arange(_TABLE))
        self._step = 0

    def pull(self) -> tuple[Cost, Cost]:
        out = {count: torch.empty(count, self._dim) for count in (_SMALL, _LARGE)}
        return self._fit(lambda keys: self._table.pull(keys, out=out[len(keys)]))

    def push(self) -> tuple[Cost, Cost]:
        values = torch.full((_LARGE, self._dim), 1e-4)
        return self._fit(lambda keys: self._table.push(keys, values[: len(keys)]))

    def hold(self) -> tuple[Cost, Cost]:
        """A push in sync mode, and the end of its step."""
        values = torch.full((_LARGE, self._dim), 1e-4)
        group, native = "calibration", self._client.native

        def step(keys: torch.Tensor) -> None:
            batch = self._table.make_batch()
            places = torch.empty(len(keys), dtype=torch.int32)
            batch.route(keys.data_ptr(), len(keys), places.data_ptr())
            self._table.push_batch(
                batch, values[: len(keys)], push_options(0.01, self._step, _core.hash_name(group), 0)
            )
            native.finish_step(group, self._step, self._step + 1, 0, 1, 1.0, False, False, 30_000)
            self._step += 1

        return self._fit(step)

    def dense(self) -> tuple[Cost, Cost]:
        """A parameter's gradient out and its new values back."""
        tables = {
            count: self._client.create_dense_table(f"dense-{count}", shape=count, rule=SGD(lr=0.01))
            for count in (_DENSE_SMALL, _DENSE_LARGE)
        }
        values = {count: torch.full((count,), 1e-4) for count in tables}

        def exchange(count: int) -> None:
            tables[count].push(values[count])
            tables[count].pull(out=values[count])
            values[count].fill_(1e-4)

        return self._costs({count: (lambda count=count: exchange(count)) for count in tables})

    def _fit(self, call: Callable[[torch.Tensor], object]) -> tuple[Cost, Cost]:
        generator = torch.Generator().manual_seed(1)
        data = [torch.randperm(_TABLE, generator=generator)[:_LARGE].clone() for _ in range(16)]

        def of(count: int) -> Callable[[], None]:
            turn = iter(range(1 << 60))
            return lambda: (call(data[next(turn) % len(data)][:count]), None)[1]

        return self._costs({count: of(count) for count in (_SMALL, _LARGE)})

    def _costs(self, calls: dict[int, Callable[[], None]]) -> tuple[Cost, Cost]:
        """Two sizes give the part of a call and the part of a row; the best of three rounds, in turns."""
        best = {count: np.array([np.inf, np.inf]) for count in calls}
        for _ in range(3):
            for count, call in calls.items():
                best[count] = np.minimum(best[count], self._cpu(call))
        (small, few), (large, many) = ((count, best[count]) for count in calls)
        row = np.maximum((many - few) / (large - small), 0)
        first = np.maximum(few - small * row, 0)
        return Cost(float(first[0]), float(row[0])), Cost(float(first[1]), float(row[1]))

    def _cpu(self, call: Callable[[], None]) -> np.ndarray:
        """CPU seconds of this process and of the server for each call."""
        for _ in range(3):
            call()
        own, theirs, done = time.process_time(), cpu_of(self._pid), 0
        began = time.perf_counter()
        while time.perf_counter() - began < self._seconds:
            call()
            done += 1
        return np.array([time.process_time() - own, cpu_of(self._pid) - theirs]) / done


def cores() -> int:
    return len(os.sched_getaffinity(0))
