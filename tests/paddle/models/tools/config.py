"""What a model's config.yaml says, and the model and reader beside it."""

import importlib.util
import os
import sys


def _value(text):
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        return [_value(each) for each in text[1:-1].split(",") if each.strip()]
    if text[:1] in ("'", '"'):
        return text[1:-1]
    if text.lower() in ("true", "false", "", "null"):
        return {"true": True, "false": False}.get(text.lower())
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def load_yaml(path):
    """The scalars and lists in one line of a yaml file, by their path: {"runner.epochs": 2}."""
    found, above = {}, []  # above: (indent, key) of the lines that this one is within
    with open(path) as file:
        for line in file:
            line = line.split(" #")[0].rstrip()
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            indent = len(line) - len(line.lstrip())
            key, _, rest = line.strip().partition(":")
            above = [each for each in above if each[0] < indent]
            if rest.strip():
                found[".".join([name for _, name in above] + [key])] = _value(rest)
            else:
                above.append((indent, key))
    return found


def load_config(path, options=()):
    """The file's settings; ``options`` ("runner.epochs=1") go before them."""
    config = load_yaml(path)
    for option in options:
        key, _, text = option.partition("=")
        if key not in config:
            raise KeyError("%s has no %s" % (path, key))
        config[key] = _value(text)
    config["folder"] = os.path.dirname(os.path.abspath(path))
    return config


def load_module(config, name):
    """The model's own file of this name: all models' are called the same, so not by ``import``."""
    path = os.path.join(config["folder"], name + ".py")
    spec = importlib.util.spec_from_file_location("%s_%s" % (os.path.basename(config["folder"]), name), path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, config["folder"])
    sys.modules.pop("net", None)  # static_model.py imports it, and another model has been here
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(config["folder"])
    return module


def data_files(config, key):
    folder = os.path.join(config["folder"], config[key])
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
