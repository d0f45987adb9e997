"""Trains the first steps of models, with whichever paddle is installed, and writes what came out.

python steps.py OUT.json MODEL…            (MODEL:eager for a model that is trained without a program)

Parameters begin with values that follow from their names, so that two systems begin with the same.
"""

import json
import os
import sys
import tempfile
import zlib

import numpy as np

import paddle

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "tools")]

import synthetic  # noqa: E402
from config import load_config, load_module  # noqa: E402

STEPS = 20


def first_value(name, shape):
    random = np.random.RandomState(zlib.crc32(name.encode()))
    return random.uniform(-0.4, 0.4, shape).astype("float32")


def loader_of(model, feeds, config, place, folder):
    loader = paddle.io.DataLoader.from_generator(feed_list=feeds, capacity=8, iterable=True, return_list=False)
    reader = load_module(config, "reader")
    files = sorted(os.path.join(folder, name) for name in os.listdir(folder))
    if model != "esmm":
        loader.set_batch_generator(reader.RecDataset(files, config).batches, places=place)
        return loader
    process = reader.ESMMReader().line_process

    def samples():
        for path in files:
            with open(path) as lines:
                for line in lines:
                    ids, ctr, cvr = process(line)
                    yield [*ids.values(), [ctr], [cvr]]

    batched = paddle.batch(samples, config["runner.train_batch_size"], drop_last=True)
    loader.set_sample_list_generator(batched, places=place)
    return loader


def run(model):
    config = load_config(os.path.join(HERE, model, "config.yaml"))
    static_model = load_module(config, "static_model").StaticModel(config)
    feeds = static_model.create_feeds()
    metrics = static_model.net(feeds)
    scheduler = static_model.create_optimizer()

    place = paddle.CPUPlace()
    exe = paddle.static.Executor(place)
    exe.run(paddle.static.default_startup_program())
    program = paddle.static.default_main_program()
    scope = paddle.static.global_scope()
    shapes = {each.name: list(each.shape) for each in program.all_parameters()}
    for each in program.all_parameters():
        if each.trainable and each.name not in config.get("runner.kept", []):
            scope.find_var(each.name).get_tensor().set(first_value(each.name, each.shape), place)
    rows, first = [], None
    with tempfile.TemporaryDirectory() as folder:
        synthetic.write(model, folder)
        for batch in loader_of(model, feeds, config, place, folder)():
            first = first or batch
            values = exe.run(program, feed=batch, fetch_list=list(metrics.values()))
            rows.append([float(np.mean(value)) for value in values])
            if scheduler is not None:
                scheduler.step()
            if len(rows) == STEPS:
                break

        # As trainers infer: another program with the same names.
        infer = paddle.static.Program()
        with paddle.static.program_guard(infer, paddle.static.Program()), paddle.utils.unique_name.guard():
            static_model.infer_net(static_model.create_feeds(is_infer=True))
        targets = static_model.inference_target_var
        targets = targets if isinstance(targets, list) else [targets]
        inferred = exe.run(infer.clone(for_test=True), feed=first, fetch_list=targets)
    return {
        "metrics": list(metrics),
        "steps": rows,
        "parameters": shapes,
        "last": {name: float(np.abs(np.array(scope.find_var(name).get_tensor())).sum()) for name in shapes},
        "inferred": [float(np.mean(value)) for value in inferred],
        "program": str(program),
    }


def run_eagerly(model):
    config = load_config(os.path.join(HERE, model, "config.yaml"))
    parts = load_module(config, "dygraph_model").DygraphModel()
    layer = parts.create_model(config)
    for each in layer.parameters():
        each.set_value(first_value(each.name, each.shape))
    optimizer = parts.create_optimizer(layer, config)
    names, metrics = parts.create_metrics()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        synthetic.write(model, folder)
        files = [os.path.join(folder, name) for name in os.listdir(folder)]
        for batch in load_module(config, "reader").RecDataset(files, config).batches():
            loss, metrics, _ = parts.train_forward(layer, metrics, batch, config)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            rows.append([float(loss.numpy()), *(float(each.accumulate()) for each in metrics)])
            if len(rows) == STEPS:
                break
    last = {each.name: float(np.abs(each.numpy()).sum()) for each in layer.parameters()}
    return {"metrics": ["cost", *names], "steps": rows, "last": last}


def fresh(model):
    guard = paddle.static.program_guard(paddle.static.Program(), paddle.static.Program())
    with paddle.utils.unique_name.guard(), paddle.static.scope_guard(paddle.static.Scope()), guard:
        if not model.endswith(":eager"):
            return run(model)
        paddle.disable_static()
        try:
            return run_eagerly(model.partition(":")[0])
        finally:
            paddle.enable_static()


if __name__ == "__main__":
    paddle.enable_static()
    found = {model: fresh(model) for model in sys.argv[2:]}
    with open(sys.argv[1], "w") as out:
        json.dump(found, out)
