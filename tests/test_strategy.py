"""Strategies: typed, as Fleet 2.x and 1.x write them; every option acts or is refused."""

import re
import warnings
from dataclasses import FrozenInstanceError, fields

import pytest

from flota.errors import InvalidArgument
from flota.strategy import (
    Async,
    DistributedStrategy,
    DistributeTranspilerConfig,
    Geo,
    StrategyFactory,
    Sync,
    as_strategy,
)
from flota.strategy.distributed import A_SYNC_DEFAULTS


def fleet(*assignments):
    """A strategy after these assignments: a bool is for a_sync, a dictionary for a_sync_configs."""
    strategy = DistributedStrategy()
    for value in assignments:
        setattr(strategy, "a_sync" if isinstance(value, bool) else "a_sync_configs", value)
    return strategy


# --- modes ---


REFUSED_MODES = {
    "geo 0": (lambda: Geo(k_steps=0), "k_steps must be a whole number from 1"),
    "geo of another type": (lambda: Geo(k_steps=1.5), "k_steps must be a whole number from 1 to .*, not 1.5"),
    "geo true": (lambda: Geo(k_steps=True), "k_steps must be a whole number .*, not True"),
    "barrier 1": (lambda: Sync(launch_barrier=1), "launch_barrier must be True or False, not 1"),
    "staleness": (lambda: Async(max_staleness=-1), "max_staleness must be a whole number from 0"),
    "merge": (lambda: Async(max_merge_var_num=0), "max_merge_var_num must be a whole number from 1"),
    "queue": (lambda: Async(send_queue_size=0), "send_queue_size must be a whole number from 1"),
    "thread": (lambda: Async(independent_recv_thread="yes"), "independent_recv_thread must be True or False"),
    "receive": (lambda: Async(min_send_grad_num_before_recv=0), "min_send_grad_num_before_recv must be"),
    "pool": (lambda: Async(thread_pool_size=257), "thread_pool_size must be a whole number from 1 to 256, not 257"),
    "wait": (lambda: Async(send_wait_times=-1), "send_wait_times must be a whole number from 0"),
}


@pytest.mark.parametrize(("make", "says"), REFUSED_MODES.values(), ids=REFUSED_MODES)
def test_a_mode_that_makes_no_sense_is_refused(make, says):
    with pytest.raises(InvalidArgument, match=says):
        make()


def test_modes_do_not_change():
    with pytest.raises(FrozenInstanceError):
        Async().max_staleness = 3


@pytest.mark.parametrize(
    "mode", [Sync(), Sync(launch_barrier=False), Async(max_staleness=4, send_queue_size=2), Geo(7)]
)
def test_a_typed_mode_shows_in_fleets_names(mode):
    strategy = DistributedStrategy(mode)
    assert strategy.mode == mode
    assert strategy.a_sync == (not isinstance(mode, Sync))
    assert strategy.a_sync_configs["k_steps"] == getattr(mode, "k_steps", 0)
    for field in fields(mode):
        assert strategy.a_sync_configs.get(field.name, getattr(mode, field.name)) == getattr(mode, field.name)


def test_a_mode_of_another_type_is_refused():
    with pytest.raises(InvalidArgument, match=r"the mode must be Sync\(…\), Async\(…\) or Geo\(…\), not 'sync'"):
        DistributedStrategy("sync")


# --- Fleet 2.x ---


def test_nothing_set_is_asynchronous_as_in_fleet():
    strategy = DistributedStrategy()
    assert strategy.a_sync is True
    assert strategy.mode == Async()
    assert strategy.a_sync_configs == A_SYNC_DEFAULTS


MEANINGS = {
    "sync": ([False], Sync()),
    "async": ([True], Async()),
    "geo": ([True, {"k_steps": 100}], Geo(100)),
    "geo, a_sync left alone": ([{"k_steps": 100}], Geo(100)),
    "settings before a_sync": ([{"send_queue_size": 32}, True], Async(send_queue_size=32)),
    "settings after a_sync": ([True, {"send_queue_size": 32}], Async(send_queue_size=32)),
    "settings add up": (
        [True, {"send_queue_size": 32}, {"max_merge_var_num": 4}],
        Async(send_queue_size=32, max_merge_var_num=4),
    ),
    "from sync to async": ([False, True, {"thread_pool_size": 2}], Async(thread_pool_size=2)),
    "0 steps": ([True, {"k_steps": 0}], Async()),
    "steps nobody has said": ([True, {"k_steps": -1}], Async()),
    "sync with 0 steps": ([False, {"k_steps": 0}], Sync()),
    "no barrier in sync": ([False, {"launch_barrier": False}], Sync(launch_barrier=False)),
    "no barrier in geo": ([True, {"launch_barrier": False, "k_steps": 5}], Geo(5, launch_barrier=False)),
    "geo taken back": ([{"k_steps": 5}, {"k_steps": 0, "send_queue_size": 2}], Async(send_queue_size=2)),
    "everything": (
        [
            True,
            {
                "max_merge_var_num": 20,
                "send_queue_size": 20,
                "independent_recv_thread": True,
                "min_send_grad_num_before_recv": 20,
                "thread_pool_size": 20,
                "send_wait_times": 5,
                "launch_barrier": False,
            },
        ],
        Async(None, 20, 20, True, 20, 20, 5, False),
    ),
}


