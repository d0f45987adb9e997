"""The parts of the page that need no job: who is let in, what is kept, what logs tell, where it listens."""

import json
import os
import socket

import pytest

from flota.errors import InvalidArgument
from flota.launch.listening import FIRST_PORT, Place, check_protected, listen, read_place
from flota.observe.page import logs, scene
from flota.observe.page.door import Door, link, token
from flota.observe.page.events import Events
from flota.observe.page.history import MOST_POINTS, MOST_RECENT, History, Point, point_of
from flota.observe.page.saves import Saves
from flota.observe.sight import Server, Sight, Worker
from flota.standing import Standing

SECRET = "a secret of sixteen bytes"


@pytest.fixture
def door():
    return Door(SECRET, "127.0.0.1", 6180, tls=False)


def test_the_link_opens_and_does_not_tell_the_secret(door):
    assert door.opens(token(SECRET))
    assert not door.opens(token(SECRET + "."))
    assert not door.opens("")
    assert not door.opens("ä")
    assert SECRET not in link("http://127.0.0.1:6180", SECRET)
    assert token(SECRET) not in door.set_cookie()


def test_a_cookie_is_of_one_process_alone(door):
    cookie = door.set_cookie().partition(";")[0]
    assert door.is_known(cookie)
    assert door.is_known(f"other=1; {cookie}")
    assert not Door(SECRET, "127.0.0.1", 6180, tls=False).is_known(cookie)
    assert not door.is_known(cookie[:-1])
    assert not door.is_known("flota_6180=")
    assert not door.is_known("")
    for word in ("HttpOnly", "SameSite=Strict", "Path=/"):
        assert word in door.set_cookie()
    assert "Secure" in Door(SECRET, "node1", 6180, tls=True).set_cookie()


@pytest.mark.parametrize("host", ["127.0.0.1:6180", "localhost:6180", "LOCALHOST:8000", "[::1]:6180", "10.0.0.7:6180"])
def test_addresses_and_loopback_are_its_names(door, host):
    assert door.is_called(host)


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:6180", "", "localhost.evil.example"])
def test_a_name_that_others_can_lead_here_is_not(door, host):
    assert not door.is_called(host)


def point(time, loss=1.0):
    return Point(time, loss, 100.0, {"auc": 0.5}, {"0": [loss, None, 50.0]}, {"users": [time, 8.0]})


def test_history_is_bounded_and_keeps_the_whole_job():
    history = History()
    for time in range(4 * MOST_POINTS):
        history.add(point(float(time)))
    found = history.plain()
    assert len(found["recent"]) == MOST_RECENT
    assert MOST_POINTS // 2 <= len(found["whole"]) <= MOST_POINTS
    assert found["whole"][0]["t"] < 10
    assert found["whole"][-1]["t"] == 4 * MOST_POINTS - 1
    times = [one["t"] for one in found["whole"]]
    assert times == sorted(set(times))


def test_a_point_of_many_looks_is_their_mean_without_gaps():
    history = History()
    for time in range(MOST_POINTS):
        history.add(point(float(time), loss=None if time == 0 else float(time % 2)))
    first, second, *_ = history.plain()["whole"]
    assert (first["loss"], second["loss"]) == (1.0, 0.5)
    assert second["w"]["0"] == [0.5, None, 50.0]
    assert second["tb"]["users"] == [3.0, 8.0]  # a size is what it came to


def test_the_end_of_a_log_is_bounded_and_only_text(tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b"x" * 500_000 + b"\n" + b"line\n" * 3 + "a\x1b[31mred\x07‮b\xff\n".encode("latin-1", "ignore"))
    lines = logs.tail(str(log), 3)
    assert lines[:2] == ["line", "line"]
    assert not any(ord(letter) < 32 for line in lines for letter in line)
    log.write_text("y" * 5000)
    assert len(logs.tail(str(log))[0]) < 700
    assert logs.tail(str(tmp_path / "nothing")) == []
    os.mkfifo(tmp_path / "pipe")
    assert logs.tail(str(tmp_path / "pipe")) == []  # and it has not waited


def test_lines_that_tell_of_errors_are_found_once_and_as_they_come(tmp_path):
    log = tmp_path / "log"
    log.write_text("all is well\nflota.errors.DiskFull: no\nValueError: bad\n")
    scan = logs.Scan(str(log))
    assert scan.new_errors() == ["flota.errors.DiskFull: no", "ValueError: bad"]
    assert scan.new_errors() == []
    with log.open("a") as file:
        file.write('{"level": "error", "text": "json"}\n{"level": "info", "error": 1}\nKeyErr')
        file.flush()
        assert scan.new_errors() == ['{"level": "error", "text": "json"}']
        file.write("or: 'half'\n")
    assert scan.new_errors() == ["KeyError: 'half'"]
    log.write_text("")
    assert scan.new_errors() == []


def process(mark, state, restarts=0, path=""):
    return {"name": "worker 1", "mark": mark, "state": state, "restarts": restarts, "path": path}


def texts(events):
    return [(one["kind"], one["text"]) for one in events.found]


