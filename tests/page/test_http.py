"""What the page answers to whom, over HTTP: real servers, a real page, no browser."""

import contextlib
import http.client
import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from launched import clean_environment
from paged import Page, ask

from flota.observe.page.bounds import MOST_CONNECTIONS
from flota.observe.page.site import MOST_STREAMS
from waiting import wait_until

DATA = ["/data/history", "/data/heat", "/data/stream", "/data/log?name=server%200"]


@pytest.mark.parametrize("path", ["/", "/static/main.js", *DATA, "/nothing"])
@pytest.mark.parametrize("cookie", [{}, {"cookie": "flota_6180=x"}])
def test_without_the_token_there_is_only_a_page_that_says_how_to_get_in(page, path, cookie):
    answer = ask(page.origin, path, **cookie)
    assert answer.status == 401
    assert "flota dashboard --link" in answer.text
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("token", ["", "x", "0" * 64])
def test_a_wrong_token_opens_nothing(page, token):
    answer = ask(page.origin, f"/login?token={token}")
    assert answer.status == 401
    assert "set-cookie" not in answer.headers


def test_the_link_gives_a_cookie_that_scripts_and_other_sites_do_not_get(page):
    path = page.link.removeprefix(page.origin)
    answer = ask(page.origin, path)
    assert answer.status == 200
    assert {"HttpOnly", "SameSite=Strict"} <= set(answer.headers["set-cookie"].split("; "))
    assert "location" not in answer.headers
    assert "token" not in answer.text
    assert page.get("/").status == 200


@pytest.mark.parametrize("path", ["/", "/static/main.js", "/data/history", "/login", "/nothing"])
def test_every_answer_has_the_headers_that_shut_the_rest_of_the_web_out(page, path):
    for answer in (page.get(path), ask(page.origin, path)):
        assert answer.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in answer.headers
        assert "server" not in answer.headers


@pytest.mark.parametrize("host", ["evil.example", "evil.example:6180", "localhost.evil.example"])
def test_a_name_that_leads_here_by_somebody_elses_dns_is_refused(page, host):
    assert page.get("/data/history", host=host).status == 421
    assert ask(page.origin, page.link.removeprefix(page.origin), host=host).status == 421
    assert page.get("/data/history", host="localhost:1").status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
@pytest.mark.parametrize("path", ["/", "/login", "/data/history"])
def test_it_changes_nothing(page, method, path):
    answer = ask(page.origin, path, method=method, cookie=page.cookie)
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_pages_of_other_ports_and_sites_get_no_data(page, site):
    assert page.get("/data/history", sec_fetch_site=site).status == 403
    assert page.get("/data/history", sec_fetch_site="same-origin").status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/static/../door.py", "/static/%2e%2e/door.py", "/static/..%2fdoor.py", "/static/%2fetc%2fpasswd",
        "/data/log?name=..%2f..%2fetc%2fpasswd", "/data/log?name=%2fetc%2fpasswd", "/data/log?name=worker%200",
        "/data/log?path=%2fetc%2fpasswd", "/data/log",
    ],
)  # fmt: skip
def test_no_path_of_the_asker_is_ever_read(page, path):
    answer = page.get(path)
    assert answer.status == 404
    assert "root:" not in answer.text


def stream(page):
    connection = http.client.HTTPConnection(urlsplit(page.origin).netloc, timeout=20)
    connection.request("GET", "/data/stream", headers={"cookie": page.cookie})
    return connection, connection.getresponse()


def events(response, count):
    found = []
    while len(found) < count:
        line = response.readline()
        assert line, "the stream ended"
        if line.startswith(b"data: "):
            found.append(json.loads(line[6:]))
    return found


def test_a_stream_tells_each_look_and_what_it_tells_is_bounded_json(page):
    connection, response = stream(page)
    try:
        assert response.getheader("content-type").startswith("text/event-stream")
        first, second = events(response, 2)
    finally:
        connection.close()
    assert second["now"]["time"] > first["now"]["time"]
    names = [one["name"] for one in second["now"]["processes"]]
    assert names == ["server 0", "server 1"]
    assert all("path" not in one for one in second["now"]["processes"])
    history = json.loads(page.get("/data/history").text)
    assert second["point"]["t"] in [point["t"] for point in history["recent"]]


