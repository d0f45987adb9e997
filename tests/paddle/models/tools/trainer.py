"""Trains a model without a program: its dygraph_model.py has a class DygraphModel."""

import zlib

import numpy as np
from config import data_files, load_module

import paddle


def train(config):
    """Trains an epoch, and returns what happened, as ``static_trainer.train`` does."""
    model = load_module(config, "dygraph_model").DygraphModel()
    layer = model.create_model(config)
    for parameter in layer.parameters():
        random = np.random.RandomState(zlib.crc32(parameter.name.encode()) % 2**31)
        width = 1.0 / np.sqrt(parameter.shape[0])
        parameter.set_value(random.uniform(-width, width, list(parameter.shape)).astype("float32"))
    optimizer = model.create_optimizer(layer, config)
    names, metrics = model.create_metrics()
    dataset = load_module(config, "reader").RecDataset(data_files(config, "runner.train_data_dir"), config)
    loader = paddle.io.DataLoader(dataset, batch_size=config["runner.train_batch_size"], drop_last=True)

    record = {"fetched": {"loss": []}}
    layer.train()
    for batch in loader:
        loss, metrics, _ = model.train_forward(layer, metrics, batch, config)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        record["fetched"]["loss"].append(float(loss))
    record["fetched"].update({name: [metric.accumulate()] for name, metric in zip(names, metrics)})
    record["parameters"] = {each.name: list(each.shape) for each in layer.parameters()}
    return record
