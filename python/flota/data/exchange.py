"""The global shuffle: every worker sends samples to where they belong, and receives its own, through the servers."""

from __future__ import annotations

import threading
from collections import Counter

from flota import _core, workers
from flota.errors import FlotaError

_LETTER = 256 << 10  # bytes

_exchanges: Counter[str] = Counter()


def exchange(store: _core.SampleStore, seed: int) -> _core.SampleStore:
    """All workers' samples in an order that depends on the seed: this worker's part of it. ``store`` is emptied."""
    team = workers.current()
    client = team.client
    assert client is not None
    own = len(store).to_bytes(8, "little") + seed.to_bytes(8, "little")
    told = team.gather("data/shuffle", own)
    if any(part[8:] != own[8:] for part in told):
        raise FlotaError("the workers shuffle with different seeds")
    counts = [int.from_bytes(part[:8], "little") for part in told]
    shuffle = _core.GlobalShuffle.make(store, counts, team.index, seed)
    _exchanges["shuffle"] += 1
    channel = f"flota/shuffle/{_exchanges['shuffle']}"
    receiver = _Receiver(shuffle, channel)
    receiver.start()
    try:
        _send(shuffle, channel)
    finally:
        receiver.join()
    if receiver.error is not None:
        raise receiver.error
    mixed = _core.SampleStore(store.layout)
    shuffle.finish(mixed)
    return mixed


def _send(shuffle: _core.GlobalShuffle, channel: str) -> None:
    team = workers.current()
    assert team.client is not None
    native, time = team.client.native, team.client.time(None)
    sent = [0] * team.count
    while letters := shuffle.next(_LETTER):
        for to, letter in letters:
            native.send(channel, team.index, to, team.count, sent[to], False, letter, time)
            sent[to] += 1
    for to in range(team.count):
        native.send(channel, team.index, to, team.count, sent[to], True, b"", time)


class _Receiver(threading.Thread):
    """Receives while others are sent to: letters would else wait for room for ever."""

    def __init__(self, shuffle: _core.GlobalShuffle, channel: str) -> None:
        super().__init__(name="flota shuffle", daemon=True)
        self._shuffle = shuffle
        self._channel = channel
        self.error: BaseException | None = None

    def run(self) -> None:
        team = workers.current()
        assert team.client is not None
        native, time = team.client.native, team.client.time(None)
        taken = 0
        try:
            while (letter := native.receive(self._channel, team.index, team.count, taken, time)) is not None:
                self._shuffle.receive(letter[2])
                taken += 1
        except BaseException as error:  # raised by the thread that sends
            self.error = error
