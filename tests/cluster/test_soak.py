"""The long run, for half a minute."""

import socket

from soak import VICTIMS, Soak


def ports(count):
    """So many free ones in a row."""
    while True:
        taken = [socket.socket() for _ in range(count)]
        try:
            taken[0].bind(("127.0.0.1", 0))
            first = taken[0].getsockname()[1]
            for number, other in enumerate(taken[1:], 1):
                other.bind(("127.0.0.1", first + number))
        except (OSError, OverflowError):
            continue
        else:
            return first
        finally:
            for one in taken:
                one.close()


def test_tables_counters_and_metrics_are_what_workers_have_sent_though_all_are_killed_in_turn(tmp_path):
    soak = Soak(tmp_path / "soak", seconds=32, kill_every=6, snapshot_seconds=2, port=ports(5))
    assert soak.run() == []
    assert soak.kills >= len(VICTIMS)
