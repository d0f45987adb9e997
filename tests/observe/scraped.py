"""What a metrics port says, read as Prometheus reads it."""

import urllib.request

from prometheus_client.parser import text_string_to_metric_families


def get(port, path="/metrics", host="127.0.0.1"):
    with urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=10) as answer:
        return answer.read().decode(), answer.headers


def families(text):
    """By name, with the suffixes that the text has."""
    return {family.name: family for family in text_string_to_metric_families(text)}


def samples(text):
    """By name and labels, without those that say which process it is."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = {name: value for name, value in sample.labels.items() if name not in ("role", "index")}
            key = (sample.name, *sorted(labels.items()))
            assert key not in found, f"{key} is there twice"
            found[key] = sample.value
    return found


def value(text, name, **labels):
    return samples(text)[(name, *sorted(labels.items()))]
