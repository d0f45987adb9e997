"""Barriers: nobody goes on before all have come, and who is missing is named."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from faulty_proxy import HELLO_DOWN, Fate, FaultyProxy
from flota import Client
from flota.errors import DeadlineExceeded, InvalidArgument


@pytest.fixture
def workers(cluster):
    clients = [Client(cluster.endpoints, secret=cluster.secret) for _ in range(4)]
    yield clients
    for client in clients:
        client.close()


def test_nobody_passes_before_all_have_come(workers, name):
    came = []

    def work(rank):
        for turn in range(25):
            came.append(turn)
            workers[rank].barrier(name, rank=rank, world=4)
            # Everybody was here as often as I, and nobody more than once more.
            assert came.count(turn) == 4
            assert came.count(turn + 2) == 0

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


def test_threads_of_one_client_can_be_ranks_of_their_own(client, name):
    came = []

    def work(rank):
        for turn in range(200):
            came.append(turn)
            client.barrier(name, rank=rank, world=3, timeout=20)
            assert came.count(turn) == 3

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(3)))


def test_the_missing_are_named(workers, name):
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(workers[rank].barrier, name, rank=rank, world=4, timeout=0.3) for rank in (0, 2)]
        for rank, future in zip((0, 2), waiting, strict=True):
            with pytest.raises(
                DeadlineExceeded, match=rf"barrier '{name}'.*worker {rank} waited in vain for worker.* 3 of 4.*0\.3 s"
            ):
                future.result()


def test_many_missing_are_counted(client, name):
    with pytest.raises(DeadlineExceeded, match="workers 1, 2, 3, 4, 5, 6, 7, 8 and 91 more of 100"):
        client.barrier(name, rank=0, world=100, timeout=0.1)


def test_where_the_missing_are_is_said_where_it_is_known(client, name):
    client.workers = ["10.0.0.1:6170", "10.0.0.2:6170", "10.0.0.3:6170"]
    with pytest.raises(DeadlineExceeded, match=r"worker 1 is on 10\.0\.0\.2, worker 2 is on 10\.0\.0\.3$"):
        client.barrier(name, rank=0, world=3, timeout=0.1)
    client.workers = ["127.0.0.1:6170", "127.0.0.1:6171"]  # all here: that says nothing
    with pytest.raises(DeadlineExceeded, match=r"\(deadline 0\.1 s\)$"):
        client.barrier(name, rank=0, world=2, timeout=0.1)


def test_who_gave_up_can_come_again(workers, name):
    with pytest.raises(DeadlineExceeded, match="waited in vain for worker 1 of 2"):
        workers[0].barrier(name, rank=0, world=2, timeout=0.1)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda rank: workers[rank].barrier(name, rank=rank, world=2, timeout=20), range(2)))


def test_barriers_of_other_names_do_not_meet(workers, name):
    entered = threading.Barrier(2)

    def first():
        entered.wait()
        workers[0].barrier(f"{name}-a", rank=0, world=2, timeout=0.2)

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(first)
        entered.wait()
        with pytest.raises(DeadlineExceeded):
            workers[1].barrier(f"{name}-b", rank=1, world=2, timeout=0.2)
        with pytest.raises(DeadlineExceeded):
            waiting.result()


def test_workers_that_disagree_about_their_number_are_told(workers, name):
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(workers[0].barrier, name, rank=0, world=2, timeout=0.4)
        with pytest.raises((InvalidArgument, DeadlineExceeded)) as mine:
            workers[1].barrier(name, rank=1, world=3, timeout=0.4)
        with pytest.raises((InvalidArgument, DeadlineExceeded)) as theirs:
            waiting.result()
    refused = [error for error in (mine, theirs) if error.type is InvalidArgument]
    assert len(refused) == 1
    assert refused[0].match(r"worker \d says there are \d workers, others say \d")


@pytest.mark.parametrize(("rank", "world"), [(2, 2), (-1, 2), (0, 0), (0, 2**21), (2**40, 2**41)])
def test_a_rank_that_is_none_is_refused(client, name, rank, world):
    with pytest.raises(InvalidArgument, match=r"rank|world"):
        client.barrier(name, rank=rank, world=world)


def test_a_new_set_of_workers_waits_again(cluster, workers, name):
    """Their predecessors used the same name: what counts is that all of the new ones come."""
    with ThreadPoolExecutor(2) as pool:
        for _ in range(2):
            list(pool.map(lambda rank: workers[rank].barrier(name, rank=rank, world=2, timeout=20), range(2)))
        with pytest.raises(DeadlineExceeded, match="waited in vain for worker 1 of 2"):
            workers[2].barrier(name, rank=0, world=2, timeout=0.2)
        list(pool.map(lambda rank: workers[2 + rank].barrier(name, rank=rank, world=2, timeout=20), range(2)))


def test_an_answer_that_got_lost_does_not_hold_anybody(cluster, workers, name):
    with FaultyProxy(cluster.endpoints[0], fates=()) as proxy:
        endpoints = [proxy.endpoint, cluster.endpoints[1]]
        with Client(endpoints, secret=cluster.secret, transport="tcp") as through:
            for _ in range(3):
                proxy.cut_all()
                proxy.force(Fate("lose reply", down=HELLO_DOWN))
                with ThreadPoolExecutor(2) as pool:
                    both = [
                        pool.submit(worker.barrier, name, rank=rank, world=2, timeout=20)
                        for rank, worker in enumerate((workers[0], through))
                    ]
                    for each in both:
                        each.result()