@pytest.mark.parametrize(("assignments", "mode"), MEANINGS.values(), ids=MEANINGS)
def test_what_fleets_settings_mean(assignments, mode):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fleet(*assignments).mode == mode


@pytest.mark.parametrize("assignments", [[False], [True], [True, {"k_steps": 5}]], ids=["sync", "async", "geo"])
@pytest.mark.parametrize("name", [name for name in A_SYNC_DEFAULTS if name != "k_steps"])
def test_fleets_defaults_pass_in_every_mode(assignments, name):
    strategy = fleet(*assignments)
    mode = strategy.mode
    strategy.a_sync_configs = {name: A_SYNC_DEFAULTS[name]}
    assert strategy.mode == mode


@pytest.mark.parametrize("value", [True, False])
def test_setting_a_sync_after_k_steps_ends_geo_as_in_fleet_but_not_in_silence(value):
    strategy = fleet({"k_steps": 100})
    with pytest.warns(UserWarning, match="sets k_steps back from 100 to 0") as caught:
        strategy.a_sync = value
    assert caught[0].filename == __file__
    assert strategy.mode == (Async() if value else Sync())
    assert strategy.a_sync_configs["k_steps"] == 0


REFUSED_SETTINGS = {
    "geo in sync": ([False], {"k_steps": 100}, "k_steps=100 is Geo, .* set a_sync = True before it"),
    "misspelt": ([], {"k_step": 100}, r"a_sync_configs has no 'k_step'; did you mean 'k_steps'\?"),
    "misspelt queue": ([], {"send_que_size": 1}, r"did you mean 'send_queue_size'\?"),
    "nothing near": ([], {"zzz": 1}, "a_sync_configs has no 'zzz'; there are heter_worker_device_guard, .*k_steps"),
    "flota's own": ([], {"max_staleness": 3}, re.escape("use DistributedStrategy(Async(max_staleness=3))")),
    "a type": ([], {"send_queue_size": "16"}, "send_queue_size must be a whole number .*, not '16'"),
    "a type in sync": ([False], {"send_queue_size": 16.0}, "send_queue_size must be a whole number .*, not 16.0"),
    "a range": ([], {"max_merge_var_num": 0}, "max_merge_var_num must be a whole number from 1"),
    "steps below -1": ([], {"k_steps": -2}, "k_steps must be a whole number from -1"),
    "steps of another type": ([], {"k_steps": "100"}, "k_steps must be a whole number"),
    "no dictionary": ([], [("k_steps", 1)], "a_sync_configs must be a dictionary such as {'k_steps': 100}, not"),
    "learning rates": ([], {"lr_decay_steps": 5}, "lr_decay_steps=5 has no effect: learning rates travel"),
    "GPU tables": ([], {"use_ps_gpu": 1}, "use_ps_gpu=1 has no effect: tables live in the servers' memory"),
    "GPU graphs": ([], {"use_gpu_graph": 1}, "use_gpu_graph=1 has no effect"),
    "heter": ([], {"heter_worker_device_guard": "gpu"}, "heter_worker_device_guard='gpu' has no effect: there are no"),
    "split": ([], {"runtime_split_send_recv": 1}, "runtime_split_send_recv must be True or False, not 1"),
    "merge in sync": (
        [False],
        {"max_merge_var_num": 4},
        "max_merge_var_num=4 has no effect in sync mode: a synchronous",
    ),
    "queue in geo": ([], {"k_steps": 9, "send_queue_size": 4}, "send_queue_size=4 has no effect in geo mode: Geo"),
    "thread in geo": (
        [{"k_steps": 9}],
        {"independent_recv_thread": True},
        "independent_recv_thread=True has no effect",
    ),
    "geo after a queue": ([{"send_queue_size": 4}], {"k_steps": 9}, "send_queue_size=4 has no effect in geo mode"),
    "sync after a queue": ([{"send_queue_size": 4}], False, "send_queue_size=4 has no effect in sync mode"),
}


@pytest.mark.parametrize(("before", "value", "says"), REFUSED_SETTINGS.values(), ids=REFUSED_SETTINGS)
def test_a_setting_without_effect_is_refused_and_changes_nothing(before, value, says):
    strategy = fleet(*before)
    mode, settings = strategy.mode, dict(strategy.a_sync_configs)
    name = "a_sync" if isinstance(value, bool) else "a_sync_configs"
    with pytest.raises(InvalidArgument, match=says):
        setattr(strategy, name, value)
    assert (strategy.mode, strategy.a_sync_configs) == (mode, settings)


def test_a_bound_on_staleness_survives_fleets_settings_but_not_another_mode():
    strategy = DistributedStrategy(Async(max_staleness=3))
    strategy.a_sync_configs = {"launch_barrier": False}
    assert strategy.mode == Async(max_staleness=3, launch_barrier=False)
    with pytest.raises(InvalidArgument, match="max_staleness=3 has no effect in sync mode"):
        strategy.a_sync = False


