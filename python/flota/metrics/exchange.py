"""Arrays of all workers, by one call that all of them make.

A message of one worker is, in numpy's own file format, the text of what it asks for, then its arrays. It travels in
pieces, each a gathering: the length of the message in 8 bytes stands before it, so that all workers know from the first
piece on how many follow.
"""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np

from flota.errors import InvalidArgument
from flota.metrics.inputs import Array

# The pieces of all workers come back in one answer, to each of them; and a worker may bring 16 MiB to a gathering.
_ANSWER = 32 << 20
_MOST, _LEAST = 8 << 20, 64 << 10


def exchange(asks: str, arrays: Sequence[Array]) -> list[list[Array]]:
    """Every worker's arrays, in the order of the workers, the same on every worker.

    ``asks`` says what they are for. All workers make these calls in the same order: where they ask for different things
    all get InvalidArgument.
    """
    gathered = _gather(_write([np.frombuffer(asks.encode(), np.uint8), *arrays]))
    messages = {worker: _read(message) for worker, message in gathered.items()}
    for worker, (text, *_) in messages.items():
        if (other := text.tobytes().decode()) != asks:
            raise InvalidArgument(
                f"this worker asks for {asks}, and worker {worker} for {other}: all workers must call the global "
                "metrics in the same order, with the same settings"
            )
    return [message[1:] for message in messages.values()]


def _gather(message: bytes) -> dict[int, bytes]:
    """By worker, those that were there from the first piece to the last: workers may come and go."""
    # Here, because it brings torch with it, and the metrics of one process need none.
    from flota import workers

    job = workers.current()
    framed = len(message).to_bytes(8, "little") + message
    everybody = {worker: bytearray(first) for worker, first in job.gather_by_rank("metrics", framed[:_LEAST]).items()}
    longest = max(int.from_bytes(first[:8], "little") for first in everybody.values()) + 8
    # As many as were there: of that all workers have heard the same.
    piece = max(_LEAST, min(_MOST, _ANSWER // len(everybody)))
    for begin in range(_LEAST, longest, piece):
        more = job.gather_by_rank("metrics", framed[begin : begin + piece])
        everybody = {worker: whole + more[worker] for worker, whole in everybody.items() if worker in more}
    return {worker: bytes(whole[8:]) for worker, whole in everybody.items()}


def _write(arrays: Sequence[Array]) -> bytes:
    stream = io.BytesIO()
    for array in arrays:
        np.save(stream, array, allow_pickle=False)
    return stream.getvalue()


def _read(message: bytes) -> list[Array]:
    stream, arrays = io.BytesIO(message), []
    while stream.tell() < len(message):
        arrays.append(np.load(stream, allow_pickle=False))
    return arrays
