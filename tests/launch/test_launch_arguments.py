"""The command line: Fleet's flags in all their spellings, and what is refused before anything is started."""

import re

import pytest

from flota.errors import InvalidArgument
from flota.launch import main, saying
from flota.launch.arguments import parse
from flota.launch.environment import configuration_table
from flota.launch.nodes import flags as as_flags


@pytest.fixture(autouse=True)
def script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()


def arguments(*flags):
    return parse([*flags, "train.py"], "flota launch")


@pytest.mark.parametrize(
    "flags",
    [["--worker_num=2"], ["--worker_num", "2"], ["--worker-num=2"], ["--trainer_num=2"], ["--trainer-num", "2"]],
)
def test_a_flag_may_be_written_in_several_ways(flags):
    assert arguments(*flags).worker_num == 2


def test_what_follows_the_script_is_the_script_s():
    given = parse(["--server_num", "2", "train.py", "--server_num", "9", "-x", "--", "file"], "flota launch")
    assert given.server_num == 2
    assert given.training_script_args == ["--server_num", "9", "-x", "--", "file"]


def test_an_empty_value_is_none_given():
    given = arguments("--servers=", "--workers=", "--gpus=", "--heter_workers=", "--heter_worker_num=", "--server_num=")
    assert (given.servers, given.workers, given.gpus, given.server_num) == ("", "", None, None)


@pytest.mark.parametrize("flag", ["--heter_workers=10.0.0.1:1", "--heter_worker_num=1", "--heter-devices=gpu"])
def test_heter_workers_are_refused(flag):
    with pytest.raises(InvalidArgument, match=f"(?s){flag.replace('-d', '_d')}: flota has one kind of worker"):
        arguments(flag)


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--sever_num=1"], "there is no flag --sever_num: did you mean --server_num?"),
        (["--server_num=two"], "invalid number value: 'two'"),
        (["--server_num=-1"], "must not be negative, not -1"),
        (["--worker_num=2", "--trainer_num=3"], "--trainer_num=3 contradicts --worker_num=2, given before it"),
        (["--http_port=0"], "a port is between 1 and 65535, not 0"),
        (["--timeout=soon"], "invalid number value: 'soon'"),
        (["--max_restarts=-1"], "must not be negative, not -1"),
        (["--snapshot_seconds=0"], "must be above 0 and below 1e9, not 0"),
        (["--view=colourful"], "invalid choice: 'colourful'"),
    ],
)
def test_what_makes_no_sense_is_refused(capsys, flags, reason):
    with pytest.raises(SystemExit) as refused:
        main([*flags, "train.py"])
    assert refused.value.code == 2
    assert reason in capsys.readouterr().err


def test_a_script_that_is_not_there_is_refused(capsys, tmp_path):
    assert main(["--worker_num=2", "trian.py"]) == 2
    assert capsys.readouterr().err == f"flota launch: there is no script trian.py (in {tmp_path})\n"


def test_a_log_folder_that_cannot_be_made_is_refused(capsys, tmp_path):
    (tmp_path / "file").touch()
    assert main(["--log_dir=file/log", "train.py"]) == 1
    assert "--log_dir=file/log: Not a directory" in capsys.readouterr().err


def test_a_secret_that_cannot_be_read_is_refused(capsys, monkeypatch):
    monkeypatch.delenv("FLOTA_SECRET", raising=False)
    monkeypatch.setenv("FLOTA_SECRET_FILE", "nowhere")
    assert main(["train.py"]) == 2
    assert "cannot read the secret from FLOTA_SECRET_FILE=nowhere" in capsys.readouterr().err


def test_the_live_view_needs_a_terminal(capsys):
    assert main(["--view=live", "train.py"]) == 2
    assert "--view=live needs a terminal" in capsys.readouterr().err


def test_help_names_every_flag(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    for flag in ("gpus", "devices", "http_port", "ips", "log_dir", "nproc_per_node", "server_num", "servers",
                 "worker_num", "trainer_num", "workers", "trainers", "timeout", "view", "heter", "resume",
                 "max_restarts", "durable", "no_durable", "durable_sync", "snapshot_seconds", "snapshot_mb",
                 "keep_durable"):  # fmt: skip
        assert flag in text


def test_flags_of_an_engine_are_shown_once_and_only_where_they_were_given():
    shown = configuration_table(arguments("--hosts=h1,h2", "--if_lost=move")).splitlines()
    assert [line for line in shown if line.startswith(("hosts", "if_lost", "on:", "lost_after"))] == [
        "on: ssh",
        "hosts: h1,h2",
        "if_lost: move",
    ]


# --- where numbers go ---


def test_ports_and_folders_of_the_environment_are_as_if_they_were_flags(monkeypatch):
    monkeypatch.setenv("FLOTA_METRICS_PORT", "9300")
    monkeypatch.setenv("FLOTA_METRICS_HOST", "0.0.0.0")
    monkeypatch.setenv("FLOTA_TENSORBOARD", "runs")
    found = arguments("--server_num=1", "--worker_num=1")
    assert (found.metrics_port, found.metrics_host, found.tensorboard) == (9300, "0.0.0.0", "runs")
    assert {"--metrics_port=9300", "--metrics_host=0.0.0.0", "--tensorboard=runs"} <= set(as_flags(found, lists=True))
    given = arguments("--metrics_port=9400", "--metrics_host=::1", "--tensorboard=here")
    assert (given.metrics_port, given.metrics_host, given.tensorboard) == (9400, "::1", "here")


def test_lines_that_a_program_reads_stay_text(capsys, monkeypatch):
    monkeypatch.setenv("FLOTA_LOG_FORMAT", "json")
    monkeypatch.setenv("FLOTA_LOG_LEVEL", "error")
    monkeypatch.setattr(saying, "_read_by_a_program", False)
    saying.say("not said")
    saying.stay_text()
    saying.say("worker 1 has joined", "joined")
    assert re.fullmatch(r"INFO \S+ \S+ launch\] worker 1 has joined\n", capsys.readouterr().out)
