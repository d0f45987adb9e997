"""Names of 1.x, and small ones of 2.x, that unseen scripts use: they do what they say or refuse."""

import json
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import flota.paddle as paddle
from flota.errors import InvalidArgument
from flota.paddle import flags, fluid
from flota.paddle.fluid import dygraph, layers, nets, profiler
from flota.paddle.optimizer import schedulers

pytestmark = pytest.mark.usefixtures("program")


@pytest.fixture
def eager(program):
    with dygraph.guard():
        yield


def linear():
    """The mean of one layer whose weights are all 1."""
    x = layers.data("x", [2])
    one = fluid.initializer.Constant(1.0)
    return layers.mean(layers.fc(x, 1, param_attr=fluid.ParamAttr(name="w", initializer=one), bias_attr=False))


FEED = {"x": np.array([[3.0, 4.0]], "float32")}


# --- running programs ---


def test_devices_are_asked_for_everywhere():
    core = fluid.core
    assert not core.is_compiled_with_cuda()
    assert not fluid.is_compiled_with_cuda()
    assert core.get_cuda_device_count() == 0
    assert core.Scope is fluid.Scope
    assert not fluid.in_dygraph_mode()
    assert fluid.compiler.CompiledProgram is fluid.CompiledProgram
    assert fluid.executor.Executor is fluid.Executor
    assert fluid.param_attr.ParamAttr is fluid.ParamAttr


def test_a_parallel_executor_runs_its_program(program):
    loss = linear()
    test = program.clone(for_test=True)
    fluid.optimizer.SGD(0.5).minimize(loss)
    fluid.Executor(fluid.CPUPlace()).run(fluid.default_startup_program())
    trains = fluid.ParallelExecutor(use_cuda=False, loss_name=loss.name, main_program=program)
    tests = fluid.ParallelExecutor(False, main_program=test, share_vars_from=trains)
    (first,) = trains.run([loss.name], feed=FEED)
    (second,) = tests.run(fetch_list=[loss.name], feed_dict=FEED)
    # The gradient is the input: 7 - 0.5 (9 + 16).
    assert (float(first), float(second)) == (7.0, -5.5)
    assert trains.device_count == 1
    with pytest.raises(InvalidArgument, match="give one of them"):
        tests.run([loss.name], FEED, FEED)
    for wrong in ({"num_trainers": 2}, {"loss_name": "no"}, {"exec_strategy": 3}, {"share_vars_from": 3}):
        with pytest.raises(InvalidArgument):
            fluid.ParallelExecutor(False, **wrong)


def test_a_program_is_saved_and_loaded_by_fluid(program, tmp_path):
    loss = linear()
    executor = fluid.Executor()
    executor.run(fluid.default_startup_program())
    fluid.save(program, str(tmp_path / "model"))
    fluid.global_scope().find_var("w").get_tensor().set(np.zeros((2, 1), "float32"))
    assert float(executor.run(feed=FEED, fetch_list=[loss])[0]) == 0.0
    fluid.load(program, str(tmp_path / "model"), executor)
    assert float(executor.run(feed=FEED, fetch_list=[loss])[0]) == 7.0


def test_a_programs_gradients_are_clipped_where_the_optimizer_has_no_clip_of_its_own(program):
    loss = linear()
    fluid.clip.set_gradient_clip(clip=fluid.clip.GradientClipByGlobalNorm(clip_norm=1.0))
    fluid.optimizer.SGD(1.0).minimize(loss)
    executor = fluid.Executor()
    executor.run(fluid.default_startup_program())
    executor.run(feed=FEED)
    # The gradient [3, 4] of length 5 becomes [0.6, 0.8].
    weight = np.array(fluid.global_scope().find_var("w").get_tensor())
    np.testing.assert_allclose(weight, [[0.4], [0.2]], rtol=1e-5)
    for wrong in (
        (1.0,),
        (fluid.clip.GradientClipByNorm(1.0), [weight]),
        (fluid.clip.GradientClipByNorm(1.0), None, 3),
    ):
        with pytest.raises(InvalidArgument):
            fluid.clip.set_gradient_clip(*wrong)