def test_there_are_so_many_streams_and_no_more(page):
    opened = []
    try:
        for _ in range(MOST_STREAMS):
            connection, response = stream(page)
            opened.append(connection)
            assert response.status == 200
            events(response, 1)
        connection, response = stream(page)
        opened.append(connection)
        assert response.status == 503
        assert page.get("/").status == 200
    finally:
        for connection in opened:
            connection.close()
    wait_until(lambda: _streams_again(page), timeout=30)


def _streams_again(page):
    connection, response = stream(page)
    connection.close()
    return response.status == 200


def test_silent_strangers_keep_nobody_out_and_are_sent_away(page):
    address = urlsplit(page.origin)
    strangers = [
        socket.create_connection((address.hostname, address.port), timeout=20) for _ in range(MOST_CONNECTIONS)
    ]
    strangers[0].send(b"GET / HTTP/1.1\r\nHost: ")
    try:
        for _ in range(3):
            strangers.append(socket.create_connection((address.hostname, address.port), timeout=20))
        assert page.get("/data/history").status == 200
        for stranger in strangers:
            with contextlib.suppress(ConnectionResetError):  # sent away before it was taken
                assert stranger.recv(1) == b""  # within its 20 s
    finally:
        for stranger in strangers:
            stranger.close()
    assert page.get("/").status == 200


def test_a_request_without_end_is_refused(page):
    address = urlsplit(page.origin)
    with socket.create_connection((address.hostname, address.port), timeout=20) as stranger:
        sent, until = 0, time.monotonic() + 20
        try:
            stranger.send(b"GET / HTTP/1.1\r\n")
            while time.monotonic() < until:
                sent += stranger.send(b"x: " + b"y" * 8000 + b"\r\n")
        except OSError:
            pass
        assert sent < 8 << 20
    assert page.get("/").status == 200


def test_the_secret_is_in_no_answer(page, start_cluster):
    pages = [page.get(path).text for path in ("/", "/data/history", "/data/heat")]
    connection, response = stream(page)
    pages.append(json.dumps(events(response, 1)))
    connection.close()
    secret = environment_of(page.process.pid)["FLOTA_SECRET"]
    token = page.link.partition("token=")[2]
    assert not any(secret in text or token in text for text in pages)
    words = words_of(page)
    assert secret not in words


def words_of(page):
    return Path(f"/proc/{page.process.pid}/cmdline").read_text()


def environment_of(pid):
    entries = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def flota(*words, **settings):
    return subprocess.run(
        [sys.executable, "-m", "flota.cli", "dashboard", *words],
        env=clean_environment(**settings), capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_a_token_for_the_page_is_told_to_who_has_the_secret(page):
    settings = environment_of(page.process.pid)
    servers = words_of(page).partition("--servers=")[2].partition("\0")[0]
    done = flota("--link", f"--servers={servers}", FLOTA_SECRET=settings["FLOTA_SECRET"])
    assert done.returncode == 0, done.stderr
    assert page.link.endswith(f"token={done.stdout.strip()}")
    other = flota("--link", f"--servers={servers}", FLOTA_SECRET="another secret of the like")
    assert other.stdout != done.stdout


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--listen=0.0.0.0"], "flota certs"),
        (["--listen=::1"], "brackets"),
        (["--log_dir=nowhere"], "nowhere/launch.json is not there"),
    ],
)
def test_what_makes_no_sense_is_refused(flags, says):
    done = flota(*flags)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_that_was_asked_for_and_is_taken_is_refused(page):
    port = urlsplit(page.origin).port
    done = flota(f"--listen={port}", "--servers=127.0.0.1:6170", FLOTA_SECRET="another secret of the like")
    assert done.returncode == 2
    assert f"port {port} is taken" in done.stderr


def test_when_the_servers_are_gone_it_says_so_and_keeps_the_curves(start_cluster):
    cluster = start_cluster(servers=1)
    page = Page(f"--servers={cluster.endpoints[0]}", FLOTA_SECRET=cluster.secret)
    try:
        page.wait()
        wait_until(lambda: len(json.loads(page.get("/data/history").text)["recent"]) > 0, timeout=30)
        cluster.stop()
        connection, response = stream(page)
        connection.sock.settimeout(60)
        last = events(response, 1)[0]
        while not last["now"]["over"]:
            last = events(response, 1)[0]
        connection.close()
        assert last["now"]["processes"][0]["mark"] == "done"
        assert len(json.loads(page.get("/data/history").text)["recent"]) > 0
        assert page.output.count("the job is over") == 1
    finally:
        page.close()
