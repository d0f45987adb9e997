"""A launch that goes well: what the processes are told, what they leave, what the user sees."""

import json
import os
import re
import subprocess
import sys

import pytest

from flota import cli

# Workers say what they were told, and end.
TELL = """
if is_server:
    serve()
told = {name: value for name, value in os.environ.items()}
Path(f"told.{index}").write_text(json.dumps({"environment": told, "arguments": sys.argv[1:]}))
print("worker", index, "was here")
print("and complained", file=sys.stderr)
"""

# Servers too.
TELL_ALL = """
Path(f"told.{me}").write_text(json.dumps(dict(os.environ)))
ready()
wait_for(*sys.argv[1:])
if is_server:
    serve()
"""


def told(launch, name):
    return json.loads((launch.folder / f"told.{name}").read_text())


@pytest.mark.parametrize("module", ["flota.launch", "flota.launch_ps", "flota.cli launch"])
def test_workers_finish_and_the_servers_are_stopped(start, module):
    launch = start(TELL, "--server_num=2", "--worker_num", "2", module=module, arguments=["--epochs", "3"])
    assert launch.wait() == 0, launch.output
    launch.nothing_is_left()
    assert told(launch, 1)["arguments"] == ["--epochs", "3"]
    assert "all workers have finished; stopping the servers" in launch.output
    assert re.search(r"launch\] done: \d\.\d s; logs in log\n", launch.output)


def test_each_process_has_a_log_of_its_own_that_is_new_each_time(start):
    for _ in range(2):
        launch = start(TELL, "--worker_num=2")
        assert launch.wait() == 0
        assert launch.log("workerlog.1") == "worker 1 was here\nand complained\n"
    assert sorted(log.name for log in (launch.folder / "log").glob("*log.*")) == [
        "serverlog.0",
        "workerlog.0",
        "workerlog.1",
    ]
    # One worker less: the log of the second, which this job does not have, would only mislead.
    assert start(TELL, "--worker_num=1").wait() == 0
    assert sorted(log.name for log in (launch.folder / "log").glob("*log.*")) == ["serverlog.0", "workerlog.0"]


def test_logs_go_where_they_are_asked_to(start):
    launch = start(TELL, "--log-dir=here/and/there")
    assert launch.wait() == 0
    assert (launch.folder / "here/and/there/workerlog.0").read_text().startswith("worker 0 was here")


def test_every_process_learns_who_it_is(start):
    names = ["server.0", "server.1", "worker.0", "worker.1", "worker.2"]
    launch = start(TELL_ALL, "--server_num=2", "--worker_num=3", arguments=names)
    assert launch.wait() == 0, launch.output
    everybody = [told(launch, name) for name in names]
    for name in ("PADDLE_PSERVERS_IP_PORT_LIST", "PADDLE_TRAINER_ENDPOINTS", "PADDLE_GLOO_HTTP_ENDPOINT",
                 "PADDLE_GLOO_FS_PATH", "FLOTA_SECRET", "FLOTA_REPORT"):  # fmt: skip
        assert len({environment[name] for environment in everybody}) == 1, name
    server, worker = told(launch, "server.1"), told(launch, "worker.2")
    servers, workers = (server[f"PADDLE_{x}"].split(",") for x in ("PSERVERS_IP_PORT_LIST", "TRAINER_ENDPOINTS"))
    assert (len(set(servers)), len(set(workers)), len({*servers, *workers})) == (2, 3, 5)
    assert f"{server['POD_IP']}:{server['PADDLE_PORT']}" == servers[1]
    assert (server["TRAINING_ROLE"], worker["TRAINING_ROLE"]) == ("PSERVER", "TRAINER")
    assert worker["PADDLE_TRAINER_ID"] == "2"
    for environment in everybody:
        assert environment["PADDLE_TRAINERS_NUM"] == "3"
        assert environment["PADDLE_WITH_GLOO"] == "0"
        assert environment["PADDLE_GLOO_RENDEZVOUS"] == "3"
        assert environment["PADDLE_HETER_TRAINER_IP_PORT_LIST"] == ""
        assert "CUDA_VISIBLE_DEVICES" not in environment


def test_a_job_on_one_host_makes_a_secret_that_nobody_reads(start):
    launch = start(TELL)
    assert launch.wait() == 0
    secret = told(launch, 0)["environment"]["FLOTA_SECRET"]
    assert len(secret) >= 32
    assert secret not in launch.output
    again = start(TELL)
    assert again.wait() == 0
    assert told(again, 0)["environment"]["FLOTA_SECRET"] != secret


def test_a_secret_that_is_given_is_the_job_s(start, tmp_path):
    launch = start(TELL, FLOTA_SECRET="x" * 32)
    assert launch.wait() == 0
    assert told(launch, 0)["environment"]["FLOTA_SECRET"] == "x" * 32
    file = tmp_path / "secret"
    file.write_text("y" * 32)
    launch = start(TELL, FLOTA_SECRET_FILE=str(file))
    assert launch.wait() == 0
    assert "FLOTA_SECRET" not in told(launch, 0)["environment"]
    assert told(launch, 0)["environment"]["FLOTA_SECRET_FILE"] == str(file)


def test_worker_i_gets_device_i(start):
    names = ["server.0", "worker.0", "worker.1", "worker.2"]
    launch = start(TELL_ALL, "--worker_num=3", "--gpus=4,6", arguments=names)
    assert launch.wait() == 0, launch.output
    devices = [told(launch, name).get("CUDA_VISIBLE_DEVICES") for name in names]
    assert devices == [None, "4", "6", "4"]
    # Of the one device that it sees, a worker uses the first.
    assert {told(launch, name)["FLAGS_selected_gpus"] for name in names[1:]} == {"0"}


