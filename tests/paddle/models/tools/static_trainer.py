"""Trains a model of this folder's siblings in one process, as its config.yaml says.

python tools/static_trainer.py -m wide_deep/config.yaml [-o runner.epochs=1]

A model's folder has static_model.py with a class StaticModel(config): create_feeds() gives the inputs, net(inputs) the
values to fetch by name (the loss is "loss"), create_optimizer(strategy=None) calls minimize, and infer_net(inputs), where
there is one, gives what is served. reader.py is read as runner.reader_type says.
"""

import argparse
import json
import logging
import os
import zlib

import numpy as np
from config import data_files, load_config, load_module

import paddle

logging.basicConfig(format="%(asctime)s - %(levelname)s - %(message)s", level=logging.INFO)
logger = logging.getLogger(__name__)


def first_values(program, scope, place):
    """Gives trained parameters values that follow from their names: the same wherever the program runs."""
    for parameter in program.all_parameters():
        if parameter.trainable:
            random = np.random.RandomState(zlib.crc32(parameter.name.encode()) % 2**31)
            width = 1.0 / np.sqrt(parameter.shape[0])
            value = random.uniform(-width, width, list(parameter.shape)).astype("float32")
            scope.find_var(parameter.name).get_tensor().set(value, place)


def feeds(config, inputs, place):
    """The batches of a pass, as feeds."""
    files = data_files(config, "runner.train_data_dir")
    reader = load_module(config, "reader")
    batch_size = config["runner.train_batch_size"]
    if config["runner.reader_type"] == "DataLoader":
        dataset = reader.RecDataset(files, config)
        loader = paddle.io.DataLoader(dataset, batch_size=batch_size, places=place, drop_last=True)
        return ({variable.name: array for variable, array in zip(inputs, batch)} for batch in loader())
    loader = paddle.io.DataLoader.from_generator(feed_list=inputs, capacity=64, iterable=True)
    loader.set_sample_list_generator(paddle.batch(reader.samples(files, config), batch_size, drop_last=True), place)
    return loader()


def dataset(config, inputs):
    """A data set that reads by a pipe through the model's reader.py."""
    kind = config["runner.reader_type"]
    made = getattr(paddle.distributed, kind)()
    made.init(
        use_var=inputs,
        pipe_command="python %s" % os.path.join(config["folder"], "reader.py"),
        batch_size=config["runner.train_batch_size"],
        thread_num=1,
    )
    made.set_filelist(data_files(config, "runner.train_data_dir"))
    if kind == "InMemoryDataset":
        made.load_into_memory()
    return made


def train(config):
    """Trains, and returns what happened: what was fetched in each step, and the parameters."""
    paddle.seed(config.get("runner.seed", 12345))
    place = paddle.set_device(config.get("runner.device", "cpu"))
    model = load_module(config, config.get("runner.model", "static_model")).StaticModel(config)
    inputs = model.create_feeds()
    fetches = model.net(inputs)
    program, startup = paddle.static.default_main_program(), paddle.static.default_startup_program()
    test_program = program.clone(for_test=True)
    model.create_optimizer()
    exe = paddle.static.Executor(place)
    exe.run(startup)
    first_values(program, paddle.static.global_scope(), place)

    record = {"fetched": {name: [] for name in fetches}}
    names, variables = list(fetches), list(fetches.values())
    from_loader = config["runner.reader_type"] in ("DataLoader", "from_generator")
    for epoch in range(config["runner.epochs"]):
        if from_loader:
            for feed in feeds(config, inputs, place):
                values = exe.run(program, feed=feed, fetch_list=variables)
                model.after_step() if hasattr(model, "after_step") else None
                for name, value in zip(names, values):
                    record["fetched"][name].append(float(np.mean(value)))
                logger.info("epoch %d: %s", epoch, dict(zip(names, [float(np.mean(value)) for value in values])))
        else:
            exe.train_from_dataset(
                program,
                dataset(config, inputs),
                fetch_list=variables,
                fetch_info=names,
                print_period=config.get("runner.print_interval", 10),
                debug=False,
            )
            for name, variable in fetches.items():
                if variable.persistable:
                    value = paddle.static.global_scope().find_var(variable.name).get_tensor()
                    record["fetched"][name].append(float(np.mean(np.array(value))))
        if from_loader:
            record["served"] = served(config, model, inputs, exe, test_program, feed)
    with open(os.path.join(config["folder"], "program.txt"), "w") as file:
        file.write(str(program))
        file.write(test_program.to_string(throw_on_error=False, with_details=True))
    record["parameters"] = {each.name: list(each.shape) for each in program.all_parameters()}
    record["after"] = parameter_values(program)
    return record


def served(config, model, inputs, exe, program, feed):
    """Saves what predicts, and returns what it predicts of a batch once it is loaded."""
    feed = feed[0] if isinstance(feed, (list, tuple)) else feed
    path = os.path.join(config["folder"], "output", "model")
    asked = [each for each in inputs if each.name not in ("label", "click")]
    paddle.static.save_inference_model(path, asked, [model.predict], exe, program=program)
    paddle.static.save(program, os.path.join(config["folder"], "output", "state"))
    with paddle.static.scope_guard(paddle.static.Scope()):
        loaded, names, targets = paddle.static.load_inference_model(path, exe)
        values = exe.run(loaded, feed={name: feed[name] for name in names}, fetch_list=targets)
    return np.array(values[0]).reshape(-1)[:8].tolist()


def parameter_values(program):
    """The sum and the absolute sum of each trained parameter."""
    found = {}
    for parameter in program.all_parameters():
        if parameter.trainable:
            value = np.array(paddle.static.global_scope().find_var(parameter.name).get_tensor())
            found[parameter.name] = [float(value.sum()), float(np.abs(value).sum())]
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-m", "--config_yaml", required=True)
    parser.add_argument("-o", "--opt", nargs="*", default=[])
    parser.add_argument("--record", help="a file for what happened")
    args = parser.parse_args()
    paddle.enable_static()
    record = train(load_config(args.config_yaml, args.opt))
    if args.record:
        with open(args.record, "w") as file:
            json.dump(record, file)


if __name__ == "__main__":
    main()
