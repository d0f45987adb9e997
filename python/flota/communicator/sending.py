"""How an async worker's gradients go to the servers: in the background, step by step or several steps merged."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

from flota.client import Client
from flota.communicator.merging import StepGradients, merged
from flota.communicator.remote import push_options
from flota.errors import FlotaError
from flota.strategy import Async
from flota.tables import Future
from flota.timeline import span

_WAIT_SECONDS = 0.01  # for each of send_wait_times


class Sent(Protocol):
    """A step's gradients on their way."""

    def done(self) -> bool: ...

    def wait(self) -> None:
        """Returns when the servers have applied them; raises if they have not."""

    def wait_dense(self) -> None:
        """The same for the dense ones, where they go out at once."""


class Sender(Protocol):
    """Sends steps' gradients in the background."""

    def send(self, gradients: StepGradients) -> Sent: ...

    def waiting(self, under_way: int) -> int:
        """How many of so many steps under way nobody is sending yet."""

    def gone_out(self) -> int:
        """How many steps' gradients have been sent so far, or are just being sent."""

    def hurried(self) -> AbstractContextManager[None]:
        """While the training waits: what is there goes out at once."""


class SendQueue:
    """The steps whose gradients are on their way, the oldest first. One thread's own."""

    def __init__(self, client: Client, mode: Async) -> None:
        self._most_waiting = mode.send_queue_size
        # One push after another, each begun by the step that made it.
        self.in_order = mode.max_merge_var_num == 1 and mode.thread_pool_size == 1
        self._sender: Sender = DirectSender(client) if self.in_order else MergingSender(client, mode)
        self._under_way: deque[tuple[int, Sent]] = deque()
        self._lost: int | None = None  # the first step whose gradients were

    def put(self, gradients: StepGradients) -> None:
        """Hands over a step's gradients; waits while too many are waiting. Raises what an earlier step failed with."""
        self.settle(len(self._under_way))
        if self._sender.waiting(len(self._under_way)) >= self._most_waiting:
            with span("wait"), self._sender.hurried():
                while self._sender.waiting(len(self._under_way)) >= self._most_waiting:
                    self._take_oldest()
        self._under_way.append((gradients.step, self._sender.send(gradients)))

    def settle(self, most: int) -> int:
        """Waits until so many steps at most are under way, counted from the oldest that is not applied; returns how
        many are. Raises what one of the others failed with."""
        while self._under_way and self._under_way[0][1].done():
            self._take_oldest()
        if len(self._under_way) > most:
            with span("wait"), self._sender.hurried():
                while len(self._under_way) > most:
                    self._take_oldest()
        return len(self._under_way)

    def applied(self, steps: int) -> int:
        """How many of so many steps are applied, up to the oldest that is not or was lost. Any thread may ask."""
        under_way = list(self._under_way)
        waiting = next((len(under_way) - place for place, (_, sent) in enumerate(under_way) if not sent.done()), 0)
        applied = steps - waiting
        return applied if self._lost is None else min(applied, self._lost - 1)

    def newest(self) -> Sent | None:
        """The step that was put last, if it is still under way."""
        return self._under_way[-1][1] if self._under_way else None

    def wait_dense(self) -> None:
        """Servers have the dense gradients that were put last, unless they are to be merged with later ones."""
        if self._under_way:
            step, sent = self._under_way[-1]
            try:
                told_of_step(step, sent.wait_dense)
            except FlotaError:
                self._under_way.pop()  # told once
                raise

    def gone_out(self) -> int:
        return self._sender.gone_out()

    def _take_oldest(self) -> None:
        step, sent = self._under_way[0]
        try:
            told_of_step(step, sent.wait)
        except FlotaError:
            self._lost = step if self._lost is None else min(step, self._lost)
            raise
        finally:
            # After the wait: until then it counts as under way.
            self._under_way.popleft()


def told_of_step(step: int, send: Callable[[], None]) -> None:
    """Errors of sending a step's gradients name the step."""
    try:
        send()
    except FlotaError as error:
        raise type(error)(f"the gradients of step {step} were lost: {error}") from error