def test_gpus_alone_say_how_many_workers_there_are(start):
    launch = start(TELL, "--devices=0,1")
    assert launch.wait() == 0
    assert (told(launch, 0)["environment"]["PADDLE_TRAINERS_NUM"]) == "2"


def test_devices_that_were_chosen_before_stay(start):
    launch = start(TELL, CUDA_VISIBLE_DEVICES="7")
    assert launch.wait() == 0
    assert told(launch, 0)["environment"]["CUDA_VISIBLE_DEVICES"] == "7"


@pytest.mark.parametrize("workers", [1, 3])
def test_workers_share_the_cores_of_their_host(start, workers):
    launch = start(TELL, f"--worker_num={workers}")
    assert launch.wait() == 0, launch.output
    threads = told(launch, 0)["environment"]["OMP_NUM_THREADS"]
    assert threads == str(max(1, len(os.sched_getaffinity(0)) // workers))


def test_a_number_of_threads_that_was_chosen_before_stays(start):
    launch = start(TELL, "--worker_num=2", OMP_NUM_THREADS="7")
    assert launch.wait() == 0, launch.output
    assert told(launch, 0)["environment"]["OMP_NUM_THREADS"] == "7"
    assert "OMP_NUM_THREADS" not in launch.output


def test_the_tables_have_fleet_s_shape(start):
    launch = start(TELL, "--server_num=1", "--worker_num=2", "--gpus=0,1")
    assert launch.wait() == 0
    assert launch.output.startswith("""\
-----------  Configuration Arguments -----------
gpus: 0,1
heter_worker_num: None
heter_workers:
http_port: None
ips: 127.0.0.1
log_dir: log
nproc_per_node: None
server_num: 1
servers:
training_script: train.py
training_script_args: []
worker_num: 2
workers:
------------------------------------------------
""")
    assert (
        """
    +=======================================================================================+
    |                        Distributed Envs                      Value                    |
    +---------------------------------------------------------------------------------------+
    |                     PADDLE_TRAINERS_NUM                        2                      |
    |                           TRAINING_ROLE                     PSERVER                   |
    |                                  POD_IP                    127.0.0.1                  |
    |                  PADDLE_GLOO_RENDEZVOUS                        3                      |
"""
        in launch.output
    )
    server, worker = re.findall(r"(?s)    \+=+\+\n.*?\n    \+=+\+\n", launch.output)
    names = [[line[5:45].strip() for line in box.splitlines()[3:-1]] for box in (server, worker)]
    assert names[0] == [
        "PADDLE_TRAINERS_NUM", "TRAINING_ROLE", "POD_IP", "PADDLE_GLOO_RENDEZVOUS", "PADDLE_PSERVERS_IP_PORT_LIST",
        "PADDLE_PORT", "PADDLE_WITH_GLOO", "PADDLE_HETER_TRAINER_IP_PORT_LIST", "PADDLE_TRAINER_ENDPOINTS",
        "PADDLE_GLOO_HTTP_ENDPOINT", "PADDLE_GLOO_FS_PATH",
    ]  # fmt: skip
    assert names[1] == [
        "PADDLE_GLOO_HTTP_ENDPOINT", "PADDLE_GLOO_RENDEZVOUS", "PADDLE_PSERVERS_IP_PORT_LIST", "PADDLE_WITH_GLOO",
        "PADDLE_TRAINER_ENDPOINTS", "FLAGS_selected_gpus", "PADDLE_GLOO_FS_PATH", "PADDLE_TRAINERS_NUM",
        "TRAINING_ROLE", "XPU_VISIBLE_DEVICES", "PADDLE_HETER_TRAINER_IP_PORT_LIST", "PADDLE_TRAINER_ID",
        "CUDA_VISIBLE_DEVICES", "FLAGS_selected_xpus", "OMP_NUM_THREADS",
    ]  # fmt: skip


def test_a_list_too_long_for_the_box_goes_on_below(start):
    launch = start(TELL, "--worker_num=4")
    assert launch.wait() == 0
    lines = re.findall(r"PADDLE_TRAINER_ENDPOINTS(.{47})\|\n    \|( {40}.{47})\|", launch.output)
    assert len(lines) == 2  # in both boxes
    workers = told(launch, 0)["environment"]["PADDLE_TRAINER_ENDPOINTS"]
    assert "".join(part.strip() for part in lines[0]) == workers


def test_the_temporary_folder_is_private_and_goes_with_the_launch(start, tmp_path):
    script = """
    if is_server:
        serve()
    folder = Path(os.environ["FLOTA_REPORT"]).parent
    Path(os.environ["PADDLE_GLOO_FS_PATH"], "shared by all").touch()
    print(folder, oct(folder.stat().st_mode))
    """
    launch = start(script)
    assert launch.wait() == 0, launch.output
    folder, mode = launch.log("workerlog.0").split()
    assert mode == "0o40700"
    assert not (tmp_path / folder).exists()


def test_the_launcher_does_not_import_torch():
    code = "import sys, flota.launch, flota.cli; sys.exit('torch' in sys.modules or 'flota._core' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_command_knows_its_version_and_its_commands(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("flota 0.")
    assert cli.main(["--help"]) == 0
    assert "launch" in capsys.readouterr().out
    assert cli.main(["lanch"]) == 2
    assert "no command lanch: did you mean launch?" in capsys.readouterr().err
    assert cli.main([]) == 2
