"""Habits of scripts: looking into programs, debugging them, and names that releases have in a second place."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch

import flota.paddle as paddle
from flota.errors import InvalidArgument
from flota.paddle.graph.dumping import dumper
from flota.paddle.jagged import Jagged
from flota.paddle.ops.registry import OPERATIONS
from flota.paddle.tensor import Tensor

static = paddle.static


pytestmark = pytest.mark.usefixtures("program")


def run(source):
    """A script of its own process, where ``import paddle`` is flota's."""
    code = "from flota.paddle.modules import install; install()\n" + textwrap.dedent(source)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def started():
    executor = static.Executor()
    executor.run(static.default_startup_program())
    return executor


def trained():
    """One linear layer and what trains it."""
    x = static.data("x", [None, 2])
    loss = paddle.mean(static.nn.fc(x, 1, name="out"))
    return loss, paddle.optimizer.Adam(0.1).minimize(loss)


# --- _fleet_opt ---


def test_a_debugger_writes_each_samples_fields_and_parameters(program, tmp_path):
    x = static.data("x", [None, 2])
    static.data("ids", [None, 1], "int64", lod_level=1)
    weight = program.global_block().create_var("weight", [2], persistable=True)
    program._fleet_opt = {
        "dump_fields": [x.name, "ids"],
        "dump_param": [weight.name],
        "dump_fields_path": str(tmp_path),
    }
    scope = static.global_scope()
    scope.var("weight").get_tensor().set(np.array([0.5, 1.0], "float32"))
    with dumper(program, 3) as writer:
        assert writer.names == ["x", "ids"]
        ids = Jagged(torch.tensor([[7], [8], [9]]), torch.tensor([0, 1, 3]))
        writer.write([torch.tensor([[1.0, 2.5], [0.1, -3.0]]), ids], scope)
    assert (tmp_path / "part-003-00000").read_text().splitlines() == [
        "x:2:1:2.5\tids:1:7",
        "x:2:0.100000001:-3\tids:2:8:9",
        "(0,weight):0.5:1",
    ]


def test_what_is_dumped_is_thinned_spread_and_converted(program, tmp_path):
    static.data("x", [None, 1])
    program._fleet_opt = {
        "dump_fields": ["x"], "dump_fields_path": str(tmp_path), "dump_file_num": 2, "dump_converter": "sed s/x/y/",
        "enable_random_dump": True, "dump_interval": 5, "dump_num_decimals": 1,
    }  # fmt: skip
    with dumper(program, 0) as writer:
        for _ in range(4):
            writer.write([torch.ones(10, 1)], static.global_scope())
    for part in ("part-000-00000", "part-000-00001"):
        assert (tmp_path / part).read_text() == "y:1:1.0\n" * 4


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"dump_field": ["x"]}, "did you mean dump_fields"),
        ({"dump_fields": ["x"]}, "where to write to"),
        ({"dump_fields_path": "out"}, "says what to write"),
        ({"dump_fields": ["x"], "dump_fields_path": "hdfs:/out"}, "a folder of this host"),
        ({"dump_fields": ["x"], "dump_fields_path": "out", "dump_interval": 3}, "give both or none"),
        ({"mpi_rank": 3}, "fleet.init says"),
        ({"trainer": "HeterXpuTrainer"}, "would have no effect"),
        ({"use_cvm": True}, "continuous_value_model"),
    ],
)
def test_options_of_a_program_act_or_are_refused(program, options, says):
    with pytest.raises(InvalidArgument, match=says):
        program._fleet_opt = options
    assert program._fleet_opt is None


def test_options_that_are_so_anyway_are_taken_and_fields_are_checked(program, tmp_path):
    program._fleet_opt = {"trainer": "DistMultiTrainer", "device_worker": "DownpourSGD"}
    assert dumper(program, 0) is None
    loss = paddle.mean(static.data("x", [None, 1]))
    for name, says in (("z", "no variable 'z'"), (loss.name, "no row for each sample")):
        program._fleet_opt = {"dump_fields": [name], "dump_fields_path": str(tmp_path)}
        with pytest.raises(InvalidArgument, match=says):
            dumper(program, 0)
    program._fleet_opt = None
    assert program._fleet_opt is None


# --- looking into programs ---


