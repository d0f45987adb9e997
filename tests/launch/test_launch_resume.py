"""A job that was killed, stopped or failed goes on with ``--resume``; one that finished leaves nothing behind."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from launched import JOB_NAMES, PRELUDE, alive, clean_environment

from flota.errors import InvalidArgument, SystemFailure
from flota.launch import main
from flota.launch.arguments import parse
from flota.launch.durable import DurableFolder
from flota.launch.hosts import free_ports
from flota.launch.plan import make_plan
from flota.launch.record import FAILED, FINISHED, Record
from flota.launch.resuming import durable_place, how_to_resume, resumed_plan, resumed_record

# Each process says what it was told. Servers keep something, as real ones do.
JOB = """
with Path(f"told.{me}").open("a") as file:
    file.write(json.dumps({"arguments": sys.argv[1:], **os.environ}) + "\\n")
if is_server:
    mine = Path(os.environ["FLOTA_DURABLE_DIR"], f"server-{index}")
    mine.mkdir(exist_ok=True)
    Path(mine, "log-1").touch()
    print("server of start", restarts)
    serve()
wait_for("server.0", "server.1")
ready()
"""

# Its first start ends otherwise.
SLOW = JOB + "time.sleep(600 if restarts == 0 else 0)\n"
FAILING = JOB + "sys.exit(3 if restarts == 0 else 0)\n"


def starts(launch, name):
    return [json.loads(line) for line in (launch.folder / f"told.{name}").read_text().splitlines()]


def record(launch):
    return json.loads((launch.folder / "log/durable/job.json").read_text())


def test_a_job_whose_launcher_was_killed_goes_on(start):
    names = ["server.0", "server.1", "worker.0", "worker.1", "worker.2"]
    launch = start(SLOW, "--server_num=2", "--worker_num=3", "--snapshot_mb=7", arguments=["--epochs", "3"])
    launch.pids(*names)
    assert record(launch)["state"] == "running"
    launch.process.kill()
    launch.wait()
    # At once: the new launch waits until the old one's processes have ended.
    pids = launch.all_pids()
    launch = start(None, "--resume")
    assert launch.wait() == 0, launch.output
    assert not any(map(alive, pids))
    assert re.search(r"going on with the job in log/durable, started \S+, which was running\n", launch.output)
    for name in names:
        first, second = starts(launch, name)
        assert (first["FLOTA_RESTARTS"], second["FLOTA_RESTARTS"]) == ("0", "1")
        assert second["arguments"] == ["--epochs", "3"]
        assert second["FLOTA_SECRET"] != first["FLOTA_SECRET"]
        assert second.get("FLOTA_SNAPSHOT_MB") == ("7" if name.startswith("server") else None)
    log = launch.log("serverlog.1")
    assert re.fullmatch(r"server of start 0\n\n--- \S+ \S+ server 1, restart 1 ---\nserver of start 1\n", log)
    assert "server of start" not in launch.output
    assert record(launch)["state"] == "finished"
    assert not list((launch.folder / "log/durable").glob("server-*"))


def test_a_job_that_was_stopped_says_how_to_go_on(start):
    launch = start(SLOW, "--server_num=2", "--log_dir=there", "--durable=here/state")
    launch.pids("server.0", "server.1", "worker.0")
    launch.process.send_signal(signal.SIGINT)
    assert launch.wait() == 130
    command = "flota launch --resume --durable=here/state --log_dir=there"
    assert f"what the servers have is in here/state: {command} goes on from there\n" in launch.output
    assert json.loads((launch.folder / "here/state/job.json").read_text())["state"] == "stopped"
    again = start(None, *command.split()[2:])
    assert again.wait() == 0, again.output


def test_a_job_that_failed_goes_on_and_may_fail_again(start):
    launch = start(FAILING, "--server_num=2", "--paddle")
    assert launch.wait() == 3
    assert record(launch)["state"] == "failed"
    assert record(launch)["kept"] == [0, 1]
    assert "log/durable: flota launch --resume goes on from there\n" in launch.output
    text = (launch.folder / "train.py").read_text().replace("restarts == 0", "restarts <= 1")
    (launch.folder / "train.py").write_text(text)
    assert start(None, "--resume").wait() == 3
    launch = start(None, "--resume", "--keep_durable")
    assert launch.wait() == 0, launch.output
    assert "paddle: True\nresume: True\n" in launch.output
    assert [start["FLOTA_RESTARTS"] for start in starts(launch, "worker.0")] == ["0", "1", "2"]
    assert sorted(path.name for path in (launch.folder / "log/durable").glob("server-*")) == ["server-0", "server-1"]


@pytest.mark.parametrize("read", ["worker 0 speaks", "all workers have finished"])
def test_a_job_whose_reader_went_away_is_closed_as_well(tmp_path, read):
    """As with ``flota launch | head``. What a worker says is shown while it runs."""
    script = """
