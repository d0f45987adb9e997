"""``fleet.DistributedStrategy`` as scripts use it: what they set acts, is refused, or is kept since it asks for nothing
here."""

import copy
import json
import warnings
from pathlib import Path

import pytest

import flota
import flota.paddle as paddle
from flota.errors import InvalidArgument
from flota.paddle.distributed import job
from flota.paddle.distributed.strategy import SETTINGS, apply_trainer_settings
from flota.strategy import Async, Geo, Sync, as_strategy

DEFAULTS = json.loads((Path(__file__).parent / "golden" / "strategy.json").read_text())
SWITCHES = [name for name, (default, _) in SETTINGS.items() if default is False and not name.startswith("cudnn")]
TAKEN = {"adam_d2sum", "find_unused_parameters", "fuse_grad_merge", "use_hierarchical_allreduce"}

static = paddle.static


@pytest.fixture
def strategy():
    return paddle.distributed.fleet.DistributedStrategy()


@pytest.fixture(autouse=True)
def no_strategy():
    yield
    job._Minimized.strategy = None


# --- a trainer's get_strategy ---


def test_the_strategy_of_a_ready_made_trainer_trains_in_geo(strategy, capsys):
    strategy.a_sync = True
    strategy.is_fl_ps_mode = False
    strategy.a_sync_configs = {"k_steps": 400}
    asked = {"dump_fields_path": "", "dump_fields": [], "dump_param": [], "stat_var_names": []}
    strategy.trainer_desc_configs = asked
    print("strategy:", strategy.trainer_desc_configs)
    strategy.fs_client_param = {"uri": "", "user": "", "passwd": "", "hadoop_bin": "hadoop"}
    print("strategy:", strategy.fs_client_param)
    strategy.adam_d2sum = True
    strategy.sparse_table_configs = {}
    print(strategy.sparse_table_configs)
    a_sync_configs = strategy.a_sync_configs
    a_sync_configs["launch_barrier"] = False
    strategy.a_sync_configs = a_sync_configs
    print(strategy.a_sync_configs["launch_barrier"])
    assert capsys.readouterr().out.endswith("hadoop'}\n{}\nFalse\n")
    assert strategy.mode == Geo(400, launch_barrier=False)
    assert as_strategy(strategy) is strategy
    assert isinstance(strategy, flota.DistributedStrategy)


# --- reading ---


@pytest.mark.parametrize("name", DEFAULTS)
def test_what_is_not_set_is_what_the_reference_has(strategy, name):
    value, wanted = getattr(strategy, name), DEFAULTS[name]
    if name == "a_sync_configs":
        wanted = {**wanted, "use_gpu_graph": 0}  # of another release
    if name == "fs_client_param":
        assert not any(value.values())  # there it is a message, here a dictionary
    elif name in ("build_strategy", "execution_strategy"):
        assert type(value).__name__.lower() == name.replace("_", "")
    else:
        assert value == wanted
        assert type(value) is type(wanted)


@pytest.mark.parametrize("name", [name for name in DEFAULTS if not name.endswith("strategy")])
def test_what_is_read_can_be_assigned_again(strategy, name):
    mode = strategy.mode
    setattr(strategy, name, getattr(strategy, name))
    assert (getattr(strategy, name), strategy.mode) == (getattr(type(strategy)(), name), mode)


def test_what_is_read_is_a_copy(strategy):
    for name in ("a_sync_configs", "amp_configs", "trainer_desc_configs"):
        before = getattr(strategy, name)
        getattr(strategy, name)["k_steps"] = 7
        assert getattr(strategy, name) == before
    fields = ["x"]
    strategy.trainer_desc_configs = {"dump_fields": fields}
    fields.append("y")
    strategy.trainer_desc_configs["dump_fields"].append("z")
    assert strategy.trainer_desc_configs["dump_fields"] == ["x"]


def test_a_copy_of_a_strategy_is_its_own(strategy):
    strategy.a_sync_configs = {"k_steps": 5}
    strategy.adam_d2sum = True
    other = copy.deepcopy(strategy)
    other.adam_d2sum = False
    assert (other.mode, strategy.adam_d2sum) == (Geo(5), True)


