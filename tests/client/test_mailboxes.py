"""Mailboxes: blocks of bytes from worker to worker, each received once."""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from test_interrupts import press_ctrl_c_after

from faulty_proxy import HELLO_DOWN, Fate, FaultyProxy
from flota import Client
from flota.errors import DeadlineExceeded, InvalidArgument, StaleEpoch, TooLarge

TIME = 20_000


def test_letters_arrive_in_order_and_end(client, name):
    core = client.native
    core.send(name, 0, 1, 2, 0, False, b"one", TIME)
    core.send(name, 0, 1, 2, 1, True, b"", TIME)
    core.send(channel=name, from_=1, to=1, world=2, sequence=0, last=True, data=b"three", time_ms=TIME)
    assert core.receive(name, 1, 2, 0, TIME) == (0, False, b"one")
    assert core.receive(name, 1, 2, 1, TIME) == (0, True, b"")
    assert core.receive(name, 1, 2, 1, TIME) == (0, True, b"")
    assert core.receive(name, 1, 2, 2, TIME) == (1, True, b"three")
    assert core.receive(name, 1, 2, 3, TIME) is None
    assert core.receive(channel=name, to=1, world=2, taken=3, time_ms=TIME) is None


def test_arrays_are_sent_from_where_they_lie(client, name, rng):
    values = rng.standard_normal(100_000)
    client.native.send(name, 0, 0, 1, 0, True, address=values.ctypes.data, size=values.nbytes, time_ms=TIME)
    letter = client.native.receive(name, 0, 1, 0, TIME)
    assert letter is not None
    np.testing.assert_array_equal(np.frombuffer(letter[2]), values)


def test_a_letter_of_more_than_8_mib_is_refused(client, name):
    client.native.send(name, 0, 0, 1, 0, False, bytes(8 << 20), TIME)
    with pytest.raises(TooLarge, match="8 MiB"):
        client.native.send(name, 0, 0, 1, 1, False, bytes((8 << 20) + 1), TIME)


def test_everybody_sends_everybody_everything(cluster, name, rng):
    """More than the boxes hold: senders wait for receivers."""
    world, letters = 3, 20
    blocks = {(a, b): rng.bytes(1 << 20) for a in range(world) for b in range(world)}

    def work(rank: int) -> list[tuple[int, bytes]]:
        with Client(cluster.endpoints, secret=cluster.secret) as client, ThreadPoolExecutor(1) as pool:

            def send() -> None:
                for sequence in range(letters):
                    for to in range(world):
                        last = sequence + 1 == letters
                        client.native.send(name, rank, to, world, sequence, last, blocks[rank, to], TIME)

            sending = pool.submit(send)
            got: list[tuple[int, bytes]] = []
            while (letter := client.native.receive(name, rank, world, len(got), TIME)) is not None:
                got.append((letter[0], letter[2]))
            sending.result()
            return got

    with ThreadPoolExecutor(world) as pool:
        for rank, got in enumerate(pool.map(work, range(world))):
            assert len(got) == world * letters
            assert all(data == blocks[sender, rank] for sender, data in got)


def test_who_did_not_send_is_named(client, name):
    client.native.send(name, 0, 2, 3, 0, True, b"", TIME)
    client.native.receive(name, 2, 3, 0, TIME)
    with pytest.raises(DeadlineExceeded, match=r"worker 2 waited .* workers 1, 2 of 3 did not send their last"):
        client.native.receive(name, 2, 3, 1, 1000)


def test_who_does_not_read_is_named(client, name):
    for sequence in range(4):
        client.native.send(name, 0, 1, 2, sequence, False, bytes(8 << 20), TIME)
    with pytest.raises(DeadlineExceeded, match=r"worker 1 has not taken 4 letters \(32 MiB\)"):
        client.native.send(name, 0, 1, 2, 4, False, b"more", 1000)
    for sequence in range(4):
        client.native.receive(name, 1, 2, sequence, TIME)


def test_a_person_can_end_the_wait(client, name):
    timer = press_ctrl_c_after(0.3)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        client.native.receive(name, 0, 2, 0, TIME)
    assert time.monotonic() - began < 5
    timer.join()


def test_a_restarted_sender_is_refused_once_its_letters_were_received(cluster, client, name):
    client.native.send(name, 0, 1, 2, 0, False, b"one", TIME)
    client.native.receive(name, 1, 2, 0, TIME)
    with (
        Client(cluster.endpoints, secret=cluster.secret, epoch=1) as again,
        pytest.raises(StaleEpoch, match="it would receive them twice"),
    ):
        again.native.send(name, 0, 1, 2, 0, False, b"one", TIME)
    with pytest.raises(StaleEpoch, match="worker 0 was started again"):
        client.native.receive(name, 1, 2, 1, TIME)


@pytest.mark.parametrize(("sender", "receiver", "world"), [(2, 0, 2), (0, 2, 2), (0, 0, 0)])
def test_a_rank_that_is_none_is_refused(client, name, sender, receiver, world):
    with pytest.raises(InvalidArgument, match="rank"):
        client.native.send(name, sender, receiver, world, 0, False, b"", TIME)


def test_answers_that_got_lost_do_not_double_letters(start_cluster, name):
    cluster = start_cluster(servers=1)
    with FaultyProxy(cluster.endpoints[0], fates=()) as proxy:
        with Client([proxy.endpoint], secret=cluster.secret, transport="tcp") as through:
            for sequence in range(5):
                proxy.cut_all()
                proxy.force(Fate("lose reply", down=HELLO_DOWN))
                through.native.send(name, 0, 0, 1, sequence, sequence == 4, bytes([sequence]), TIME)
        with Client(cluster.endpoints, secret=cluster.secret) as direct:
            got = [direct.native.receive(name, 0, 1, taken, TIME) for taken in range(6)]
    assert got == [*((0, sequence == 4, bytes([sequence])) for sequence in range(5)), None]
