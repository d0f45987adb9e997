"""Who a process is: from the environment, from the script, or alone."""

import re

import pytest

from flota.errors import InvalidArgument
from flota.roles import LocalRoleMaker, PaddleCloudRoleMaker, Placement, Role, UserDefinedRoleMaker, default_role_maker
from flota.roles import environment as variables

SERVERS = "10.0.0.1:6001,10.0.0.2:6001"
WORKERS = "10.0.0.1:7001,10.0.0.2:7001,10.0.0.2:7002"
JOB = {"PADDLE_PSERVERS_IP_PORT_LIST": SERVERS, "PADDLE_TRAINERS_NUM": "3", "PADDLE_TRAINER_ENDPOINTS": WORKERS}
WORKER = {**JOB, "TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": "2"}
SERVER = {**JOB, "TRAINING_ROLE": "PSERVER", "POD_IP": "10.0.0.2", "PADDLE_PORT": "6001"}

NAMES = [
    value
    for name, value in vars(variables).items()
    if name.isupper() and not name.startswith("_") and isinstance(value, str)
]


@pytest.fixture
def environment(monkeypatch):
    """Sets the variables of one process; the rest of a job's variables are gone."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)

    def set_all(variables):
        for name, value in variables.items():
            if value is None:
                monkeypatch.delenv(name, raising=False)
            else:
                monkeypatch.setenv(name, value)

    return set_all


# --- the environment ---


def test_a_worker_is_told_its_index(environment):
    environment(WORKER)
    placement = PaddleCloudRoleMaker().placement()
    assert placement == Placement(Role.WORKER, 2, 3, tuple(SERVERS.split(",")), tuple(WORKERS.split(",")))
    assert placement.server_num == 2
    assert not placement.local


def test_a_server_finds_itself_in_the_list(environment):
    environment(SERVER)
    placement = PaddleCloudRoleMaker().placement()
    assert (placement.role, placement.index, placement.worker_num) == (Role.SERVER, 1, 3)


def test_the_variables_that_document_003_prints_are_enough(environment):
    """Those of its first server, with the ones that mean nothing here."""
    environment(
        {
            "PADDLE_TRAINERS_NUM": "2",
            "TRAINING_ROLE": "PSERVER",
            "POD_IP": "127.0.0.1",
            "PADDLE_GLOO_RENDEZVOUS": "3",
            "PADDLE_PSERVERS_IP_PORT_LIST": "127.0.0.1:34008",
            "PADDLE_PORT": "34008",
            "PADDLE_WITH_GLOO": "0",
            "PADDLE_HETER_TRAINER_IP_PORT_LIST": "",
            "PADDLE_TRAINER_ENDPOINTS": "127.0.0.1:18913,127.0.0.1:10025",
        }
    )
    placement = PaddleCloudRoleMaker().placement()
    assert (placement.role, placement.index, placement.worker_num) == (Role.SERVER, 0, 2)


def test_a_server_with_an_ipv6_address_finds_itself(environment):
    environment({**SERVER, "PADDLE_PSERVERS_IP_PORT_LIST": "[fe80::1]:6001,[::1]:6001", "POD_IP": "::1"})
    assert PaddleCloudRoleMaker().placement().index == 1


def test_spaces_and_leading_zeros_do_not_matter(environment):
    environment({**SERVER, "PADDLE_PSERVERS_IP_PORT_LIST": " a:6001 , 10.0.0.2:06001 ", "PADDLE_PORT": " 6001 "})
    placement = PaddleCloudRoleMaker().placement()
    assert (placement.index, placement.server_endpoints) == (1, ("a:6001", "10.0.0.2:6001"))


def test_workers_may_go_without_endpoints(environment):
    environment({**WORKER, "PADDLE_TRAINER_ENDPOINTS": None})
    assert PaddleCloudRoleMaker().placement().worker_endpoints == ()


REFUSED = {
    "unknown role": (WORKER, {"TRAINING_ROLE": "WORKER"}, "TRAINING_ROLE=WORKER: it must be TRAINER .* or PSERVER"),
    "no role": (WORKER, {"TRAINING_ROLE": None}, "TRAINING_ROLE is not set: every process of a job needs it"),
    "heter role": (WORKER, {"TRAINING_ROLE": "HETER_TRAINER"}, "TRAINING_ROLE=HETER_TRAINER: .* no heterogeneous"),
    "heter workers": (WORKER, {"PADDLE_HETER_TRAINER_IP_PORT_LIST": "a:1"}, "IP_PORT_LIST=a:1: .* no heterogeneous"),
    "no servers": (WORKER, {"PADDLE_PSERVERS_IP_PORT_LIST": None}, "PADDLE_PSERVERS_IP_PORT_LIST is not set"),
    "empty servers": (WORKER, {"PADDLE_PSERVERS_IP_PORT_LIST": " "}, "PADDLE_PSERVERS_IP_PORT_LIST is empty"),
    "no port": (WORKER, {"PADDLE_PSERVERS_IP_PORT_LIST": "10.0.0.1"}, "'10.0.0.1' is not host:port"),
    "no host": (WORKER, {"PADDLE_PSERVERS_IP_PORT_LIST": ":6001"}, "':6001' is not host:port"),
    "port 0": (WORKER, {"PADDLE_PSERVERS_IP_PORT_LIST": "a:0"}, "'a:0' is not host:port with a port from 1 to 65535"),
    "port too high": (WORKER, {"PADDLE_PSERVERS_IP_PORT_LIST": "a:65536"}, "'a:65536' is not host:port"),
    "port no number": (WORKER, {"PADDLE_PSERVERS_IP_PORT_LIST": "a:http"}, "'a:http' is not host:port"),
    "bare ipv6": (WORKER, {"PADDLE_PSERVERS_IP_PORT_LIST": "::1:6001"}, "'::1:6001' is not host:port"),
    "a space too many": (WORKER, {"PADDLE_PSERVERS_IP_PORT_LIST": "a:1 b:2"}, "'a:1 b:2' is not host:port"),
    "a comma too many": (WORKER, {"PADDLE_PSERVERS_IP_PORT_LIST": "a:1,"}, "LIST=a:1,: an entry is empty"),
    "a server twice": (WORKER, {"PADDLE_PSERVERS_IP_PORT_LIST": "a:1,b:1,a:01"}, "names a:1 twice"),
    "a worker twice": (WORKER, {"PADDLE_TRAINER_ENDPOINTS": "a:1,a:1,a:2"}, "PADDLE_TRAINER_ENDPOINTS names a:1 twice"),
    "no worker number": (SERVER, {"PADDLE_TRAINERS_NUM": None}, "PADDLE_TRAINERS_NUM is not set"),
    "no workers": (WORKER, {"PADDLE_TRAINERS_NUM": "0"}, "PADDLE_TRAINERS_NUM=0: it must be a whole number from 1"),
    "too few workers": (WORKER, {"PADDLE_TRAINERS_NUM": "4"}, "names 3 workers and PADDLE_TRAINERS_NUM is 4"),
    "no index": (WORKER, {"PADDLE_TRAINER_ID": None}, "PADDLE_TRAINER_ID is not set: a worker needs it"),
    "index too high": (WORKER, {"PADDLE_TRAINER_ID": "3"}, "PADDLE_TRAINER_ID=3: .* 0 to 2; PADDLE_TRAINERS_NUM is 3"),
    "index below 0": (WORKER, {"PADDLE_TRAINER_ID": "-1"}, "PADDLE_TRAINER_ID=-1: it must be a whole number from 0"),
    "index no number": (WORKER, {"PADDLE_TRAINER_ID": "two"}, "PADDLE_TRAINER_ID=two: it must be a whole number"),
    "no address": (SERVER, {"POD_IP": None}, "POD_IP is not set: a server needs it"),
    "no own port": (SERVER, {"PADDLE_PORT": None}, "PADDLE_PORT is not set: a server needs it"),
    "own port no number": (SERVER, {"PADDLE_PORT": "x"}, "PADDLE_PORT=x: it must be a whole number from 1 to 65535"),
    "not in the list": (SERVER, {"PADDLE_PORT": "9"}, f"POD_IP=10.0.0.2 and PADDLE_PORT=9 .*{re.escape(SERVERS)}"),
}


@pytest.mark.parametrize(("process", "change", "says"), REFUSED.values(), ids=REFUSED)
def test_an_environment_that_makes_no_sense_is_refused(environment, process, change, says):
    environment({**process, **change})
    with pytest.raises(InvalidArgument, match=says):
        PaddleCloudRoleMaker().placement()


# --- alone, and by default ---


def test_without_a_job_the_process_is_local(environment):
    environment({})
    alone = Placement(Role.WORKER, 0, 1, (), (), local=True)
    assert LocalRoleMaker().placement() == alone
    assert default_role_maker().placement() == alone
    assert PaddleCloudRoleMaker().placement() == alone


def test_a_local_process_stays_so_in_a_job(environment):
    environment(WORKER)
    assert LocalRoleMaker().placement().local


def test_the_default_follows_the_environment(environment):
    environment(SERVER)
    assert default_role_maker().placement().role is Role.SERVER


def test_a_job_without_roles_is_not_taken_for_a_local_process(environment):
    """Each process of it would train alone, and nobody would notice."""
    environment(JOB)
    with pytest.raises(InvalidArgument, match="TRAINING_ROLE is not set"):
        default_role_maker().placement()


# --- the script ---


def test_the_script_of_document_001():
    role = UserDefinedRoleMaker(
        current_id=0, role=Role.WORKER, worker_num=3, server_endpoints=["127.0.0.1:6001", "127.0.0.1:6002"]
    )
    assert role.placement() == Placement(Role.WORKER, 0, 3, ("127.0.0.1:6001", "127.0.0.1:6002"))


def test_a_user_defined_server_counts_among_servers():
    role = UserDefinedRoleMaker(1, Role.SERVER, 1, ("a:1", "b:1"), ["c:1"])
    assert role.placement() == Placement(Role.SERVER, 1, 1, ("a:1", "b:1"), ("c:1",))


REFUSED_ARGUMENTS = {
    "role of another type": ({"role": 1}, "role must be Role.WORKER or Role.SERVER, not 1"),
    "worker too high": ({"current_id": 3}, "current_id of a worker must be a whole number from 0 to 2, not 3"),
    "server too high": (
        {"role": Role.SERVER, "current_id": 2},
        "current_id of a server must be a whole number from 0 to 1, not 2",
    ),
    "no workers": ({"worker_num": 0}, "worker_num must be a whole number from 1"),
    "one string": ({"server_endpoints": "a:1"}, r"server_endpoints must be a list .*, not 'a:1'"),
    "a set": ({"server_endpoints": {"a:1"}}, "server_endpoints must be a list"),
    "no servers": ({"server_endpoints": []}, r"server_endpoints is empty: .* LocalRoleMaker\(\)"),
    "malformed": ({"server_endpoints": ["a"]}, "server_endpoints: 'a' is not host:port"),
    "of another type": ({"server_endpoints": [6001]}, "server_endpoints: 6001 is not host:port"),
    "twice": ({"server_endpoints": ["a:1", "a:1"]}, "server_endpoints names a:1 twice"),
    "too few workers": ({"worker_endpoints": ["a:1"]}, "worker_endpoints names 1 workers and worker_num is 3"),
}


@pytest.mark.parametrize(("change", "says"), REFUSED_ARGUMENTS.values(), ids=REFUSED_ARGUMENTS)
def test_a_user_defined_role_that_makes_no_sense_is_refused(change, says):
    arguments = {"current_id": 0, "role": Role.WORKER, "worker_num": 3, "server_endpoints": ["a:1", "b:1"], **change}
    with pytest.raises(InvalidArgument, match=says):
        UserDefinedRoleMaker(**arguments)


@pytest.mark.parametrize(
    "make",
    [PaddleCloudRoleMaker, lambda **more: UserDefinedRoleMaker(0, Role.WORKER, 1, ["a:1"], **more)],
    ids=["environment", "user-defined"],
)
def test_collective_training_is_refused_with_what_to_use(make):
    with pytest.raises(InvalidArgument, match=r"parameter servers only; .*DistributedDataParallel"):
        make(is_collective=True)
