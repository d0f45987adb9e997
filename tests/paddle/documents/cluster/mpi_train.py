"""Document 001's default, MPI: fleet.init() without a role maker, started by mpirun."""

import numpy as np

import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import StrategyFactory

fleet.init()
x = fluid.layers.data(name="x", shape=[4], dtype="float32")
y = fluid.layers.data(name="y", shape=[1], dtype="float32")
cost = fluid.layers.mean(fluid.layers.square_error_cost(input=fluid.layers.fc(input=x, size=1), label=y))
fleet.distributed_optimizer(fluid.optimizer.SGD(learning_rate=0.1), StrategyFactory.create_sync_strategy()).minimize(cost)

if fleet.is_server():
    fleet.init_server()
    print("server %d of %d" % (fleet.server_index(), fleet.server_num()), flush=True)
    fleet.run_server()
else:
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    fleet.init_worker()
    rng = np.random.default_rng(fleet.worker_index())
    for step in range(100):
        values = rng.random((32, 4), dtype="float32")
        target = values.sum(axis=1, keepdims=True)
        loss, = exe.run(fleet.main_program, feed={"x": values, "y": target}, fetch_list=[cost])
    print("worker %d of %d: cost %f" % (fleet.worker_index(), fleet.worker_num(), loss), flush=True)
    fleet.stop_worker()
