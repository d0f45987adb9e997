"""Trains models one after the other, each in programs, names and a scope of its own, and writes what happened.

python tools/train_all.py record.json wide_deep wide_deep/dygraph_model dcn dcn/fluid_model
"""

import json
import os
import sys
import traceback

import static_trainer
import trainer
from config import load_config, load_module

import paddle

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def train(config, which):
    """``which``: the model's file, if it is not static_model."""
    with paddle.utils.unique_name.guard():
        if which == "dygraph_model":
            paddle.disable_static()
            return trainer.train(config)
        paddle.enable_static()
        if which:
            config["runner.model"] = which
        guard = paddle.static.program_guard(paddle.static.Program(), paddle.static.Program())
        with paddle.static.scope_guard(paddle.static.Scope()), guard:
            return static_trainer.train(config)


def main():
    records = {}
    for name in sys.argv[2:]:
        model, _, which = name.partition("/")
        config = load_config(os.path.join(HERE, model, "config.yaml"))
        folder = os.path.join(config["folder"], config["runner.train_data_dir"])
        if not os.path.exists(folder):
            os.makedirs(folder)
            load_module(config, "data").write(folder)
        try:
            records[name] = train(config, which)
        except Exception:
            records[name] = {"failed": traceback.format_exc()}
            print(records[name]["failed"], file=sys.stderr)
    with open(sys.argv[1], "w") as file:
        json.dump(records, file, indent=1)


if __name__ == "__main__":
    main()
