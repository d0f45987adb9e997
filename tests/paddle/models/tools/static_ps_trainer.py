"""Trains a model with servers and workers, as its config.yaml says.

python -m paddle.distributed.launch --server_num=1 --worker_num=2 tools/static_ps_trainer.py -m dcn/config.yaml
"""

import argparse
import json
import logging
import os
import time

import numpy as np
from config import data_files, load_config, load_module

import paddle
import paddle.distributed.fleet as fleet
import paddle.distributed.fleet.base.role_maker as role_maker

logging.basicConfig(format="%(asctime)s - %(levelname)s - %(message)s", level=logging.INFO)
logger = logging.getLogger(__name__)


def get_strategy(config):
    """sync, async, or geo."""
    mode = config["hyper_parameters.optimizer.strategy"]
    strategy = paddle.distributed.fleet.DistributedStrategy()
    if mode == "sync":
        strategy.a_sync = False
    elif mode == "async":
        strategy.a_sync = True
    elif mode == "geo":
        strategy.a_sync = True
        strategy.a_sync_configs = {"k_steps": config["hyper_parameters.optimizer.k_steps"]}
    else:
        raise ValueError("there is no mode %r" % mode)
    return strategy


class Main(object):
    def __init__(self, config):
        self.config = config
        self.train_result = {}

    def run(self):
        fleet.init(role_maker.PaddleCloudRoleMaker())
        self.network()
        if fleet.is_server():
            self.run_server()
        elif fleet.is_worker():
            self.run_worker()
            fleet.stop_worker()
            self.write_result()

    def network(self):
        self.model = load_module(self.config, "static_model").StaticModel(self.config)
        self.input_data = self.model.create_feeds()
        self.metrics = self.model.net(self.input_data)
        self.inference_target_var = self.model.predict
        self.model.create_optimizer(get_strategy(self.config))

    def run_server(self):
        logger.info("run server")
        fleet.init_server()
        fleet.run_server()

    def run_worker(self):
        logger.info("run worker %d of %d", fleet.worker_index(), fleet.worker_num())
        place = paddle.CPUPlace()
        self.exe = paddle.static.Executor(place)
        self.exe.run(paddle.static.default_startup_program())
        fleet.init_worker()

        save_model_path = os.path.join(self.config["folder"], "output")
        if fleet.is_first_worker() and not os.path.exists(save_model_path):
            os.makedirs(save_model_path)
        with open(os.path.join(self.config["folder"], "worker_%d.txt" % fleet.worker_index()), "w") as file:
            file.write(str(paddle.static.default_main_program()))

        files = fleet.util.get_file_shard(data_files(self.config, "runner.train_data_dir"))
        dataset = getattr(paddle.distributed, self.config["runner.reader_type"])()
        dataset.init(
            use_var=self.input_data,
            pipe_command="python %s" % os.path.join(self.config["folder"], "reader.py"),
            batch_size=self.config["runner.train_batch_size"],
            thread_num=1,
        )
        dataset.set_filelist(files)
        if self.config["runner.reader_type"] == "InMemoryDataset":
            dataset.load_into_memory()
            dataset.global_shuffle(fleet)

        areas = []
        for epoch in range(self.config["runner.epochs"]):
            start_time = time.time()
            self.exe.train_from_dataset(
                program=paddle.static.default_main_program(),
                dataset=dataset,
                fetch_list=list(self.metrics.values()),
                fetch_info=["Epoch %d %s" % (epoch, name) for name in self.metrics],
                print_period=self.config["runner.print_interval"],
                debug=False,
            )
            logger.info("epoch %d: %.1f seconds", epoch, time.time() - start_time)
            areas.append(self.area_of_all())
            self.reset_auc()
            if fleet.is_first_worker():
                model_dir = os.path.join(save_model_path, str(epoch))
                fleet.save_persistables(self.exe, model_dir)
                fleet.save_inference_model(
                    self.exe,
                    model_dir + "_inference",
                    [variable.name for variable in self.input_data[:-1]],
                    [self.inference_target_var],
                )
            fleet.barrier_worker()
        self.train_result["auc"] = areas

    def area_of_all(self):
        """The AUC of all workers' samples."""
        scope = paddle.static.global_scope()
        pos, neg = [np.array(scope.find_var(each.name).get_tensor()) for each in self.model.stats[2:]]
        return float(fleet.metrics.auc(pos, neg))

    def reset_auc(self):
        """An epoch's AUC is its own."""
        for var in self.model.stats:
            param = paddle.static.global_scope().var(var.name).get_tensor()
            param.set(np.zeros(param.shape()).astype("int64"), paddle.CPUPlace())

    def write_result(self):
        path = os.path.join(self.config["folder"], "result_%d.json" % fleet.worker_index())
        with open(path, "w") as file:
            json.dump(self.train_result, file)


if __name__ == "__main__":
    paddle.enable_static()
    parser = argparse.ArgumentParser()
    parser.add_argument("-m", "--config_yaml", required=True)
    parser.add_argument("-o", "--opt", nargs="*", default=[])
    args = parser.parse_args()
    Main(load_config(args.config_yaml, args.opt)).run()