# --- what is not done here ---


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_can_be_left_off_and_says_why_it_stays_so(strategy, name):
    setattr(strategy, name, False)
    if name in TAKEN:
        setattr(strategy, name, True)
        assert getattr(strategy, name) is True
        return
    with pytest.raises(InvalidArgument, match=f"{name}=True is not done: [a-z].{{10,}}"):
        setattr(strategy, name, True)
    assert getattr(strategy, name) is False
    with pytest.raises(InvalidArgument, match=f"{name} must be True or False"):
        setattr(strategy, name, 1)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("amp_configs", {"init_loss_scalin": 1.0}, "did you mean 'init_loss_scaling'"),
        ("amp_configs", {"use_pure_fp16": "yes"}, "amp_configs: use_pure_fp16 must be True or False"),
        ("pipeline_configs", [2], "pipeline_configs must be a dictionary"),
        ("hybrid_configs", {"mp_degree": 2}, "every worker has the whole model"),
        ("gradient_scale_configs", {"scale_strategy": "sum"}, "scale the loss"),
        ("nccl_comm_num", "2", "must be a whole number"),
        ("build_strategy", {}, "build_strategy must be a BuildStrategy"),
        ("fs_client_param", {"uri": "hdfs://a"}, "HDFSClient copies them"),
        ("fs_client_param", {"url": ""}, "did you mean 'uri'"),
        ("trainer_desc_configs", {"dump_field": []}, "did you mean 'dump_fields'"),
        ("trainer_desc_configs", {"local_sparse": ["a"]}, "no federated training"),
        ("sparse_table_configs", {"t": {"table_parameters.t.accessor.embedx_threshold": 10}}, "optimizer's own rule"),
        ("sparse_table_configs", {"t": {"accessor.embed_sgd_param.adam.learning_rate": 0.1}}, "optimizer's own rule"),
        ("sparse_table_configs", {"t": 5}, "sparse_table_configs: t must be a dictionary"),
        ("fleet_desc_configs", {"t": {"sparse_optimizer": "adam"}}, "optimizer's own rule"),
        ("with_coordinator", True, "did you mean 'is_with_coordinator'"),
        ("a_sinc", True, "did you mean 'a_sync'"),
    ],
)
def test_what_asks_for_something_else_is_refused_and_changes_nothing(strategy, name, value, says):
    before = getattr(strategy, name, None)
    with pytest.raises(InvalidArgument, match=says):
        setattr(strategy, name, value)
    if not name.endswith("strategy"):
        assert getattr(strategy, name, None) == before


def test_files_of_strategies_are_refused(strategy, tmp_path):
    with pytest.raises(InvalidArgument, match="not written"):
        strategy.save_to_prototxt(tmp_path / "strategy")
    with pytest.raises(InvalidArgument, match="not read"):
        strategy.load_from_prototxt(tmp_path / "strategy")


# --- what asks for nothing here ---


def test_what_only_tunes_something_else_is_kept(strategy):
    building = static.BuildStrategy()
    building.fuse_all_optimizer_ops = True
    told = {
        "nccl_comm_num": 2, "fuse_grad_size_in_MB": 16, "last_comm_group_size_MB": 2.5, "sync_nccl_allreduce": False,
        "cudnn_exhaustive_search": True, "sync_param_name": ["w"],
        "sparse_table_configs": {"t": {"table_parameters.t.shard_num": 10, "table_parameters.t.accessor.fea_dim": 9}},
    }  # fmt: skip
    for name, value in told.items():
        setattr(strategy, name, value)
        assert getattr(strategy, name) == value
    strategy.build_strategy = building
    assert strategy.build_strategy.fuse_all_optimizer_ops is True
    strategy.last_comm_group_size_MB = 3
    strategy.last_comm_group_size_MB = 3.5  # as it is a number, and not a whole one, whatever was set before
    strategy.amp_configs = {"init_loss_scaling": 8, "custom_white_list": ("mul",)}  # of a switch that is off
    assert strategy.amp_configs == {
        **DEFAULTS["amp_configs"], "init_loss_scaling": 8.0, "custom_white_list": ["mul"],
    }  # fmt: skip
    assert strategy.mode == Async()
    assert "nccl" not in repr(strategy)


