"""What a server writes on standard error, and what it tells of itself from within."""

import json
import socket
import subprocess
import sys

import pytest

from flota import _core

SCRIPT = """
import socket, sys
from flota import _core

options = _core.ServerOptions()
options.secret = "s" * 40
options.index, options.count = 2, 3
options.log_json = sys.argv[1] == "json"
options.log_level = _core.LogLevel[sys.argv[2]]
server = _core.Server.start(options)
with socket.create_connection(("127.0.0.1", server.port)) as peer:
    peer.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n" * 20)
    while peer.recv(4096):
        pass
server.stop()
"""


def lines_of_a_refusal(form, level):
    done = subprocess.run([sys.executable, "-c", SCRIPT, form, level], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()


def test_a_line_says_which_server_it_is_of():
    (line,) = lines_of_a_refusal("text", "info")
    assert line == "flota server 2: refused a peer at 127.0.0.1: the peer does not speak this protocol"


def test_a_line_is_a_json_object_where_that_is_asked_for():
    (line,) = lines_of_a_refusal("json", "warning")
    said = json.loads(line)
    assert said.pop("time").endswith("Z")
    assert said.pop("pid") > 0
    message = "refused a peer at 127.0.0.1: the peer does not speak this protocol"
    assert said == {"level": "warning", "role": "server", "index": 2, "message": message}


def test_lines_below_the_level_are_not_written():
    assert lines_of_a_refusal("text", "error") == []


@pytest.fixture
def server():
    options = _core.ServerOptions()
    options.secret = "s" * 40
    server = _core.Server.start(options)
    yield server
    server.stop()


def test_a_server_tells_its_own_process_what_it_tells_those_who_look_on(server):
    with socket.create_connection(("127.0.0.1", server.port)):
        values = {name: value for table, name, value in server.observe(_core.OBSERVE_STATES).statistics if not table}
    assert values["uptime_ms"] >= 0
    assert values["memory_bytes"] > 1 << 20
    server.stop()
    assert server.observe(_core.OBSERVE_HEAT).heat == []
