"""The three ways to train, as types: ``Sync``, ``Async`` and ``Geo``. The names of their settings are Fleet's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from flota import checks
from flota.errors import InvalidArgument

_MOST = 1 << 20
_MOST_THREADS = 256
_MOST_STEPS = (1 << 31) - 1


@dataclass(frozen=True)
class Sync:
    """Step t sees every worker's pushes of the steps before t and none of step t: as one process would train on all
    workers' batches together.

    ``launch_barrier``: no worker takes its first step before all are there. False: it begins as soon as the dense
    parameters are filled, by worker 0 or from a checkpoint.
    """

    name: ClassVar[str] = "sync"
    launch_barrier: bool = True

    def __post_init__(self) -> None:
        checks.flag("launch_barrier", self.launch_barrier)


@dataclass(frozen=True)
class Async:
    """A push is applied on arrival, and a pull returns what is there.

    - ``max_staleness``: how many steps' gradients a worker may have under way to the servers, and how many steps it may
      be ahead of the slowest worker: step t + 1 begins when all but so many of its own steps are applied, every worker
      has finished step t - ``max_staleness``, and dense parameters were pulled after that. 0 is half-async: all workers
      step together, and gradients are applied as they arrive. None: nobody waits for anybody. Who waits for others
      outside of a step (a barrier, ``all_reduce``, the end) holds nobody up.
    - ``max_merge_var_num``: how many steps' gradients are merged into one push at most: gradients of equal keys, and of
      each dense parameter, are summed, and applied once with the learning rate and the step of the newest.
    - ``send_queue_size``: how many steps' gradients may wait while others are being sent; a step that finds the queue
      full waits.
    - ``send_wait_times``: how often, for 10 ms each, sending waits for more gradients to merge before it goes on with
      fewer. It never waits while the training does.
    - ``thread_pool_size``: how many threads send, each a push of its own: with several, steps may be applied in another
      order than they were made.
    - ``independent_recv_thread``: False: a step ends with the servers' dense parameters, its own gradients among them
      (those that are to be merged with later ones excepted). True: a thread of its own pulls when what was sent has
      been applied, and a step takes what is there without waiting: faster, and a step or two behind.
    - ``min_send_grad_num_before_recv``: how many steps' gradients go out before dense parameters are received again.
    - ``launch_barrier``: True: no worker takes its first step before all are there. False: a worker begins as soon as
      the dense parameters are filled, by worker 0 or from a checkpoint.
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

    def refuse_without_effect(self) -> None:
        """Raises where one setting keeps another from acting. Not done before they are used: Fleet sets them one by
        one, in any order."""
        for name, without_effect, reason in self._without_effect():
            if without_effect:
                raise InvalidArgument(f"{name}={getattr(self, name)!r} has no effect with {reason}")

    def _without_effect(self) -> Iterator[tuple[str, bool, str]]:
        merge, queue = self.max_merge_var_num, self.send_queue_size
        yield (
            "send_wait_times",
            merge == 1 and self.send_wait_times != Async.send_wait_times,
            "max_merge_var_num=1: there is nothing to wait for; set that too, or leave this out",
        )
        yield (
            "max_merge_var_num",
            merge > queue,
            f"send_queue_size={queue}: no more steps than that wait to be merged",
        )
        if self.max_staleness is None:
            return
        bound = f"max_staleness={self.max_staleness}"
        most = self.max_staleness + 1
        for name in ("max_merge_var_num", "thread_pool_size"):
            yield name, getattr(self, name) > most, f"{bound}: no more than {most} steps are ever under way"
        yield (
            "send_queue_size",
            queue > most and queue != Async.send_queue_size,
            f"{bound}: no more than {most} steps are ever under way",
        )
        yield (
            "min_send_grad_num_before_recv",
            self.min_send_grad_num_before_recv > most,
            f"{bound}: dense parameters would be staler than that",
        )
        yield (
            "independent_recv_thread",
            self.independent_recv_thread and self.max_staleness == 0,
            f"{bound}: every step waits for the newest dense parameters",
        )


@dataclass(frozen=True)
class Geo:
    """Each worker trains a copy of its own and every ``k_steps`` steps sends how far it has moved.

    ``launch_barrier``: no worker takes its first step before all are there. False: it begins as soon as the dense
    parameters are filled, by worker 0 or from a checkpoint.
    """

    name: ClassVar[str] = "geo"
    k_steps: int = 100
    launch_barrier: bool = True

    def __post_init__(self) -> None:
        checks.whole("k_steps", self.k_steps, 1, _MOST_STEPS)
        checks.flag("launch_barrier", self.launch_barrier)


Mode = Sync | Async | Geo