def test_a_profiler_tells_what_was_computed(capsys, tmp_path):
    loss = linear()
    executor = fluid.Executor()
    executor.run(fluid.default_startup_program())
    path = tmp_path / "profile"
    with profiler.profiler("CPU", sorted_key="total", profile_path=str(path)):
        executor.run(feed=FEED, fetch_list=[loss])
    assert "aten::" in capsys.readouterr().out
    assert json.loads(path.read_text())["traceEvents"]
    with pytest.raises(InvalidArgument, match="CPU, GPU, All"):
        profiler.start_profiler("NPU")
    with pytest.raises(InvalidArgument, match="nothing is recorded"):
        profiler.stop_profiler()
    with pytest.raises(InvalidArgument, match="sorted_key"), profiler.profiler("CPU", "max"):
        pass


def test_a_counter_counts_runs():
    counter = layers.autoincreased_step_counter(begin=5, step=2)
    assert layers.autoincreased_step_counter() is counter
    executor = fluid.Executor()
    executor.run(fluid.default_startup_program())
    assert [int(executor.run(fetch_list=[counter])[0]) for _ in range(3)] == [5, 7, 9]


# --- functions ---


def test_shapes_that_follow_from_others():
    x = layers.data("x", [2])
    drawn = layers.uniform_random_batch_size_like(x, [-1, 3], min=1.0, max=2.0)
    wide = layers.expand_as(x, layers.concat([x, x], axis=1))
    found = fluid.Executor().run(feed=FEED, fetch_list=[drawn, layers.size(x), wide])
    assert found[0].shape == (1, 3)
    assert found[0].min() >= 1.0
    assert int(found[1]) == 2
    assert found[2].tolist() == [[3, 4, 3, 4]]


def test_a_learning_rate_of_1_x_warms_up():
    rate = layers.linear_lr_warmup(layers.piecewise_decay([4], [1.0, 0.1]), 2, 0.0, 1.0)
    seen = []
    for _ in range(5):
        seen.append(rate())
        rate.step()
    assert seen == [0.0, 0.5, 1.0, 1.0, 0.1]


def test_attention_and_gates_are_those_of_their_definitions():
    random = np.random.RandomState(0)
    q, k, v = (random.rand(2, 3, 4).astype("float32") for _ in range(3))
    inputs = [fluid.data(name, [None, 3, 4]) for name in "qkv"]
    outs = [nets.scaled_dot_product_attention(*inputs), nets.glu(inputs[0], dim=-1)]
    several = nets.scaled_dot_product_attention(*inputs, num_heads=2, dropout_rate=0.1)
    assert several.shape == (-1, 3, 4)
    executor = fluid.Executor()
    executor.run(fluid.default_startup_program())
    found = executor.run(feed=dict(zip("qkv", (q, k, v), strict=True)), fetch_list=[*outs, several])
    weights = np.exp(q @ k.swapaxes(1, 2) / 2)
    np.testing.assert_allclose(found[0], weights / weights.sum(-1, keepdims=True) @ v, rtol=1e-5)
    np.testing.assert_allclose(found[1], q[..., :2] / (1 + np.exp(-q[..., 2:])), rtol=1e-5)
    assert found[2].shape == (2, 3, 4)


# --- eager ---


def test_an_eager_model_of_1_x_trains_and_is_saved(eager, tmp_path):
    class Model(dygraph.Layer):
        def __init__(self):
            super().__init__()
            self.rows = dygraph.Embedding(size=[5, 4])
            self.out = dygraph.Linear(4, 1, act="sigmoid")

        def forward(self, ids):
            return self.out(self.rows(ids))

    model = Model()
    optimizer = fluid.optimizer.AdamOptimizer(0.1, parameter_list=model.parameters())
    ids, label = (
        dygraph.to_variable(np.array([1, 2, 3])),
        dygraph.to_variable(np.array([[1.0], [0.0], [1.0]], "float32")),
    )
    losses = []
    for _ in range(20):
        loss = layers.mean(layers.log_loss(model(ids), label))
        loss.backward()
        optimizer.minimize(loss)
        model.clear_gradients()
        losses.append(float(loss.numpy()))
    assert losses[-1] < losses[0] / 4
    path = str(tmp_path / "model")
    dygraph.save_dygraph(model.state_dict(), path)
    dygraph.save_dygraph(optimizer.state_dict(), path)
    other = Model()
    parameters, state = dygraph.load_dygraph(path)
    other.set_dict(parameters)
    assert state
    assert other(ids).numpy().tolist() == model(ids).numpy().tolist()
    with pytest.raises(Exception, match="there is neither"):
        dygraph.load_dygraph(str(tmp_path / "nothing"))