def test_scripts_look_into_operations_and_variables(program):
    loss, (operations, pairs) = trained()
    assert operations == []
    names = [(p.name, g.name, g.shape) for p, g in pairs]
    assert names == [("out.w_0", "out.w_0@GRAD", (2, 1)), ("out.b_0", "out.b_0@GRAD", (1,))]
    last = program.global_block().ops[-1]
    assert last.input("X") == last.input("x") == last.input_arg_names
    assert last.output("Out") == [loss.name]
    assert last.output_names == ["Out"]
    assert not set(last.attr_names) & set(last.input_names)
    assert last.all_attrs() == {name: last.attr(name) for name in last.attr_names}
    with pytest.raises(InvalidArgument, match="it has x"):
        last.input("Y")
    assert loss.grad_name == f"{loss.name}@GRAD"
    assert loss.type == paddle.framework.core.VarDesc.VarType.LOD_TENSOR
    assert set(program.global_block().vars) == {each.name for each in program.list_vars()}


def test_blocks_make_variables_and_parameters_and_refuse_descriptions(program):
    block = program.global_block()
    kept = block.create_var(name="kept", shape=[2], dtype="float32", persistable=True)
    weight = block.create_parameter(shape=[2], dtype="float32", name="w", initializer=paddle.nn.initializer.Constant(3))
    executor = started()
    static.global_scope().var("kept").get_tensor().set(np.array([1, 2], "float32"))
    assert executor.run(fetch_list=[kept * weight])[0].tolist() == [3, 6]
    with pytest.raises(InvalidArgument, match=r"paddle.add\(x, y\)"):
        block.append_op(type="elementwise_add", inputs={}, outputs={})
    with pytest.raises(AttributeError, match=r"str\(program\)"):
        program.desc.serialize_to_string()


def test_a_scopes_tensors_answer_as_scripts_ask():
    trained()
    started()
    tensor = static.global_scope().find_var("out.w_0").get_tensor()
    assert (tensor._get_dims(), tensor._dtype(), tensor._is_initialized()) == ([2, 1], paddle.float32, True)
    assert (tensor.lod(), tensor.recursive_sequence_lengths()) == ([], [])
    tensor.set_lod([])
    with pytest.raises(InvalidArgument, match="feed them"):
        tensor.set_recursive_sequence_lengths([[1, 1]])


def test_a_programs_state_is_saved_and_brought_back(program, tmp_path):
    trained()
    executor = started()
    feed = {"x": np.ones((3, 2), "float32")}
    executor.run(feed=feed)
    path = str(tmp_path / "state")
    paddle.save(program.state_dict(), path)
    executor.run(feed=feed)
    twice = np.array(program.state_dict("param")["out.w_0"])
    program.set_state_dict(paddle.load(path))
    assert np.array(program.state_dict("param")["out.w_0"]).tolist() != twice.tolist()
    executor.run(feed=feed)
    assert np.array(program.state_dict("param")["out.w_0"]).tolist() == twice.tolist()
    assert set(program.state_dict()) == {*program.state_dict("param"), *program.state_dict("opt")}
    with pytest.raises(InvalidArgument, match="one of all, param, opt"):
        program.state_dict("parameters")
    with pytest.warns(UserWarning, match="not used"):
        program.clone(for_test=True).set_state_dict(paddle.load(path))


# --- jobs ---


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("ProbabilityEntry", (0.0,)), ("ProbabilityEntry", (1.5,)), ("ProbabilityEntry", (1,)),
        ("CountFilterEntry", (-1,)), ("CountFilterEntry", (1.0,)), ("ShowClickEntry", (1, "click")),
    ],
)  # fmt: skip
def test_entries_check_what_they_are_given(kind, arguments):
    with pytest.raises(ValueError, match=kind):
        getattr(paddle.distributed, kind)(*arguments)


def test_every_name_of_fleet_resolves_and_asks_for_init_first():
    said = run(
        """
        import paddle, paddle.distributed as dist
        from paddle.distributed import fleet
        from paddle.distributed.fleet import fleet as same
        names = '''init is_worker is_server is_first_worker worker_index worker_num worker_endpoints server_index
            server_num server_endpoints init_worker init_server run_server stop_worker barrier_worker all_reduce
            distributed_optimizer minimize save save_persistables save_inference_model load_model shrink
            startup_program main_program util metrics utils'''.split()
        assert all(hasattr(fleet, name) and hasattr(same, name) for name in names)
        for ask in (fleet.is_worker, fleet.worker_num, fleet.server_index):
            try:
                ask()
            except ValueError as error:
                assert "init() first" in str(error)
        for ask, says in (
            (fleet.shrink, "init_worker"),
            (lambda: fleet.shrink(0), "from 1 on"),
            (lambda: fleet.minimize(None), "distributed_optimizer"),
        ):
            try:
                ask()
            except ValueError as error:
                assert says in str(error)
        env = dist.ParallelEnv()
        print(dist.get_rank(), dist.get_world_size(), env.local_rank, env.nranks)
        fleet.init()
        print(fleet.worker_index(), dist.get_rank(), env.rank, env.world_size)
        paddle.enable_static()
        x = paddle.static.data("x", [None, 1])
        fleet.distributed_optimizer(paddle.optimizer.SGD(1.0), fleet.DistributedStrategy())
        _, pairs = fleet.minimize(paddle.mean(paddle.static.nn.fc(x, 1)))
        fleet.init_worker()
        paddle.static.Executor().run(feed={"x": [[2.0]]})
        print(*(gradient.name for _, gradient in pairs), *pairs[1][0].get_value().numpy())
        fleet.stop_worker()
        """
    )
    assert said == [*"01010001", "fc_0.w_0@GRAD", "fc_0.b_0@GRAD", "-1.0"]