class DirectSender:
    """One push a step and table, in their order, by the core's own thread: nothing of it is done in Python."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._steps = 0

    def send(self, gradients: StepGradients) -> Sent:
        native, time = self._client.native, self._client.time(None)
        pushes = []
        # First: the end of the step may wait for them.
        if gradients.dense:
            options = push_options(0.0, gradients.step)
            parts = gradients.dense_parts()
            kept_dense = (parts, [one.values for one in gradients.dense], gradients.seen)
            pushes.append(native.push_dense_async(parts, options, time, kept_dense))
        for rows in gradients.rows:
            options = push_options(rows.lr, gradients.step)
            kept = (rows.table.native, rows.values)
            values = rows.values.data_ptr()
            pushes.append(native.push_batch_async(rows.table.native, rows.batch, values, options, time, kept))
        self._steps += 1
        return _Pushes([Future(push, None) for push in pushes], bool(gradients.dense))

    def waiting(self, under_way: int) -> int:
        return max(under_way - 1, 0)  # the oldest is being sent

    def gone_out(self) -> int:
        return self._steps

    def hurried(self) -> AbstractContextManager[None]:
        return nullcontext()


class _Pushes:
    """Pushes that the core's thread makes one after another."""

    def __init__(self, pushes: list[Future[None]], has_dense: bool) -> None:
        self._pushes = pushes
        self._dense = pushes[0] if has_dense else None

    def done(self) -> bool:
        return not self._pushes or self._pushes[-1].done()

    def wait(self) -> None:
        # Each of them has a deadline of its own.
        for push in self._pushes:
            push.result()

    def wait_dense(self) -> None:
        if self._dense is not None:
            self._dense.result()


class MergingSender:
    """Several threads; each takes some of the steps that wait, and pushes their sum."""

    def __init__(self, client: Client, mode: Async) -> None:
        self._client = client
        self._most = mode.max_merge_var_num
        self._patience = mode.send_wait_times * _WAIT_SECONDS
        self._threads = futures.ThreadPoolExecutor(mode.thread_pool_size, thread_name_prefix="flota-send")
        self._changed = threading.Condition()
        self._waiting: deque[tuple[StepGradients, _Merged]] = deque()
        self._hurry = False
        self._steps = 0

    def send(self, gradients: StepGradients) -> Sent:
        sent = _Merged()
        with self._changed:
            self._waiting.append((gradients, sent))
            self._changed.notify_all()
        # One task a step: those whose step an earlier one has taken along find nothing to do.
        self._threads.submit(self._send_some)
        return sent

    def waiting(self, under_way: int) -> int:
        return len(self._waiting)

    def gone_out(self) -> int:
        return self._steps

    @contextmanager
    def hurried(self) -> Iterator[None]:
        self._set_hurry(True)
        try:
            yield
        finally:
            self._set_hurry(False)

    def _set_hurry(self, hurry: bool) -> None:
        with self._changed:
            self._hurry = hurry
            self._changed.notify_all()

    def _take(self) -> list[tuple[StepGradients, _Merged]]:
        with self._changed:
            self._changed.wait_for(
                lambda: self._hurry or not self._waiting or len(self._waiting) >= self._most, self._patience
            )
            taken = [self._waiting.popleft() for _ in range(min(self._most, len(self._waiting)))]
            self._steps += len(taken)
            return taken

    def _send_some(self) -> None:
        taken = self._take()
        if not taken:
            return
        try:
            self._push(merged([gradients for gradients, _ in taken]))
        except Exception as error:  # told to the training thread, whatever it is
            for _, sent in taken:
                sent.future.set_exception(error)
        else:
            for _, sent in taken:
                sent.future.set_result(None)

    def _push(self, gradients: StepGradients) -> None:
        with span("push"):
            self._push_now(gradients)

    def _push_now(self, gradients: StepGradients) -> None:
        native, time = self._client.native, self._client.time(None)
        for rows in gradients.rows:
            options = push_options(rows.lr, gradients.step)
            native.push_batch(rows.table.native, rows.batch, rows.values.data_ptr(), options, time)
        if gradients.dense:
            native.push_dense(gradients.dense_parts(), push_options(0.0, gradients.step), time)


class _Merged:
    """A step's gradients, to be pushed by a thread together with others'."""

    def __init__(self) -> None:
        self.future: futures.Future[None] = futures.Future()

    def done(self) -> bool:
        return self.future.done()

    def wait(self) -> None:
        # The pushes have deadlines of their own.
        self.future.result()

    def wait_dense(self) -> None:
        """Not waited for: whoever merges wants them to go later."""