def test_eager_layers_of_1_x_refuse_what_would_not_act(program):
    with pytest.raises(InvalidArgument, match=r"inside fluid.dygraph.guard"):
        dygraph.to_variable(np.zeros(3))
    with dygraph.guard():
        assert dygraph.enabled()
        for make in (
            lambda: dygraph.Linear(1, 1, dtype="float64"),
            lambda: dygraph.Dropout(seed=3),
            lambda: dygraph.Dropout(is_test=True),
        ):
            with pytest.raises(InvalidArgument):
                make()
        dropped = dygraph.Dropout(0.5)
        dropped.eval()
        assert dropped(dygraph.to_variable(np.ones(2, "float32"))).numpy().tolist() == [0.5, 0.5]
    assert not dygraph.enabled()


# --- small ones of 2.x ---


def test_flags_are_kept_and_given_back(monkeypatch):
    monkeypatch.setattr(flags, "_flags", {})
    paddle.set_flags({"FLAGS_eager_delete_tensor_gb": 0.0, "FLAGS_any": True})
    assert paddle.get_flags("FLAGS_any") == {"FLAGS_any": True}
    assert paddle.get_flags(["FLAGS_any", "FLAGS_eager_delete_tensor_gb"])["FLAGS_eager_delete_tensor_gb"] == 0.0
    for wrong in ("FLAGS_never", "any"):
        with pytest.raises(InvalidArgument):
            paddle.get_flags(wrong)
    with pytest.raises(InvalidArgument):
        paddle.set_flags({"any": 1})


def test_gradients_can_be_switched_off(eager):
    x = paddle.to_tensor([1.0], stop_gradient=False)
    with paddle.set_grad_enabled(False):
        assert not paddle.is_grad_enabled()
        assert (x * 2).stop_gradient
    assert paddle.is_grad_enabled()
    assert not (x * 2).stop_gradient


def test_random_numbers_go_on_from_a_state(eager):
    state = paddle.get_rng_state()
    first = paddle.rand([3]).numpy()
    paddle.set_rng_state(state)
    assert paddle.rand([3]).numpy().tolist() == first.tolist()
    with pytest.raises(InvalidArgument):
        paddle.get_rng_state("gpu:0")


def test_tensors_are_printed_as_asked(eager, monkeypatch):
    monkeypatch.setattr("flota.paddle.tensor._Printing.options", {})
    x = paddle.to_tensor([1.23456, 2.0])
    paddle.set_printoptions(precision=2)
    assert "[1.23 2.  ]" in repr(x)
    paddle.set_printoptions(sci_mode=True)
    assert "1.23e+00" in repr(x)
    assert str(np.array([1.23456])) == "[1.23456]", "numpy's own are as they were"


def test_tensors_change_in_place(eager):
    x = paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]])
    same = x
    assert x.fill_(3.0) is same
    assert same.numpy().tolist() == [[3, 3], [3, 3]]
    assert x.zero_().numpy().sum() == 0
    assert x.copy_(np.eye(2)).numpy().tolist() == [[1, 0], [0, 1]]
    assert x.reshape_([4]).shape == same.shape == [4]
    x.uniform_(2.0, 3.0)
    assert 2 <= x.numpy().min() <= x.numpy().max() <= 3
    assert x.uniform_(seed=5).numpy().tolist() == paddle.zeros([4]).uniform_(seed=5).numpy().tolist()
    assert (x.exponential_().numpy() > 0).all()
    y = paddle.to_tensor([1.0], stop_gradient=False) * 2
    assert y.detach_().stop_gradient


def test_a_models_summary_counts_its_parameters(eager, capsys):
    nn = paddle.nn
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.BatchNorm1D(4), nn.Dropout(0.5), nn.Linear(4, 1))
    assert paddle.summary(model, (2, 3)) == {"total_params": 37, "trainable_params": 29}
    said = capsys.readouterr().out
    assert [line.split()[0] for line in said.splitlines()[3:8]] == [
        "Linear-1", "ReLU-1", "BatchNorm1D-1", "Dropout-1", "Linear-2",
    ]  # fmt: skip
    assert all(layer.training for layer in model.sublayers())
    assert paddle.summary(nn.Embedding(10, 3), (2, 3), dtypes="int64")["total_params"] == 30
    assert paddle.summary(nn.Linear(3, 4), input=paddle.ones([1, 3]))["trainable_params"] == 16
    with pytest.raises(InvalidArgument):
        paddle.summary(model)


