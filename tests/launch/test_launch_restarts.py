"""A process that dies is started again, where that may help; the rest of the job goes on meanwhile."""

import json
import re
import signal
import subprocess
import sys

import pytest
from launched import PRELUDE, clean_environment

from flota import config
from flota.errors import InvalidArgument
from flota.launch import rows
from flota.launch.arguments import parse
from flota.launch.hosts import Endpoint, free_ports
from flota.launch.plan import Member
from flota.launch.processes import LocalProcess
from flota.launch.restarts import FORGIVEN_AFTER, OWN_ERROR_WITHIN, Ending, judge
from flota.report import NOBODY_LEFT
from waiting import wait_until

# --- what is decided ---

KILLED, FAILED, USAGE = -signal.SIGKILL, 1, 2
EMPTY = "it has kept nothing on disk (--durable), and would come back empty"


def verdict(status, *, role="worker", ran=1.0, used=0, may_pass=False, most=3, durable=True):
    return judge(Ending(role, status, ran, used, may_pass), most, durable=durable)


@pytest.mark.parametrize("status", [KILLED, -signal.SIGTERM, -signal.SIGSEGV, 137, 143])
def test_what_a_signal_ended_is_started_again(status):
    assert verdict(status).again
    assert verdict(status, role="server").again


@pytest.mark.parametrize(
    ("status", "how", "reason"),
    [
        (FAILED, {}, "an error in the first 60 s is taken for the script's own, and would come again"),
        (255, {"ran": 59}, "an error in the first 60 s is taken for the script's own, and would come again"),
        (USAGE, {"ran": 5000}, "exit status 2 says that it was called wrongly"),
        (KILLED, {"role": "server", "durable": False}, EMPTY),
        (KILLED, {"used": 3}, "it has had 3 restarts already (--max_restarts=3)"),
        (0, {"role": "server"}, ""),
        (KILLED, {"most": 0}, ""),
    ],
)
def test_what_would_come_again_ends_the_job(status, how, reason):
    judged = verdict(status, **how)
    assert (judged.again, judged.reason) == (False, reason)


def test_a_server_that_nobody_came_back_to_is_not_started_again():
    judged = verdict(NOBODY_LEFT, role="server", ran=OWN_ERROR_WITHIN + 1)
    assert (judged.again, judged.reason) == (False, "it had waited for workers, and none came back")


def test_an_error_that_may_pass_is_worth_another_start():
    assert verdict(FAILED, may_pass=True).again
    assert verdict(FAILED, ran=OWN_ERROR_WITHIN).again


def test_each_restart_is_waited_for_longer():
    assert [verdict(KILLED, used=used, most=9).wait for used in range(7)] == [1, 2, 4, 8, 16, 30, 30]


def test_restarts_of_long_ago_are_not_counted():
    judged = verdict(KILLED, used=3, ran=FORGIVEN_AFTER)
    assert (judged.wait, judged.restart) == (1, 1)


@pytest.mark.parametrize("flags", [[], ["--max_restarts="]])
def test_three_restarts_are_what_nobody_need_ask_for(flags, tmp_path):
    (tmp_path / "train.py").touch()
    assert parse([*flags, str(tmp_path / "train.py")], "flota launch").max_restarts == 3


def test_the_environment_says_which_start_it_is(monkeypatch):
    monkeypatch.delenv("FLOTA_RESTARTS", raising=False)
    assert config.restarts() == 0
    monkeypatch.setenv("FLOTA_RESTARTS", "4")
    assert config.restarts() == 4
    monkeypatch.setenv("FLOTA_RESTARTS", "often")
    with pytest.raises(InvalidArgument, match="FLOTA_RESTARTS=often"):
        config.restarts()


# --- what is done ---

TELL = """
with Path(f"told.{me}").open("a") as file:
    file.write(json.dumps(dict(os.environ)) + "\\n")
"""


def starts(launch, name):
    return [json.loads(line) for line in (launch.folder / f"told.{name}").read_text().splitlines()]


def test_a_killed_server_and_a_killed_worker_come_back_under_their_names(start):
    script = (
        TELL
        + """
ready(name=f"{me}.{restarts}")
if me == "server.0":
    wait_for("worker.1.0")
    die() if restarts == 0 else serve()
if me == "worker.1":
    print("words of start", restarts)
    wait_for("server.0.1")
    if restarts == 0:
        die()
"""
    )
    launch = start(script, "--worker_num=2")
    assert launch.wait() == 0, launch.output
    assert "launch] server 0 was killed by SIGKILL; starting it again in 1 s (1 of 3)\n" in launch.output
    assert "launch] worker 1 was killed by SIGKILL; starting it again in 1 s (1 of 3)\n" in launch.output
    for name in ("server.0", "worker.1"):
        first, second = starts(launch, name)
        assert (first.pop("FLOTA_RESTARTS"), second.pop("FLOTA_RESTARTS")) == ("0", "1")
        assert first == second  # its endpoint, the secret, the folder
    assert len(starts(launch, "worker.0")) == 1  # it had finished
    assert re.search(r"done: \d\.\d s, restarts: worker 1 1, server 0 1; logs in log\n$", launch.output)
    log = launch.log("workerlog.1")
    assert re.fullmatch(
        r"words of start 0\n\n--- [-\d]+ [:\d]+ worker 1, restart 1: was killed by SIGKILL ---\nwords of start 1\n", log
    )
    launch.nothing_is_left()