def end(*_):
    wait_for("reader.gone")  # so the launch has its last words still to say
    sys.exit(0)

if is_server:
    signal.signal(signal.SIGTERM, end)
    Path(os.environ["FLOTA_DURABLE_DIR"], "server-0").mkdir()
    serve()
wait_for("server.0")
print("worker 0 speaks")
while len(sys.argv) > 1:  # until nobody reads
    time.sleep(0.01)
    print("and again")
"""
    (tmp_path / "train.py").write_text(PRELUDE + script)
    endless = ["endless"] if read == "worker 0 speaks" else []
    command = [sys.executable, "-m", "flota.launch", "train.py", *endless]
    with subprocess.Popen(
        command, cwd=tmp_path, env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as launch:
        try:
            for line in launch.stdout:
                if read in line:
                    break
            launch.stdout.close()
            (tmp_path / "pids/reader.gone").touch()
            assert launch.wait(15) == 128 + signal.SIGPIPE
        finally:
            launch.kill()
    state = json.loads((tmp_path / "log/durable/job.json").read_text())["state"]
    assert state == ("stopped" if endless else "finished")
    assert (tmp_path / "log/durable/server-0").exists() == bool(endless)


def test_a_new_job_moves_an_unfinished_one_aside(start):
    launch = start(FAILING, "--server_num=2")
    assert launch.wait() == 3
    for path in (launch.folder / "pids").iterdir():
        path.unlink()
    launch = start(JOB, "--server_num=2")
    assert launch.wait() == 0, launch.output
    command = "flota launch --resume --durable=log/durable.old"
    assert f"the job in log/durable did not finish: it is in log/durable.old now, and goes on with {command}\n" in (
        launch.output
    )
    again = start(None, *command.split()[2:])
    assert again.wait() == 0, again.output
    assert starts(again, "worker.0")[-1]["FLOTA_RESTARTS"] == "1"


def test_servers_are_told_where_and_how_to_keep_what_they_have(start):
    flags = ["--durable_sync", "--snapshot-seconds=2.5", "--snapshot_mb", "64"]
    launch = start(JOB, "--server_num=2", *flags, FLOTA_DURABLE_DIR="x/y")
    assert launch.wait() == 0, launch.output
    server, worker = starts(launch, "server.1")[0], starts(launch, "worker.0")[0]
    names = ("DURABLE_DIR", "DURABLE_SYNC", "SNAPSHOT_SECONDS", "SNAPSHOT_MB")
    assert [server[f"FLOTA_{name}"] for name in names] == [str(launch.folder / "x/y"), "1", "2.5", "64"]
    assert worker["FLOTA_DURABLE_DIR"] == ""
    assert "durable_sync: True\nsnapshot_mb: 64.0\nsnapshot_seconds: 2.5\n" in launch.output


def test_without_durable_state_no_process_is_told_how_to_keep_it(start):
    launch = start(JOB, "--server_num=2", "--no_durable", FLOTA_DURABLE_DIR="x", FLOTA_SNAPSHOT_MB="7")
    assert launch.wait() == 0, launch.output
    for name in ("server.0", "worker.0"):
        told = starts(launch, name)[0]
        assert [told["FLOTA_DURABLE_DIR"], told["FLOTA_SNAPSHOT_MB"]] == ["", ""]


# --- what is refused ---


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(JOB_NAMES)]:
        monkeypatch.delenv(name)
    (tmp_path / "train.py").touch()
    (tmp_path / "other.py").touch()


def left_behind(place="log/durable", state=FAILED, **changes):
    """A job of 2 servers and 3 workers as a launch leaves it."""
    values = {"script": "train.py", "script_args": ["-x"], "server_num": 2, "worker_num": 3}
    job = Record(**{**values, "flags": {}, "folder": str(Path.cwd()), "started": "yesterday", **changes})
    folder = DurableFolder.claim(Path(place), make=True)
    with contextlib.closing(folder):
        folder.begin(job)
        Path(place, "server-0").mkdir(exist_ok=True)
        Path(place, "server-0/log-1").touch()
        folder.end(state, keep=True)  # as a launch that is killed in between


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--server_num=5"], "the job in log/durable has 2 servers, and this command asks for 5"),
        (["--servers=127.0.0.1:1"], "the job in log/durable has 2 servers, and this command asks for 1"),
        (["--worker-num=1"], "the job in log/durable has 3 workers, and this command asks for 1"),
        (["other.py", "-x"], "the job in log/durable runs train.py, and this command other.py"),
        (["train.py"], "the job in log/durable runs train.py with -x, and this command with none"),
        (["--no_durable"], "--resume and --no_durable contradict each other"),
        (["--durable=nowhere"], "there is no job in nowhere to resume: --log_dir or --durable says where one is"),
    ],
)
def test_a_command_that_contradicts_the_job_is_refused(capsys, flags, reason):
    left_behind()
    assert main(["--resume", *flags]) == 2
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"state": FINISHED}, "the job in log/durable has finished: there is nothing to resume"),
        ({"flota": "0.0.1"}, "the job in log/durable is flota 0.0.1's, and this is flota"),
        ({"format": 9}, "log/durable/job.json has format 9, and this flota reads format 1 only"),
        ({"script": "gone.py"}, "the job's script gone.py is not there"),
        ({"server_num": "two"}, "log/durable/job.json is damaged: server_num cannot be as written there"),
        ({"restarts": {"worker 0": "many"}}, "log/durable/job.json is damaged: restarts cannot be as written there"),
        (
            {"kept": [0, 1, 2]},
            "what servers 1, 2 kept is gone: nothing is in log/durable/server-1, log/durable/server-2",
        ),
        ({"kept": ["x"]}, "log/durable/job.json is damaged: kept cannot be as written there"),
        ({"script_args": [1]}, "log/durable/job.json is damaged: script_args cannot be as written there"),
        ({"flags": {"gpus": 5}}, "job.json in log/durable is damaged: a flag gpus with the value 5"),
    ],
)
def test_a_job_that_cannot_go_on_is_refused(capsys, changes, reason):
    left_behind(**changes)
    assert main(["--resume"]) == 2
    assert reason in capsys.readouterr().err


def test_a_job_goes_on_in_no_other_folder(capsys, monkeypatch, tmp_path):
    left_behind()
    Path("elsewhere").mkdir()
    Path("elsewhere/train.py").touch()
    monkeypatch.chdir("elsewhere")
    assert main(["--resume", "--durable=../log/durable", "--log_dir=log"]) == 2
    assert f"../log/durable was started in {tmp_path}: give --resume there" in capsys.readouterr().err


def test_a_record_that_is_cut_short_is_called_damaged(capsys):
    left_behind()
    Path("log/durable/job.json").write_text('{"format": 1, ')
    assert main(["--resume"]) == 2
    assert "log/durable/job.json is damaged: " in capsys.readouterr().err


@pytest.mark.parametrize("flags", [["--resume"], ["train.py"]])
def test_a_folder_that_another_launch_uses_is_refused(capsys, flags):
    left_behind()
    with contextlib.closing(DurableFolder.claim(Path("log/durable"), make=False)):
        assert main(flags) == 1
    assert f"another launch (pid {os.getpid()}) runs a job in log/durable" in capsys.readouterr().err


def test_the_launch_that_runs_is_named(start):
    launch = start(SLOW, "--server_num=2")
    launch.pids("server.0", "server.1", "worker.0")
    place = launch.folder / "log/durable"
    with pytest.raises(SystemFailure, match=f"another launch \\(pid {launch.process.pid}\\)"):
        DurableFolder.claim(place, make=False)
    launch.process.kill()
    launch.wait()
    DurableFolder.claim(place, make=False).close()
    assert not any(map(alive, launch.all_pids()))


@pytest.mark.parametrize(
    "flag", ["--durable=x", "--durable_sync", "--keep-durable", "--snapshot_mb=1", "--snapshot_seconds=1"]
)
def test_a_flag_without_effect_is_refused(flag):
    with pytest.raises(InvalidArgument, match="and --no_durable contradict each other"):
        parse(["--no_durable", flag, "train.py"], "flota launch")


def test_a_script_may_have_a_flag_of_that_name():
    given = parse(["train.py", "--resume"], "flota launch")
    assert (given.resume, given.training_script_args) == (False, ["--resume"])
    given = parse(["--resume", "train.py", "--resume"], "flota launch")
    assert (given.resume, given.training_script, given.training_script_args) == (True, "train.py", ["--resume"])


# --- what lies in the folder ---


@contextlib.contextmanager
def new_job(place="log/durable"):
    with contextlib.closing(DurableFolder.claim(Path(place), make=True)) as folder:
        yield folder.make_room(lambda suffix: Path(f"{place}{suffix}"))


def test_only_what_may_be_gone_on_with_is_kept_aside():
    left_behind(state=FINISHED)
    with new_job() as aside:
        assert not aside
    assert not Path("log/durable/server-0").exists()
    for started in ("first", "second"):
        left_behind(started=started)
        with new_job() as aside:
            assert aside
        assert [path.name for path in Path("log/durable").iterdir()] == ["lock"]
    assert json.loads(Path("log/durable.old/job.json").read_text())["started"] == "second"
    left_behind()
    shutil.rmtree("log/durable/server-0")  # servers had not got to it
    with new_job() as aside:
        assert not aside


def test_what_finished_and_is_to_be_kept_is_never_replaced():
    for n in (1, 2):
        left_behind(state=FINISHED, flags={"keep_durable": True}, started=f"job {n}")
        with new_job() as moved:
            assert moved == f".kept-{n}"
    for n in (1, 2):
        assert json.loads(Path(f"log/durable.kept-{n}/job.json").read_text())["started"] == f"job {n}"
        assert Path(f"log/durable.kept-{n}/server-0/log-1").exists()
    left_behind("log/durable.old", state=FINISHED, flags={"keep_durable": True})
    left_behind()
    with pytest.raises(InvalidArgument, match="something else is there that may not be replaced"), new_job():
        pass


def test_flags_of_a_resumed_job_are_those_of_before_and_those_said_now():
    servers = ",".join(f"127.0.0.1:{port}" for port in free_ports("127.0.0.1", 2))
    left_behind(flags={"servers": servers, "snapshot_mb": 7.0, "keep_durable": True})
    with contextlib.closing(DurableFolder.claim(Path("log/durable"), make=False)) as folder:
        job = folder.resume()
    for flags, places in ([], {"servers": servers}), (["--ips=127.0.0.1"], {"ips": "127.0.0.1"}):
        asked = parse(["--resume", "--snapshot_mb=3", *flags], "flota launch")
        plan = resumed_plan(asked, job, folder.path)
        assert (plan.arguments.keep_durable, plan.arguments.snapshot_mb) == (True, 3.0)
        assert resumed_record(job, asked, plan).flags == {"snapshot_mb": 3.0, "keep_durable": True, **places}


def test_what_is_no_job_s_is_never_touched():
    Path("log/durable/server-0").mkdir(parents=True)
    with pytest.raises(InvalidArgument, match=r"holds what servers kept, and no job\.json"), new_job():
        pass
    Path("mine").mkdir()
    Path("mine/thesis.tex").touch()
    with pytest.raises(InvalidArgument, match=r"there are other things in it \(thesis.tex\)"), new_job("mine"):
        pass
    left_behind("there")
    Path("there.old").mkdir()
    with pytest.raises(InvalidArgument, match="something else is there"), new_job("there"):
        pass
    assert Path("mine/thesis.tex").exists()


def test_a_launch_does_not_move_the_folder_that_it_was_started_in(monkeypatch):
    left_behind()
    monkeypatch.chdir("log/durable")
    with pytest.raises(InvalidArgument, match="start it in another folder"), new_job("."):
        pass
    assert Path("server-0").exists()


def test_a_record_that_cannot_be_written_is_told_and_the_one_before_stays():
    left_behind()
    with contextlib.closing(DurableFolder.claim(Path("log/durable"), make=False)) as folder:
        folder.begin(folder.resume())
        Path("log/durable/job.json.new").mkdir()  # as good as a full disk
        assert folder.started_again("worker 0", 7) == "log/durable/job.json could not be written: Is a directory"
        assert folder.resume().restarts == {}
        Path("log/durable/job.json.new").rmdir()
        assert folder.started_again("worker 1", 2) is None
        assert folder.resume().restarts == {"worker 0": 7, "worker 1": 2}


def test_what_servers_have_kept_is_noted_and_missed():
    left_behind()
    Path("log/durable/server-1").mkdir()
    Path("log/durable/server-1/lock").touch()  # it has got no further
    with contextlib.closing(DurableFolder.claim(Path("log/durable"), make=False)) as folder:
        folder.begin(folder.resume())
        assert folder.note_kept(range(3)) is None
        assert folder.resume().kept == [0]
        Path("log/durable/server-0/log-1").unlink()
        with pytest.raises(InvalidArgument, match="what server 0 kept is gone: nothing is in log/durable/server-0"):
            folder.resume()


def test_a_new_job_that_cannot_be_written_down_is_not_started(capsys):
    left_behind(state=FINISHED)
    Path("log/durable/job.json.new").mkdir()  # as good as a full disk
    assert main(["train.py"]) == 1
    reason = (
        "log/durable/job.json could not be written: Is a directory; make room there, or do without it: --no_durable"
    )
    assert reason in capsys.readouterr().err
    assert not Path("log/serverlog.0").exists()


def test_a_folder_that_cannot_be_made_is_refused(capsys):
    assert main(["--durable=train.py/x", "train.py"]) == 1
    assert "--durable=train.py/x: Not a directory" in capsys.readouterr().err


@pytest.mark.parametrize("name", [".", "..", "../there", "/"])
def test_any_name_for_the_folder_is_understood_or_refused(capsys, monkeypatch, tmp_path, name):
    Path("there/below").mkdir(parents=True)
    monkeypatch.chdir("there/below" if name == ".." else "there")
    assert main(["--resume", f"--durable={name}"]) == 2
    place = {"/": "/: name a folder", "../there": "in ../there to resume"}.get(name, f"in {tmp_path}/there to resume")
    assert place in capsys.readouterr().err


def test_hosts_that_share_a_file_system_do_not_share_the_folder(capsys):
    lists = ["--servers=10.255.255.1:7001,127.0.0.1:7001", "--workers=10.255.255.1:7002,127.0.0.1:7002"]
    plan = make_plan(parse([*lists, "train.py"], "flota launch"))
    assert durable_place(plan) == Path("log/durable-127.0.0.1")
    assert durable_place(plan, ".old") == Path("log/durable.old-127.0.0.1")
    assert how_to_resume(plan, ".old") == (
        "flota launch --resume --durable=log/durable.old and the flags of before, on each host"
    )
    left_behind("log/durable-127.0.0.1")
    assert main(["--resume"]) == 2
    assert "one of several hosts in log/durable-127.0.0.1: give the same --ips" in capsys.readouterr().err
