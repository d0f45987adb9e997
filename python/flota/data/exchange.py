"""The global shuffle: every worker sends samples to where they belong, and receives its own, through the servers."""

from __future__ import annotations

import threading
from itertools import count

from flota import _core, workers
from flota.errors import FlotaError

_LETTER = 256 << 10  # bytes
_LEAD = 2 << 20  # bytes that may have come in beyond those that have gone out
_PATIENCE = 0.05  # seconds

_numbers = count(1)  # every worker counts the same shuffles


def exchange(store: _core.SampleStore, seed: int) -> _core.SampleStore:
    """All workers' samples in an order that depends on the seed: this worker's part of it. ``store`` is emptied."""
    team = workers.current()
    client = team.client
    assert client is not None
    if client.passed("flota/data/shuffle"):
        raise FlotaError(
            f"worker {team.index} was started again after workers had exchanged their samples; those that were sent to "
            "it are gone, so that it cannot go on: resume the job from a save, or use local_shuffle, which a worker "
            "that is started again can repeat"
        )
    own = len(store).to_bytes(8, "little") + seed.to_bytes(8, "little")
    told = team.gather("data/shuffle", own)
    if any(part[8:] != own[8:] for part in told):
        raise FlotaError("the workers shuffle with different seeds")
    counts = [int.from_bytes(part[:8], "little") for part in told]
    shuffle = _core.GlobalShuffle.make(store, counts, team.index, seed)
    channel = f"flota/shuffle/{next(_numbers)}"
    pace = _Pace()
    receiver = _Receiver(shuffle, channel, pace)
    receiver.start()
    try:
        _send(shuffle, channel, pace)
    finally:
        pace.over()
        receiver.join()
    if receiver.error is not None:
        raise receiver.error
    mixed = _core.SampleStore(store.layout)
    shuffle.finish(mixed)
    return mixed


class _Pace:
    """What comes in follows what has gone out: else a worker that receives faster than it sends would hold its own
    samples and others' as well.

    Nobody waits for a sender that stands still: it may wait for a receiver that waits for its own sender in turn.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._sent = 0
        self._received = 0
        self._over = False

    def sent(self, size: int) -> None:
        with self._changed:
            self._sent += size
            self._changed.notify_all()

    def received(self, size: int) -> None:
        with self._changed:
            self._received += size

    def over(self) -> None:
        """All has gone out."""
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def wait(self) -> None:
        """Before more is received."""
        with self._changed:
            while not self._over and self._received > self._sent + _LEAD:
                before = self._sent
                self._changed.wait(_PATIENCE)
                if self._sent == before:
                    return


def _send(shuffle: _core.GlobalShuffle, channel: str, pace: _Pace) -> None:
    team = workers.current()
    assert team.client is not None
    native, time = team.client.native, team.client.time(None)
    sent = [0] * team.count
    with team.client.saying_where():
        while letters := shuffle.next(_LETTER):
            for to, letter in letters:
                native.send(channel, team.index, to, team.count, sent[to], False, letter, time)
                sent[to] += 1
                pace.sent(len(letter))
        for to in range(team.count):
            native.send(channel, team.index, to, team.count, sent[to], True, b"", time)


class _Receiver(threading.Thread):
    """Receives while others are sent to: letters would else wait for room for ever."""

    def __init__(self, shuffle: _core.GlobalShuffle, channel: str, pace: _Pace) -> None:
        super().__init__(name="flota shuffle", daemon=True)
        self._shuffle = shuffle
        self._channel = channel
        self._pace = pace
        self.error: BaseException | None = None

    def run(self) -> None:
        team = workers.current()
        assert team.client is not None
        native, time = team.client.native, team.client.time(None)
        taken = 0
        try:
            with team.client.saying_where():
                while (letter := native.receive(self._channel, team.index, team.count, taken, time)) is not None:
                    self._shuffle.receive(letter[2])
                    taken += 1
                    self._pace.received(len(letter[2]))
                    self._pace.wait()
        except BaseException as error:  # raised by the thread that sends
            self.error = error
