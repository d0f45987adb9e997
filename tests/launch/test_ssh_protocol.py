"""What a launch and its agents say to each other, and what they make of nonsense."""

import json
import random
import socket

import pytest

from flota.launch.ssh.agent.peer import Peer
from flota.launch.ssh.agent.tails import Told
from flota.launch.ssh.copies import Copies
from flota.launch.ssh.protocol import BANNER, MAX_LINE, MAX_NOISE, MAX_PAYLOAD, Decoder, Nonsense, encode


def test_messages_come_out_as_they_went_in_however_they_are_cut():
    sent = [("beat", b"", {}), ("log", bytes(range(256)) * 9, {"name": "workerlog.0", "at": 7}), ("log", b"\n", {})]
    stream = b"".join(encode(op, payload, **fields) for op, payload, fields in sent)
    for seed in range(20):
        random.seed(seed)
        decoder, found, rest = Decoder(), [], stream
        while rest:
            size = random.randint(1, 60)
            found += decoder.feed(rest[:size])
            rest = rest[size:]
        assert [(message.op, message.payload) for message in found] == [(op, payload) for op, payload, _ in sent]
        assert found[1].fields["at"] == 7


def test_what_a_login_shell_prints_is_passed_over():
    decoder = Decoder(banner=True)
    assert decoder.feed(b"Welcome to node1!\nflota-") == []
    assert decoder.noise.startswith("Welcome")
    assert [message.op for message in decoder.feed(b"agent 1\n" + encode("beat"))] == ["beat"]


@pytest.mark.parametrize(
    "data",
    [
        b"hello\n", b"[]\n", b"{}\n", b'{"op": 1}\n', b'{"op": "log", "bytes": -1}\n',
        b'{"op": "log", "bytes": true}\n', b'{"op": "log", "bytes": 1e3}\n',
        json.dumps({"op": "log", "bytes": MAX_PAYLOAD + 1}).encode() + b"\n",
        b"x" * (MAX_LINE + 1), b"[" * 100_000 + b"\n", b"\xff\xfe\n",
    ],
)  # fmt: skip
def test_nonsense_is_refused(data):
    with pytest.raises(Nonsense):
        Decoder().feed(data)


def test_a_peer_that_never_begins_is_refused():
    with pytest.raises(Nonsense):
        Decoder(banner=True).feed(b"x" * (MAX_NOISE + 1))
    assert Decoder(banner=True).feed(BANNER) == []


def test_messages_beyond_the_bounds_are_not_sent():
    with pytest.raises(Nonsense):
        encode("log", b"x" * (MAX_PAYLOAD + 1))
    with pytest.raises(Nonsense):
        encode("told", text="x" * MAX_LINE)


def test_pieces_of_a_log_that_come_twice_are_kept_once(tmp_path):
    copies = Copies(tmp_path / "h1", go_on=False)
    copies.add("workerlog.0", 0, b"one\n")
    copies.add("workerlog.0", 0, b"one\ntwo\n")
    copies.add("workerlog.0", 4, b"two\n")
    copies.add("workerlog.0", 8, b"three\n")
    copies.add("../outside", 0, b"x")
    assert (tmp_path / "h1/workerlog.0").read_text() == "one\ntwo\nthree\n"
    assert copies.seen == {"workerlog.0": 14}
    assert not (tmp_path / "outside").exists()


def test_a_new_job_takes_the_place_of_the_logs_before_and_a_resumed_one_adds_to_them(tmp_path):
    Copies(tmp_path, go_on=False).add("workerlog.0", 0, b"first\n")
    Copies(tmp_path, go_on=True).add("workerlog.0", 0, b"second\n")
    assert (tmp_path / "workerlog.0").read_text() == "first\nsecond\n"
    Copies(tmp_path, go_on=False).add("workerlog.1", 0, b"third\n")
    assert not (tmp_path / "workerlog.0").exists()


def test_an_agent_outlives_a_connection_that_ends_while_it_speaks():
    agents, launchs = socket.socketpair()
    with agents:
        peer = Peer(agents)
        launchs.close()
        peer.send(encode("beat"))
        assert peer.waiting == 0
        with pytest.raises(ConnectionResetError):  # by which it forgets the connection
            peer.receive()


def test_a_launch_is_told_the_newest_lines_however_many_there_were_before():
    told = Told(most=3)
    told.add([{"text": "0"}, {"text": "1"}])
    assert list(told.since(0)) == [(0, {"text": "0"}), (1, {"text": "1"})]
    told.add({"text": str(n)} for n in range(2, 10))
    assert told.end == 10
    assert [n for n, _ in told.since(2)] == [7, 8, 9]
    assert list(told.since(9)) == [(9, {"text": "9"})]
    assert list(told.since(10)) == []