def test_the_version_is_that_of_the_release():
    version = paddle.version
    assert version.full_version == paddle.__version__ == ".".join([version.major, version.minor, version.patch])


# Of release 2.6.2: every third of thirty rates.
ONE = [0.04, 0.336312, 0.8594113, 0.994416, 0.9131281, 0.750025, 0.5374113, 0.3173978, 0.1335607, 0.02231138]
THREE = [0.1, 0.4253012, 0.7506024, 0.9240964, 0.5987952, 0.273494, 0.08956269, 0.06719701, 0.04483134, 0.02246567]
CYCLE = [0.1, 0.775, 0.4, 0.55, 0.7, 0.325, 1.0, 0.1, 0.775, 0.4]
HALF = [0.1, 0.775, 0.55, 0.2125, 0.55, 0.2125, 0.2125, 0.26875, 0.1, 0.184375]
EXP = [0.1, 0.592075, 0.3391485, 0.1871696, 0.3541866, 0.1463255, 0.1675426, 0.1738578, 0.1, 0.1392511]
FN = [0.1, 0.26875, 0.1642857, 0.1225, 0.1692308, 0.1140625, 0.1236842, 0.1306818, 0.1, 0.1241071]
TIMES = [0.5, 0.366935, 0.2719783, 0.2036063, 0.153938, 0.1175395, 0.09063407, 0.07057558, 0.05549566, 0.04406477]


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (lambda: schedulers.OneCycleLR(1.0, 30), ONE),
        (lambda: schedulers.OneCycleLR(1.0, 31, 10.0, three_phase=True, anneal_strategy="linear"), THREE),
        (lambda: schedulers.CyclicLR(0.1, 1.0, 4, 3), CYCLE),
        (lambda: schedulers.CyclicLR(0.1, 1.0, 4, None, "triangular2"), HALF),
        (lambda: schedulers.CyclicLR(0.1, 1.0, 4, None, "exp_range", 0.9), EXP),
        (lambda: schedulers.CyclicLR(0.1, 1.0, 4, scale_fn=lambda i: 1 / (i + 1), scale_mode="iterations"), FN),
        (lambda: schedulers.MultiplicativeDecay(0.5, lambda epoch: 0.9 + 0.001 * epoch), TIMES),
    ],
)
def test_rates_are_the_references(make, wanted):
    rate = make()
    seen = []
    for _ in range(30):
        seen.append(rate())
        rate.step()
    assert seen[::3] == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize(
    "make",
    [
        lambda: schedulers.OneCycleLR(1.0, 0),
        lambda: schedulers.OneCycleLR(1.0, 10, phase_pct=0.5, three_phase=True),
        lambda: schedulers.OneCycleLR(1.0, 10, anneal_strategy="cosine"),
        lambda: schedulers.OneCycleLR(1.0, 10).step(12),
        lambda: schedulers.CyclicLR(0.1, 1.0, 0),
        lambda: schedulers.CyclicLR(0.1, 1.0, 4, mode="square"),
        lambda: schedulers.MultiplicativeDecay(1.0, 0.9),
    ],
)
def test_rates_that_cannot_be_are_refused(make):
    with pytest.raises(InvalidArgument):
        make()


# --- what is not there ---


@pytest.mark.parametrize(
    ("module", "name", "says"),
    [
        (paddle, "vision", "no part of this front end"),
        (paddle, "compiler", "no part of this front end"),
        (paddle, "versions", r"did you mean paddle.version\?"),
        (paddle.device, "get_devices", r"did you mean paddle.device.get_device\?"),
        (paddle.core, "EOFExceptions", r"did you mean paddle.core.EOFException\?"),
        (paddle.core, "LodTensor", r"did you mean paddle.core.LoDTensor\?"),
        (fluid, "ParallelExecuter", r"did you mean paddle.fluid.ParallelExecutor\?"),
        (layers, "dynamic_grus", r"did you mean fluid.layers.dynamic_gru\?"),
        (layers, "elementwise_ad", r"did you mean fluid.layers.elementwise_add\?"),
    ],
)
def test_a_hint_is_near_or_there_is_none(module, name, says):
    with pytest.raises(AttributeError, match=says):
        getattr(module, name)


def test_a_data_generator_of_1_x_does_not_pay_for_torch():
    code = """
        from flota.paddle.modules import install; install()
        import sys, paddle.fluid as fluid
        import paddle.fluid.incubate.data_generator
        fluid.core.EOFException
        assert "torch" not in sys.modules
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