# --- second places ---


def test_base_and_data_generators_leave_a_script_eager_and_fluid_does_not():
    said = run(
        """
        import paddle
        import paddle.base as base
        import paddle.distributed.fleet.data_generator
        from paddle.framework import ParamAttr, core, in_dynamic_mode
        assert base.Program is paddle.static.Program and core.EOFException and ParamAttr is paddle.ParamAttr
        print(in_dynamic_mode())
        import paddle.fluid
        print(in_dynamic_mode())
        """
    )
    assert said == ["True", "False"]


def test_compiled_programs_run_and_strategies_refuse_what_would_change_results(program):
    x = static.data("x", [None, 2])
    strategy = static.BuildStrategy()
    strategy.fuse_all_optimizer_ops = True
    strategy.reduce_strategy = static.BuildStrategy.ReduceStrategy.AllReduce
    threads = static.ExecutionStrategy()
    threads.num_threads = 4
    total = paddle.sum(x)
    compiled = static.CompiledProgram(program, strategy).with_data_parallel(total.name, exec_strategy=threads)
    assert started().run(compiled, {"x": np.ones((2, 2), "float32")}, [total])[0] == 4
    for name, value, says in (
        ("reduce_strategy", static.BuildStrategy.ReduceStrategy.Reduce, "reduces nothing"),
        ("num_trainers", 2, "launchers start more workers"),
        ("fuse_all_optimizers", True, "did you mean fuse_all_optimizer_ops"),
    ):
        with pytest.raises(InvalidArgument, match=says):
            setattr(strategy, name, value)
    with pytest.raises(InvalidArgument, match=r"call Executor.run as often"):
        threads.num_iteration_per_run = 2


def test_a_function_of_the_script_computes_and_differentiates(program):
    x = static.data("x", [None, 2])
    hidden = static.nn.fc(x, 2, name="out", weight_attr=paddle.nn.initializer.Constant(0.5), bias_attr=False)
    out = program.current_block().create_var(name="cubed", dtype="float32", shape=[-1, 2])
    seen = []
    static.py_func(lambda h: np.array(h) ** 3, hidden, out, lambda h, d: 3 * np.array(h) ** 2 * np.array(d), out)
    static.py_func(lambda h: seen.append(h.shape), hidden, None)
    paddle.optimizer.SGD(1.0).minimize(paddle.sum(out))
    cubed = started().run(feed={"x": np.array([[1, 2]], "float32")}, fetch_list=[out])[0]
    assert cubed.tolist() == [[3.375, 3.375]]
    assert seen == [[1, 2]]
    # 3 h² = 6.75 for each result, times the input's 1 and 2.
    weight = np.array(static.global_scope().find_var("out.w_0").get_tensor())
    assert weight.tolist() == [[-6.25, -6.25], [-13.0, -13.0]]


def test_minimize_in_two_halves(program):
    x = static.data("x", [None, 2])
    loss = paddle.mean(static.nn.fc(x, 1, weight_attr=paddle.ParamAttr(name="w"), bias_attr=False))
    optimizer = paddle.optimizer.SGD(0.5)
    gradients = optimizer.backward(loss)
    assert [(parameter.name, gradient.name) for parameter, gradient in gradients] == [("w", "w@GRAD")]
    assert not program.trainings
    with pytest.raises(InvalidArgument, match="grad_clip"):
        optimizer.apply_gradients([(parameter, gradient * 2.0) for parameter, gradient in gradients])
    optimizer.apply_gradients(gradients)
    executor = started()
    first, second = (executor.run(feed={"x": np.ones((4, 2), "float32")}, fetch_list=["w"])[0] for _ in range(2))
    np.testing.assert_allclose(first - second, 0.5, rtol=1e-6)