def test_a_worker_past_its_restarts_ends_the_job(start):
    launch = start("ready(); serve() if is_server else die()", "--max-restarts=1")
    assert launch.wait() == 128 + signal.SIGKILL
    assert "starting it again in 1 s (1 of 1)" in launch.output
    assert "worker 0 is not started again: it has had 1 restart already (--max_restarts=1)\n" in launch.output
    assert "    --- " in launch.output  # its log's end
    assert "max_restarts: 1\n" in launch.output
    launch.nothing_is_left()


def test_an_error_of_the_script_s_own_ends_the_job_at_once(start):
    launch = start("ready(); serve() if is_server else print(undefined)")
    assert launch.wait() == 1
    assert "NameError: name 'undefined' is not defined" in launch.output
    assert "worker 0 is not started again: an error in the first 60 s" in launch.output
    assert "starting it again" not in launch.output


def test_a_worker_that_lost_its_server_is_started_again(start):
    script = """
    from flota import report
    from flota.errors import DeadlineExceeded
    ready()
    if is_server:
        serve()
    report.watch_failures()
    if restarts == 0:
        try:
            raise DeadlineExceeded("server 0 did not answer")
        except DeadlineExceeded as error:
            raise RuntimeError("batch 7 was not trained") from error
    """
    launch = start(script)
    assert launch.wait() == 0, launch.output
    assert "worker 0 ended with exit status 1; starting it again in 1 s (1 of 3)" in launch.output
    assert "RuntimeError: batch 7 was not trained" in launch.log("workerlog.0")


def test_without_durable_state_a_dead_server_ends_the_job(start):
    script = TELL + "ready()\nwait_for('worker.0')\nif is_server:\n    die()\ntime.sleep(600)"
    launch = start(script, "--no-durable", FLOTA_DURABLE_DIR="elsewhere")
    assert launch.wait() == 128 + signal.SIGKILL
    assert f"server 0 is not started again: {EMPTY}" in launch.output
    assert starts(launch, "server.0")[0]["FLOTA_DURABLE_DIR"] == ""
    assert not (launch.folder / "log" / "durable").exists()
    assert "--resume" not in launch.output


@pytest.mark.parametrize("keeps", [False, True])
def test_a_server_that_would_come_back_empty_ends_the_job(start, keeps):
    script = """
    from flota import report
    if is_server:
        if sys.argv[1] == "True":
            Path(os.environ["FLOTA_DURABLE_DIR"], "server-0/rows").mkdir(parents=True, exist_ok=True)
        wait_for("worker.0")
        die() if restarts == 0 else serve()
    report.step(1, samples=1)
    ready()
    wait_for("server.0")
    """
    launch = start(script, arguments=[str(keeps)])
    assert launch.wait() == (0 if keeps else 137), launch.output
    assert (f"server 0 is not started again: {EMPTY}" in launch.output) == (not keeps)


def test_a_signal_ends_a_launch_that_waits_to_start_a_process_again(start):
    launch = start("ready(name=f'{me}.{restarts}'); serve() if is_server else die()")
    wait_until(lambda: "starting it again in 2 s (2 of 3)" in launch.output)
    launch.process.send_signal(signal.SIGINT)
    assert launch.wait() == 130
    assert "SIGINT: stopping 1 processes" in launch.output
    assert not (launch.folder / "pids/worker.0.2").exists()  # it was not waited for
    launch.nothing_is_left()


def test_servers_that_have_ended_come_back_for_a_worker_that_was_killed_after_training(start):
    script = """
    from flota import report
    ready(name=f"{me}.{restarts}")
    if is_server and restarts == 0:
        wait_for("worker.0.done")
        sys.exit(0)
    if is_server:
        serve()
    if restarts == 0:
        report.finished()
        ready(name="worker.0.done")
        wait_for_the_end_of("server.0.0")
        die()
    wait_for("server.0.1")
    """
    launch = start(script)
    assert launch.wait() == 0, launch.output
    assert "restarts: worker 0 1, server 0 1" in launch.output


def test_a_server_that_ends_again_and_again_is_called_back_no_oftener_than_it_may_be(start):
    script = """
    ready(name=f"{me}.{restarts}")
    wait_for("worker.0.0")
    if not is_server:
        die() if restarts == 0 else time.sleep(600)
    wait_for("worker.0.1")
    """
    launch = start(script, "--max_restarts=1")
    assert launch.wait() == 1, launch.output
    assert "server 0 ended as all workers had, and one of them has come back; starting it again in 1 s (1 of 1)" in (
        launch.output
    )
    assert "ended with exit status 0 while worker 0 needed it" in launch.output
    assert "server 0 is not started again: it has had 1 restart already" in launch.output
    assert launch.log("serverlog.0").count("---") == 2  # one line says that it was started again
    launch.nothing_is_left()