# --- a_sync_configs that the mode does not carry ---


def test_settings_of_async_are_a_warning_in_geo_and_act_when_it_ends(strategy):
    with pytest.warns(UserWarning, match="has no effect in geo mode") as caught:
        strategy.a_sync_configs = {"k_steps": 100, "max_merge_var_num": 20, "send_queue_size": 32}
    assert [each.filename for each in caught] == [__file__] * 2
    assert strategy.mode == Geo(100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it was said
        strategy.a_sync_configs = {**strategy.a_sync_configs, "launch_barrier": False}
        strategy.a_sync_configs = {"k_steps": 0}
    assert strategy.mode == Async(max_merge_var_num=20, send_queue_size=32, launch_barrier=False)
    with pytest.raises(InvalidArgument, match="has no effect in geo mode"):
        flota.DistributedStrategy().a_sync_configs = {"k_steps": 100, "max_merge_var_num": 20}


def test_settings_of_async_are_a_warning_in_sync(strategy):
    strategy.a_sync_configs = {"send_queue_size": 32}
    with pytest.warns(UserWarning, match="send_queue_size=32 has no effect in sync mode") as caught:
        strategy.a_sync = False
    assert [each.filename for each in caught] == [__file__]
    assert strategy.mode == Sync()


def test_what_makes_no_sense_is_still_refused(strategy):
    for given, says in (({"k_step": 1}, "did you mean"), ({"use_ps_gpu": 1}, "tables live in the servers' memory")):
        with pytest.raises(InvalidArgument, match=says):
            strategy.a_sync_configs = given
    strategy.mode = Async(max_staleness=2)
    with pytest.raises(InvalidArgument, match="max_staleness=2 has no effect in sync mode"):
        strategy.a_sync = False


# --- trainer_desc_configs ---


def minimized(strategy, told=None):
    """The options of a program that was minimized with it."""
    loss = paddle.mean(static.nn.fc(static.data("x", [None, 2]), 1, name="out"))
    loss.program._fleet_opt = told
    paddle.distributed.fleet.distributed_optimizer(paddle.optimizer.SGD(0.1), strategy).minimize(loss)
    return loss.program._fleet_opt or {}


def test_what_a_strategy_asks_to_write_is_the_programs_wish(program, strategy, tmp_path):
    strategy.trainer_desc_configs = {"dump_fields": ["x"], "stat_var_names": ["auc"]}
    strategy.trainer_desc_configs = {"dump_fields_path": str(tmp_path), "trainer": "DistMultiTrainer"}
    options = minimized(strategy, {"dump_fields": ["y"], "dump_num_decimals": 2, "dump_fields_path": "elsewhere"})
    wanted = {"dump_fields": ["x"], "dump_fields_path": str(tmp_path), "dump_num_decimals": 2}
    assert {name: options[name] for name in wanted} == wanted
    assert strategy.trainer_desc_configs["stat_var_names"] == ["auc"]


@pytest.mark.parametrize("asked", [{}, {"dump_fields_path": "out"}, {"stat_var_names": ["auc"], "dump_fields": []}])
def test_settings_that_ask_for_nothing_leave_a_program_alone(program, strategy, asked):
    strategy.trainer_desc_configs = asked
    assert "dump_fields_path" not in minimized(strategy)


def test_fields_without_a_place_to_write_them_are_refused(program, strategy):
    strategy.trainer_desc_configs = {"dump_fields": ["x"]}
    with pytest.raises(InvalidArgument, match="where to write to"):
        minimized(strategy)


def test_other_strategies_ask_for_nothing(program):
    for other in (None, flota.DistributedStrategy(), Geo(5)):
        apply_trainer_settings(program, other)
    assert not program._fleet_opt


def test_the_strategy_that_init_was_given_counts(program, strategy, tmp_path):
    strategy.trainer_desc_configs = {"dump_fields": ["x"], "dump_fields_path": str(tmp_path)}
    paddle.distributed.fleet.init(strategy=strategy)
    assert minimized(None)["dump_fields"] == ["x"]