def test_a_loader_feeds_the_program_for_tests_too(program):
    x = static.data("x", [None, 2])
    total = paddle.sum(x)
    loader = paddle.io.DataLoader.from_generator(feed_list=[x], capacity=2, iterable=False)
    loader.set_batch_generator(lambda: iter([[np.ones((3, 2), "float32")], [np.ones((1, 2), "float32")]]))
    test = program.clone(for_test=True)
    executor = started()
    loader.start()
    assert [executor.run(test, fetch_list=[total])[0].item() for _ in range(2)] == [6.0, 2.0]
    with pytest.raises(paddle.core.EOFException):
        executor.run(test, fetch_list=[total])
    loader.reset()
    assert executor.run(test, feed={"x": np.zeros((1, 2), "float32")}, fetch_list=[total])[0].item() == 0.0


def test_one_variable_and_gradients_are_fetched():
    x = static.data("x", [None, 2])
    loss = paddle.mean(static.nn.fc(x, 1, weight_attr=paddle.ParamAttr(name="w"), bias_attr=False))
    ids = static.data("ids", [None, 1], "int64")
    rows = static.nn.embedding(ids, [9, 2], is_sparse=True, param_attr=paddle.ParamAttr(name="t"))
    loss = loss + paddle.mean(rows)
    optimizer = paddle.optimizer.SGD(0.5, grad_clip=paddle.nn.ClipGradByValue(0.1))
    optimizer.minimize(loss)
    executor = started()
    feed = {"x": np.array([[1, 2], [3, 6]], "float32"), "ids": np.array([[1], [2]])}
    (alone,) = executor.run(feed=feed, fetch_list=loss)
    assert alone.shape == (1,)
    assert repr([alone]).startswith("[array([")
    gradient, again = executor.run(feed=feed, fetch_list=["w@GRAD", loss])
    np.testing.assert_allclose(gradient, [[2], [4]])  # before it is clipped
    assert again < alone
    with pytest.raises(InvalidArgument, match="'t' is a table"):
        executor.run(feed=feed, fetch_list=["t@GRAD"])
    with pytest.raises(InvalidArgument, match="'x' is no parameter that the program trains"):
        executor.run(feed=feed, fetch_list=["x@GRAD"])


def test_what_is_kept_is_fetched_as_it_is_after_the_step_and_stays_so():
    x = static.data("x", [None, 2])
    loss = paddle.mean(static.nn.fc(x, 1, weight_attr=paddle.ParamAttr(name="w")))
    paddle.optimizer.SGD(0.5).minimize(loss)
    _, _, stats = static.auc(paddle.nn.functional.sigmoid(x), static.data("y", [None, 1], "int64"), slide_steps=3)
    executor = started()
    first = np.array(static.global_scope().find_var("w").get_tensor())
    feed = {"x": np.ones((4, 2), "float32"), "y": np.array([[0], [1], [0], [1]])}
    fetched = [executor.run(feed=feed, fetch_list=["w", stats[0]]) for _ in range(4)]
    for step, (weight, batches) in enumerate(fetched, 1):
        np.testing.assert_allclose(weight, first - 0.5 * step, rtol=1e-6)
        assert batches.sum(1).tolist() == [0] * (3 - step) + [2] * min(step, 3)


@pytest.mark.parametrize("window", [0, 2])
def test_the_area_under_the_curve_in_steps_is_that_of_one_operation(window):
    random = np.random.RandomState(4)
    p, y = static.data("p", [None, 2]), static.data("y", [None, 1], "int64")
    whole, last, _ = static.auc(p, y, num_thresholds=63, slide_steps=window)
    executor = started()
    shape = [max(window, 1), 64]
    counts = [torch.zeros(shape, dtype=torch.int64) for _ in range(2)]
    for _ in range(5):
        clicks = random.rand(50, 2).astype("float32")
        labels = random.randint(0, 2, (50, 1))
        found = executor.run(feed={"p": clicks, "y": labels}, fetch_list=[last, whole])
        before = [each.clone() for each in counts]
        area, *after = OPERATIONS["auc"].kernel(
            torch.from_numpy(clicks), torch.from_numpy(labels), *counts, num_thresholds=63, slide_steps=window
        )
        assert all(torch.equal(*pair) for pair in zip(counts, before, strict=True)), "its input stays as it was"
        counts = after
        assert found[0].item() == pytest.approx(float(area))


