"""Ctrl-C ends a call that waits, whatever it waits for, and leaves the client usable."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import torch

from flota import Client
from flota.rules import SGD
from flota.testing import LocalCluster


@pytest.fixture(scope="module")
def silent():
    """A cluster whose second server may be paused."""
    with LocalCluster(servers=2) as cluster:
        yield cluster


def press_ctrl_c_after(seconds: float) -> threading.Timer:
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    return timer


@pytest.mark.parametrize("transport", ["tcp", "unix", "shared_memory"])
@pytest.mark.parametrize("call", ["pull", "push", "future", "statistics"])
def test_a_call_to_a_silent_server_ends_at_once(silent, transport, call):
    with Client(silent.endpoints, secret=silent.secret, transport=transport, timeout=30) as client:
        table = client.create_sparse_table("interrupted", dim=2, rule=SGD())
        keys = torch.arange(100)
        table.push(keys, torch.ones(100, 2), kind="assign")
        silent.pause(1)
        calls = {
            "pull": lambda: table.pull(keys),
            "push": lambda: table.push(keys, torch.ones(100, 2), kind="assign"),
            "future": lambda: table.pull_async(keys).result(),
            "statistics": client.statistics,
        }
        try:
            timer = press_ctrl_c_after(0.3)
            began = time.monotonic()
            with pytest.raises(KeyboardInterrupt):
                calls[call]()
            assert time.monotonic() - began < 5
            timer.join()
        finally:
            silent.resume(1)
        torch.testing.assert_close(table.pull(keys), torch.ones(100, 2))


def test_one_ctrl_c_is_enough_however_many_servers_are_silent(silent):
    with Client(silent.endpoints, secret=silent.secret, timeout=30) as client:
        table = client.create_sparse_table("all_silent", dim=2, rule=SGD())
        for server in (0, 1):
            silent.pause(server)
        try:
            timer = press_ctrl_c_after(0.3)
            began = time.monotonic()
            with pytest.raises(KeyboardInterrupt):
                table.pull(torch.arange(100))
            assert time.monotonic() - began < 5
            timer.join()
        finally:
            for server in (0, 1):
                silent.resume(server)
        assert table.pull(torch.arange(100)).shape == (100, 2)


def test_waiting_for_a_server_that_is_not_there_ends_at_once():
    program = (
        "from flota import Client; print('waiting', flush=True); Client(['127.0.0.1:1'], secret='x'*32, timeout=30)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.5)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=20)
        assert time.monotonic() - began < 5
    assert b"KeyboardInterrupt" in error


def test_a_barrier_that_nobody_else_reaches_ends_at_once(silent):
    with Client(silent.endpoints, secret=silent.secret, timeout=30) as client:
        timer = press_ctrl_c_after(0.3)
        with pytest.raises(KeyboardInterrupt):
            client.barrier("alone", rank=0, world=2)
        timer.join()
        client.statistics()


def test_a_handler_that_does_not_raise_does_not_end_the_wait(silent):
    """Only what a handler raises ends a call: a job scheduler's warning signal must not."""
    seen = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number))
    try:
        with Client(silent.endpoints, secret=silent.secret, timeout=30) as client:
            table = client.create_sparse_table("warned", dim=2, rule=SGD())
            silent.pause(0)
            warned = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGUSR1))
            resumed = threading.Timer(0.8, silent.resume, (0,))
            warned.start()
            resumed.start()
            assert table.pull(torch.arange(100)).shape == (100, 2)
            warned.join()
            resumed.join()
        assert seen == [signal.SIGUSR1]
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_process_ends_in_order_while_its_threads_wait_for_a_silent_server(silent):
    program = f"""
import threading, time
from flota import Client
client = Client({silent.endpoints!r}, secret={silent.secret!r}, timeout=30)
print("connected", flush=True)
input()
threading.Thread(target=client.statistics, daemon=True).start()
while threading.active_count() < 2: pass
time.sleep(0.5)  # it waits, by now
"""
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"connected\n"
        silent.pause(1)
        try:
            began = time.monotonic()
            process.communicate(b"\n", timeout=20)
            assert process.returncode == 0
            assert time.monotonic() - began < 10
        finally:
            silent.resume(1)