def test_a_death_and_a_restart_are_told_once(tmp_path):
    log = tmp_path / "workerlog.1"
    log.write_text("step 7\n")
    events = Events()
    died = process("again", "was killed by SIGKILL, starts again in 1 s", 0, str(log))
    for one in (process("ok", "running", 0, str(log)), died, died, process("ok", "running, restart 1", 1, str(log))):
        events.take(1.0, [one])
    assert texts(events) == [("error", "was killed by SIGKILL"), ("good", "was started again (restart 1)")]
    assert events.found[0]["lines"] == ["step 7"]


def test_a_restart_between_two_looks_is_told_with_what_the_log_says(tmp_path):
    log = tmp_path / "workerlog.1"
    log.write_text("--- 2026-11-19 20:00:00 worker 1, restart 1: was killed by SIGKILL ---\n")
    events = Events()
    events.take(1.0, [process("ok", "running", 0, str(log))])
    events.take(2.0, [process("ok", "running, restart 1", 1, str(log))])
    assert texts(events)[0] == ("error", "was killed by SIGKILL")


def test_a_server_that_is_still_to_come_is_no_error():
    server = Server(0, "a:1", error="connection refused")
    (unheard,) = scene.processes(Sight(1.0, [server], []), [])
    assert (unheard["mark"], unheard["state"]) == ("warn", "not heard of yet: connection refused")
    (alive,) = scene.processes(Sight(2.0, [Server(0, "a:1", seen=2.0)], []), [])
    (away,) = scene.processes(Sight(3.0, [Server(0, "a:1", seen=2.0, error="gone")], []), [])
    events = Events()
    for one in (unheard, alive, away, alive):
        events.take(1.0, [one])
    assert texts(events) == [("warning", "away: gone"), ("good", "is well again")]


def test_snapshots_and_what_workers_saved_are_told_the_newest_first(tmp_path):
    (tmp_path / "server-0").mkdir()
    for name, size in (("snapshot-3", 10), ("snapshot-12", 20), ("snapshot-13.tmp", 5), ("log-12", 2048)):
        (tmp_path / "server-0" / name).write_bytes(b"x" * size)
    os.utime(tmp_path / "server-0" / "snapshot-12", (100, 100))
    note = {"saved": {"place": "runs/a", "mode": "all", "step": 7, "time": 200.0}}
    found = Saves(tmp_path).plain(Sight(300.0, [Server(0, "a:1"), Server(1, "b:1")], [Worker(0, 0.1, note)]))
    assert [(one["name"], one["time"], one["bytes"], one["step"]) for one in found] == [
        ("runs/a", 200.0, None, 7), ("server 0", 100.0, 20, None)
    ]  # fmt: skip
    assert found[1]["note"] == "snapshot 12; redo log 2 KiB, another is being written"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("auto", Place()),
        ("6200", Place("127.0.0.1", 6200)),
        ("node1", Place("node1")),
        ("node1:6200", Place("node1", 6200)),
        ("[::1]:6200", Place("::1", 6200)),
        ("[::1]", Place("::1")),
    ],
)
def test_where_it_listens(text, place):
    assert read_place("--dashboard", text) == place


@pytest.mark.parametrize("text", ["0", "70000", "node1:", ":6200", "::1", "node1:http"])
def test_what_is_no_place_is_refused(text):
    with pytest.raises(InvalidArgument, match="--dashboard="):
        read_place("--dashboard", text)


def test_a_taken_port_is_passed_over_unless_it_was_asked_for():
    with listen("--dashboard", Place()) as first:
        taken = first.getsockname()[1]
        assert taken >= FIRST_PORT
        with listen("--dashboard", Place()) as second:
            assert second.getsockname()[1] > taken
        with pytest.raises(InvalidArgument, match=f"port {taken} is taken"):
            listen("--dashboard", Place("127.0.0.1", taken))


def test_off_loopback_it_wants_certificates(monkeypatch):
    for name in ("FLOTA_INSECURE", "FLOTA_CERTS"):
        monkeypatch.delenv(name, raising=False)
    for host in ("0.0.0.0", "::", socket.gethostname() + ".example"):
        with pytest.raises(InvalidArgument, match="flota certs"):
            check_protected("--dashboard", Place(host))
        check_protected("--dashboard", Place(host), insecure=True)
    check_protected("--dashboard", Place("localhost"))


def test_what_opens_a_place_is_not_told_with_it():
    standing = Standing()
    standing.has_saved("s3://key:secret@bucket/a?token=x", "all")
    assert standing.note()["saved"]["place"] == "s3://bucket/a"
    standing.has_saved("/runs/a", "delta")
    assert standing.saved["place"] == "/runs/a"


def test_what_a_note_says_wrongly_is_not_shown():
    wrong = {"loss": "<b>", "step": [], "metrics": {"auc": {}, "x": "y"}, "shares": {"pull": 0.5}, "saved": 3,
             "samples_per_second": float("nan"), "memory_bytes": "much"}  # fmt: skip
    sight = Sight(1.0, [Server(0, "a:1", seen=1.0)], [Worker(0, 0.1, wrong)])
    _, worker = scene.processes(sight, [])
    assert [worker[name] for name in ("loss", "step", "auc", "sps", "memory")] == [None] * 5
    assert worker["shares"]["pull"] == 0.5
    json.dumps([worker, point_of(sight, []).plain(), Saves(None).plain(sight)], allow_nan=False)
