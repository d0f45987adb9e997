"""The three ways to train, as types: ``Sync``, ``Async`` and ``Geo``. The names of their settings are Fleet's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from flota import checks

_MOST = 1 << 20
_MOST_THREADS = 256
_MOST_STEPS = (1 << 31) - 1


@dataclass(frozen=True)
class Sync:
    """Step t sees every worker's pushes of the steps before t and none of step t: as one process would train on all
    workers' batches together.

    ``launch_barrier``: no worker takes its first step before all are there.
    """

    name: ClassVar[str] = "sync"
    launch_barrier: bool = True

    def __post_init__(self) -> None:
        checks.flag("launch_barrier", self.launch_barrier)


@dataclass(frozen=True)
class Async:
    """A push is applied on arrival, and a pull returns what is there.

    - ``max_staleness``: how many of its own pushes a worker may have under way, and how many steps it may be ahead of
      the slowest worker; None bounds neither.
    - ``max_merge_var_num``: how many steps' gradients are merged into one push at most.
    - ``send_queue_size``: how many steps' gradients may wait to be sent; a step that finds the queue full waits.
    - ``send_wait_times``: how often sending waits for more gradients to merge before it goes on with fewer.
    - ``thread_pool_size``: how many threads send.
    - ``independent_recv_thread``: dense parameters are received by a thread of their own, beside the steps.
    - ``min_send_grad_num_before_recv``: how many pushes go out before dense parameters are received again.
    - ``launch_barrier``: no worker takes its first step before all are there.
    """

    name: ClassVar[str] = "async"
    max_staleness: int | None = None
    max_merge_var_num: int = 1
    send_queue_size: int = 16
    independent_recv_thread: bool = False
    min_send_grad_num_before_recv: int = 1
    thread_pool_size: int = 1
    send_wait_times: int = 1
    launch_barrier: bool = True

    def __post_init__(self) -> None:
        if self.max_staleness is not None:
            checks.whole("max_staleness", self.max_staleness, 0, _MOST)
        checks.whole("max_merge_var_num", self.max_merge_var_num, 1, _MOST)
        checks.whole("send_queue_size", self.send_queue_size, 1, _MOST)
        checks.flag("independent_recv_thread", self.independent_recv_thread)
        checks.whole("min_send_grad_num_before_recv", self.min_send_grad_num_before_recv, 1, _MOST)
        checks.whole("thread_pool_size", self.thread_pool_size, 1, _MOST_THREADS)
        checks.whole("send_wait_times", self.send_wait_times, 0, _MOST)
        checks.flag("launch_barrier", self.launch_barrier)


@dataclass(frozen=True)
class Geo:
    """Each worker trains a copy of its own and every ``k_steps`` steps sends how far it has moved.

    ``launch_barrier``: no worker takes its first step before all are there.
    """

    name: ClassVar[str] = "geo"
    k_steps: int = 100
    launch_barrier: bool = True

    def __post_init__(self) -> None:
        checks.whole("k_steps", self.k_steps, 1, _MOST_STEPS)
        checks.flag("launch_barrier", self.launch_barrier)


Mode = Sync | Async | Geo
