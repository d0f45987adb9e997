"""Launches of small scripts, in a folder of their own; nothing that a test started outlives it."""

import sys
import textwrap

import pytest
from kubernetes_cluster import Cluster
from launched import PRELUDE, Launch, clean_environment

from kubernetes_api import KubernetesApi


@pytest.fixture
def cluster(tmp_path):
    with KubernetesApi(tmp_path) as api:
        yield Cluster(tmp_path, api)


@pytest.fixture
def start(tmp_path):
    """Starts ``python -m flota.launch FLAGS train.py``, where train.py is the given text after the prelude."""
    started = []

    def start(script, *flags, module="flota.launch", arguments=(), **settings):
        command = [sys.executable, "-m", *module.split(), *flags]
        if script is not None:  # a launch that goes on with a job needs none
            (tmp_path / "train.py").write_text(PRELUDE + textwrap.dedent(script))
            command += ["train.py", *arguments]
        launch = Launch(tmp_path, command, clean_environment(**settings))
        started.append(launch)
        return launch

    yield start
    for launch in started:
        launch.clean_up()