def test_a_setting_cannot_be_lost_in_a_copy():
    strategy = DistributedStrategy()
    with pytest.raises(InvalidArgument, match=re.escape("strategy.a_sync_configs = {'k_steps': 100}")):
        strategy.a_sync_configs["k_steps"] = 100


@pytest.mark.parametrize("value", [1, None, "True"])
def test_a_sync_is_true_or_false(value):
    with pytest.raises(InvalidArgument, match="a_sync must be True or False"):
        DistributedStrategy().a_sync = value


# --- the rest of a strategy ---


REFUSED_OPTIONS = {
    "misspelt": ("a_snyc", True, r"DistributedStrategy has no 'a_snyc'; did you mean 'a_sync'\?"),
    "not here": ("amp", True, "DistributedStrategy has no 'amp'; there are a_sync, a_sync_configs, dense_dtype"),
    "method": ("describe", None, "DistributedStrategy has no 'describe'"),
    "split_method": ("split_method", "Random", "split_method must be one of RoundRobin, HashName, not 'Random'"),
    "slice_var_up": ("slice_var_up", 0, "slice_var_up must be True or False"),
    "min_block_size": ("min_block_size", 0, "min_block_size must be a whole number from 1"),
    "dense_dtype": ("dense_dtype", "float64", "dense_dtype must be one of float32, bfloat16, float16, not 'float64'"),
    "dense_dtype of another type": ("dense_dtype", [], "dense_dtype must be one of"),
}


@pytest.mark.parametrize(("name", "value", "says"), REFUSED_OPTIONS.values(), ids=REFUSED_OPTIONS)
def test_an_option_that_makes_no_sense_is_refused(name, value, says):
    with pytest.raises(InvalidArgument, match=says):
        setattr(DistributedStrategy(), name, value)


@pytest.mark.parametrize("order", [("slice_var_up", "min_block_size"), ("min_block_size", "slice_var_up")])
def test_a_block_size_for_parameters_that_stay_whole_is_refused(order):
    values = {"slice_var_up": False, "min_block_size": 100}
    strategy = DistributedStrategy()
    setattr(strategy, order[0], values[order[0]])
    with pytest.raises(InvalidArgument, match="min_block_size=100 has no effect with slice_var_up=False"):
        setattr(strategy, order[1], values[order[1]])


def test_the_effective_configuration_can_be_printed_and_read_back():
    strategy = DistributedStrategy(Geo(5), split_method="HashName", slice_var_up=False, dense_dtype="bfloat16")
    assert strategy.describe() == [
        ("mode", "geo"),
        ("k_steps", "5"),
        ("launch_barrier", "True"),
        ("split_method", "HashName"),
        ("slice_var_up", "False"),
        ("min_block_size", "8192"),
        ("dense_dtype", "bfloat16"),
    ]
    assert repr(eval(repr(strategy))) == repr(strategy)
    assert DistributedStrategy().describe()[:2] == [("mode", "async"), ("max_staleness", "None")]


# --- Fleet 1.x ---


def test_the_script_of_document_001():
    config = DistributeTranspilerConfig()
    config.sync_mode = True
    assert as_strategy(config).mode == Sync()


def test_a_transpilers_settings_carry_over():
    config = DistributeTranspilerConfig()
    config.sync_mode = False
    config.split_method = "HashName"
    config.min_block_size = 4096
    config.runtime_split_send_recv = False
    config.wait_port = True
    expected = DistributedStrategy(Async(), split_method="HashName", min_block_size=4096)
    assert repr(config.as_strategy()) == repr(expected)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("syncmode", True, r"DistributeTranspilerConfig has no 'syncmode'; did you mean 'sync_mode'\?"),
        ("sync_mode", 1, "sync_mode must be True or False"),
        ("split_method", None, "split_method must be one of RoundRobin, HashName"),
        ("enable_dc_asgd", True, "enable_dc_asgd=True has no effect: gradients are not corrected"),
        ("mode", "nccl2", "mode='nccl2' has no effect: flota trains with parameter servers"),
        ("wait_port", False, "wait_port=False has no effect: init_worker always waits"),
    ],
)
def test_a_transpilers_setting_without_effect_is_refused(name, value, says):
    with pytest.raises(InvalidArgument, match=says):
        setattr(DistributeTranspilerConfig(), name, value)


def test_the_factory_of_1_x():
    assert StrategyFactory.create_sync_strategy().mode == Sync()
    assert StrategyFactory.create_async_strategy().mode == Async()
    assert StrategyFactory.create_half_async_strategy().mode == Async(max_staleness=0)
    assert StrategyFactory.create_geo_strategy(7).mode == Geo(7)


# --- whatever stands for one ---


def test_whatever_stands_for_a_strategy_becomes_one():
    strategy = DistributedStrategy(Sync())
    assert as_strategy(strategy) is strategy
    assert as_strategy(Geo(3)).mode == Geo(3)
    assert as_strategy(None).mode == Async()
    with pytest.raises(InvalidArgument, match=r"a strategy must be a DistributedStrategy, .* not 'async'"):
        as_strategy("async")