def test_a_batch_size_that_a_script_fixes_meets_one_that_is_open():
    size = 3
    x = static.data("x", [None, 4])
    scores = paddle.matmul(x, x, transpose_y=True) * (1 - paddle.eye(size))
    tiled = paddle.tile(static.create_parameter([1, 4, 2], "float32"), [size, 1, 1])
    places = paddle.stack([paddle.arange(size), paddle.argmax(x, 1)], 1)
    made = [x + paddle.ones([size, 4]), scores, paddle.reshape(x, [size, 4]), places, paddle.bmm(x.unsqueeze(1), tiled)]
    assert [each.shape for each in made] == [(3, 4), (3, 3), (3, 4), (3, 2), (3, 1, 2)]
    values = np.arange(12, dtype="float32").reshape(3, 4)
    found = started().run(feed={"x": values}, fetch_list=made)
    np.testing.assert_array_equal(found[0], values + 1)
    np.testing.assert_array_equal(found[1], values @ values.T * (1 - np.eye(3)))
    with pytest.raises(InvalidArgument, match=r"add\(x \[-1, 4\]"):
        x + paddle.ones([size, 5])


def test_a_sequence_of_numbers_has_no_side_of_one(tmp_path):
    ids = static.data("ids", [None], "int64", lod_level=1)
    rows = static.nn.embedding(ids, [9, 5], is_sparse=True)
    pooled = static.nn.sequence_pool(rows, "sum")
    assert (ids.shape, rows.shape, pooled.shape) == ((-1,), (-1, 5), (-1, 5))
    executor = started()
    fed = executor.run(
        feed={"ids": Jagged(torch.tensor([[1], [2], [1]]), torch.tensor([0, 2, 3]))}, fetch_list=[pooled]
    )
    (tmp_path / "part").write_text("2 1 2\n1 1\n")
    dataset = paddle.distributed.QueueDataset()
    dataset.init(batch_size=2, use_var=[ids])
    dataset.set_filelist([str(tmp_path / "part")])
    (batch,) = dataset
    assert batch["ids"].values.shape == (3,)
    np.testing.assert_array_equal(executor.run(feed=batch, fetch_list=[pooled])[0], fed[0])
    (tmp_path / "part").write_text("1 1\n1 2\n")
    (batch,) = dataset
    assert (batch["ids"].values.shape, batch["ids"].one_each()) == ((2,), True)


def test_options_of_a_job_are_a_dictionary_that_scripts_add_to(program, tmp_path):
    trained()
    assert program._fleet_opt is None
    program.trainings[0].optimizer.distributed = True
    options = program._fleet_opt
    options["dump_fields_path"] = str(tmp_path / "dumped")
    options["stat_var_names"] = ["auc_0"]
    with pytest.raises(InvalidArgument, match="says what to write"):
        dumper(program, 0)
    options["dump_fields"] = ["x"]
    with dumper(program, 0) as dump:
        assert dump.names == ["x"]
    program._fleet_opt = {"dump_fields_path": "", "dump_fields": [], "dump_param": []}  # asks for nothing
    assert dumper(program, 0) is None


def test_sequences_that_are_fetched_say_where_they_begin():
    ids = static.data("ids", [None, 1], "int64", lod_level=1)
    fed = Tensor(Jagged(torch.tensor([[1], [2], [3]]), torch.tensor([0, 1, 3])))
    found = started().run(feed={"ids": fed}, fetch_list=[ids + 1], return_numpy=False)[0]
    assert found.lod() == [[0, 1, 3]]
    assert found.recursive_sequence_lengths() == [[1, 2]]
    assert (found.shape, found.dtype, found.numpy().tolist()) == ([3, 1], paddle.int64, [[2], [3], [4]])
    assert "lod=[[0, 1, 3]]" in repr(found)


def test_small_conveniences():
    with paddle.utils.unique_name.guard(b"pre_"):
        assert paddle.utils.unique_name.generate("fc") == "pre_fc_0"
    paddle.utils.require_version("2.0", "2.6.2")
    with pytest.raises(Exception, match=r"needs Paddle 2.7.0 or higher"):
        paddle.utils.require_version("2.7.0")
    spec = static.InputSpec([None, 3], "int64", "x")
    assert repr(spec) == "InputSpec(shape=(-1, 3), dtype=paddle.int64, name=x, stop_gradient=False)"
    assert (spec.batch(4).shape, spec.unbatch() == static.InputSpec([None, 3], "int64", "x")) == ((4, -1, 3), True)
    with pytest.raises(InvalidArgument, match="leave place out"):
        paddle.disable_static(paddle.CUDAPlace(0))
    paddle.disable_static(paddle.CPUPlace())
    assert paddle.in_dynamic_mode()