# A launcher to which any process has run long enough to have its restarts forgiven.
FORGIVING = """
import sys
from flota.launch import main, restarts
restarts.FORGIVEN_AFTER = 1e-6
sys.exit(main())
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_a_job_with_a_worker_that_cannot_be_started_again_has_failed(start, tmp_path, workers):
    """With the folder of the logs gone no process can be started. Others may go on, or there may be none."""
    script = """
    import shutil
    if is_server:
        Path(os.environ["FLOTA_DURABLE_DIR"], "server-0").mkdir()
        serve()
    if me == "worker.1":
        serve()
    wait_for("server.0", *sys.argv[1:])
    shutil.rmtree("log")
    die()
    """
    (tmp_path / "forgiving.py").write_text(FORGIVING)
    others = ["worker.1"] if workers == 2 else []
    flags = [f"--worker_num={workers}", "--max_restarts=1", "--durable=state"]
    launch = start(script, *flags, module="forgiving", arguments=others)
    assert launch.wait() == 128 + signal.SIGKILL, launch.output
    why = "worker 0 could not be started: [Errno 2] No such file or directory: 'log/workerlog.0'"
    assert f"worker 0 is not started again: {why}; it has had 1 restart already (--max_restarts=1)\n" in launch.output
    assert "what the servers have is in state" in launch.output
    assert json.loads((tmp_path / "state/job.json").read_text())["state"] == "failed"
    assert (tmp_path / "state/server-0").exists()
    launch.nothing_is_left()


def test_on_several_hosts_each_launch_starts_its_own_again(start):
    script = """
    from flota import report
    ready(name=f"{me}.{restarts}")
    if is_server:
        wait_for("worker.1.done")
        sys.exit(0)
    if restarts == 0:
        die()
    report.finished()
    ready(name="worker.1.done")
    """
    server, worker = free_ports("127.0.0.1", 2)
    lists = [
        f"--servers=10.255.255.1:{server},127.0.0.1:{server}",
        f"--workers=10.255.255.1:{worker},127.0.0.1:{worker}",
    ]
    launch = start(script, *lists, "--insecure", FLOTA_SECRET="x" * 32)
    assert launch.wait() == 0, launch.output
    assert "restarts: worker 1 1; logs in log\n" in launch.output
    assert json.loads((launch.folder / "log/durable-127.0.0.1/job.json").read_text())["restarts"] == {"worker 1": 1}


@pytest.mark.parametrize(("ending", "status"), [("die()", 0), ("sys.exit(3)", 3)])
def test_a_full_disk_is_no_reason_to_end(tmp_path, ending, status):
    """The launch's own output goes nowhere, and job.json cannot be written once the job runs."""
    script = f"""
ready(name=f"{{me}}.{{restarts}}")
if is_server:
    Path("log/durable/job.json.new").mkdir()
    serve()
wait_for("server.0")
if restarts == 0:
    {ending}
"""
    (tmp_path / "train.py").write_text(PRELUDE + script)
    command = [sys.executable, "-m", "flota.launch", "train.py"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command, cwd=tmp_path, stdout=full, stderr=full, timeout=15, env=clean_environment(), check=False
        )
    assert done.returncode == status
    assert (tmp_path / "pids" / "worker.0.1").exists() == (status == 0)


def test_the_view_shows_what_waits_and_what_was_started_again(tmp_path):
    process = LocalProcess(Member("server", 0, Endpoint("127.0.0.1", 1)), tmp_path / "log", guard=None)
    process.starts, process.status = 1, KILLED
    process.wait_for_restart(4.0, used=1)
    assert rows.state(process, None) == "was killed by SIGKILL, starts again in 4 s"
    process.starts, process.status, process.due, process._process = 2, None, None, object()
    assert rows.state(process, None) == "running, restart 1"


def test_others_wait_beyond_their_deadline_for_one_that_is_being_started_again(start):
    """Its start takes longer than they would wait, and until it is over it cannot say anything itself. It dies twice:
    the second time after it had come."""
    script = """
if not is_server and index == 1 and restarts:
    time.sleep(3)
import flota

ready(name=f"{me}.{restarts}")
if is_server:
    flota.init()
    flota.init_server()
    flota.run_server()
    sys.exit()
client = flota.Client(servers, worker=index + 1, timeout=2 if index == 0 else 20)
client.rejoin(index, 2)
if index == 1 and restarts < 2:
    wait_for("worker.0.0")
    die()
client.barrier("meet", rank=index, world=2)
client.close()
"""
    launch = start(script, "--worker_num=2", FLOTA_SECRET="x" * 32)
    assert launch.wait(60) == 0, launch.output
    assert "restarts: worker 1 2;" in launch.output, launch.output
    assert "waits on at barrier 'meet': worker 1 was started again" in launch.log("workerlog.0")
