"""``paddle.reader``: readers made of others. A reader is a function without arguments that returns samples to iterate
over: each call is a pass."""

from __future__ import annotations

import itertools
import multiprocessing
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.pool import ThreadPool
from queue import Empty
from typing import Any

from flota import checks
from flota.errors import DataError, InvalidArgument
from flota.paddle.ahead import ahead

__all__ = [
    "ComposeNotAligned",
    "batch",
    "buffered",
    "cache",
    "chain",
    "compose",
    "firstn",
    "map_readers",
    "multiprocess_reader",
    "shuffle",
    "xmap_readers",
]

Reader = Callable[[], Iterable[Any]]

_MOST = 1 << 30
_LOOK = 0.2  # seconds between two looks whether processes still live


class ComposeNotAligned(ValueError):
    """One of the readers that are read together ended before another."""


def batch(reader: Reader, batch_size: int, drop_last: bool = False) -> Reader:
    """The reader's samples in lists of ``batch_size``; the last one may have fewer."""
    size = checks.whole("batch_size", batch_size, 1, _MOST)

    def read() -> Iterator[list[Any]]:
        samples = iter(reader())
        while len(taken := list(itertools.islice(samples, size))) == size:
            yield taken
        if taken and not drop_last:
            yield taken

    return read


def shuffle(reader: Reader, buf_size: int) -> Reader:
    """The samples in blocks of ``buf_size``, each in an order of ``random``'s."""

    def read() -> Iterator[Any]:
        for block in batch(reader, buf_size)():
            random.shuffle(block)
            yield from block

    return read


def buffered(reader: Reader, size: int) -> Reader:
    """The same, up to ``size`` samples read ahead by a thread."""
    depth = checks.whole("size", size, 1, _MOST)
    return lambda: ahead(reader, depth)


def cache(reader: Reader) -> Reader:
    """All samples, read now and kept in memory."""
    kept = tuple(reader())
    return lambda: iter(kept)


def chain(*readers: Reader) -> Reader:
    """One reader's samples after the other's."""
    return lambda: itertools.chain.from_iterable(reader() for reader in readers)


def firstn(reader: Reader, n: int) -> Reader:
    """The first ``n`` samples."""
    return lambda: itertools.islice(reader(), n)


def map_readers(func: Callable[..., Any], *readers: Reader) -> Reader:
    """``func`` of the readers' samples side by side, as long as all have one."""
    return lambda: map(func, *(reader() for reader in readers))


def compose(*readers: Reader, check_alignment: bool = True) -> Reader:
    """The readers' samples side by side, as one tuple: (1, 2) beside 3 is (1, 2, 3). ``check_alignment``: a reader that
    ends before the others is an error, else the end of all."""

    def read() -> Iterator[tuple[Any, ...]]:
        together = zip(*(reader() for reader in readers), strict=check_alignment)
        while True:
            try:
                samples = next(together)
            except StopIteration:
                return
            except ValueError as error:
                if not str(error).startswith("zip()"):
                    raise  # a reader's own
                raise ComposeNotAligned(f"the {len(readers)} readers have different numbers of samples") from None
            yield tuple(itertools.chain.from_iterable(map(_as_tuple, samples)))

    return read


def _as_tuple(sample: Any) -> tuple[Any, ...]:
    return sample if isinstance(sample, tuple) else (sample,)


def xmap_readers(
    mapper: Callable[[Any], Any], reader: Reader, process_num: int, buffer_size: int, order: bool = False
) -> Reader:
    """``mapper`` of each sample, by ``process_num`` threads that are up to ``buffer_size`` samples ahead; ``order``: in
    the samples' order, else in any."""
    threads = checks.whole("process_num", process_num, 1, 1024)
    depth = checks.whole("buffer_size", buffer_size, 1, _MOST)

    def mapped() -> Iterator[Any]:
        # A block at a time: a pool's own imap would read all of the samples at once.
        with ThreadPool(threads) as pool:
            for block in batch(reader, max(depth, threads))():
                yield from (pool.imap if order else pool.imap_unordered)(mapper, block)

    return lambda: ahead(mapped, depth)


def multiprocess_reader(readers: Sequence[Reader], use_pipe: bool = True, queue_size: int = 1000) -> Reader:
    """The samples of all readers in any order, each reader in a process of its own, together up to ``queue_size``
    ahead. ``use_pipe`` is how the reference carries samples over; here it is a queue, on a pipe, in either case."""
    if not readers:
        raise InvalidArgument("multiprocess_reader: there are no readers")
    size = checks.whole("queue_size", queue_size, 1, 32767)
    context = multiprocessing.get_context("fork")  # readers are closures, which no other way carries over

    def read() -> Iterator[Any]:
        queue: Any = context.Queue(size)
        processes = []
        try:
            for reader in readers:
                process = context.Process(target=_send, args=(reader, queue), daemon=True)
                process.start()
                processes.append(process)
            yield from _received(queue, processes)
        finally:
            for process in processes:
                process.kill()
                process.join()
            queue.close()

    return read


def _send(reader: Reader, queue: Any) -> None:
    """In a reader's process."""
    try:
        for sample in reader():
            queue.put((True, sample))
        queue.put((False, None))
    except Exception as error:
        queue.put((False, f"{type(error).__name__}: {error}"))


def _received(queue: Any, processes: Sequence[Any]) -> Iterator[Any]:
    reading = len(processes)
    while reading:
        # Asked before the look into the queue: what a process sent before it died is taken first.
        died = [process for process in processes if process.exitcode]
        try:
            is_sample, content = queue.get(timeout=_LOOK)
        except Empty:
            if died:
                raise DataError(f"a reader's process died with status {died[0].exitcode}") from None
            continue
        if is_sample:
            yield content
        elif content is None:
            reading -= 1
        else:
            raise DataError(f"a reader failed in its process: {content}")
