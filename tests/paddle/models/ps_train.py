"""Trains a model with servers, as its config.yaml says: flota launch --paddle … ps_train.py MODEL MODE DATA

Workers read their files through the model's reader.py, and print what came of each epoch.
"""

import glob
import os
import sys

import numpy as np

import paddle
import paddle.distributed.fleet as fleet

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "tools"))

from config import load_config, load_module  # noqa: E402


def get_strategy(mode):
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = mode != "sync"
    if mode == "geo":
        strategy.a_sync_configs = {"k_steps": 4}
    return strategy


class Main:
    def __init__(self, model, mode, data):
        self.config = load_config(os.path.join(HERE, model, "config.yaml"))
        self.config["hyper_parameters.distributed_embedding"] = True
        self.mode, self.data = mode, data

    def run(self):
        fleet.init()
        self.network()
        if fleet.is_server():
            fleet.init_server()
            fleet.run_server()
        else:
            self.run_worker()
            fleet.stop_worker()

    def network(self):
        self.model = load_module(self.config, "static_model").StaticModel(self.config)
        self.inputs = self.model.create_feeds()
        self.metrics = self.model.net(self.inputs)
        self.model.create_optimizer(get_strategy(self.mode))

    def dataset(self):
        dataset = paddle.distributed.QueueDataset()
        reader = os.path.join(self.config["folder"], "reader.py")
        dataset.init(
            use_var=self.inputs,
            pipe_command="%s %s" % (sys.executable, reader),
            batch_size=self.config["runner.train_batch_size"],
            thread_num=1,
        )
        files = sorted(glob.glob(os.path.join(self.data, "*")))
        # In sync mode the data set shares the files out by itself.
        dataset.set_filelist(files if self.mode == "sync" else fleet.util.get_file_shard(files))
        return dataset

    def run_worker(self):
        exe = paddle.static.Executor(paddle.CPUPlace())
        exe.run(paddle.static.default_startup_program())
        fleet.init_worker()
        for epoch in range(4):
            exe.train_from_dataset(
                paddle.static.default_main_program(),
                self.dataset(),
                fetch_list=list(self.metrics.values()),
                fetch_info=list(self.metrics),
                print_period=self.config["runner.print_interval"],
                debug=False,
            )
            seen = paddle.static.global_scope().find_var("samples_seen").get_tensor()
            print("epoch %d: %d samples" % (epoch, np.array(seen)[0]), flush=True)
        if fleet.is_first_worker():
            target = self.model.inference_target_var
            fleet.save_inference_model(exe, "saved_model", [each.name for each in self.inputs[:-2]], target)
        with open("program_%d.txt" % fleet.worker_index(), "w") as text:
            text.write(str(paddle.static.default_main_program()))
            text.write(str(paddle.static.default_startup_program()))


if __name__ == "__main__":
    paddle.enable_static()
    Main(*sys.argv[1:]).run()
