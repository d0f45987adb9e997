"""What the page on Kubernetes has readers do with kubectl, done with an API server that keeps objects."""

import shutil

import pytest
from blocks import blocks_of
from checked import ON_CLUSTER
from running import run_page

from kubernetes_api import KubernetesApi

pytestmark = pytest.mark.skipif(
    shutil.which("kubectl") is None, reason="not installed: kubectl (make cluster-tests installs it)"
)
PAGE = "docs/clusters/kubernetes.md"


def test_kubectl_takes_what_the_page_gives_it(tmp_path):
    blocks = [block for block in blocks_of(PAGE) if (PAGE, block.first_line) in ON_CLUSTER]
    assert len(blocks) == len(ON_CLUSTER)
    with KubernetesApi(tmp_path) as api:
        # Beside the API server, which is in this process: not cut off from it.
        run_page(blocks, tmp_path, files={"train.py": "print()"}, cut_off=False, KUBECONFIG=str(api.kubeconfig))
        made = sorted(api.objects)
    assert ("statefulsets", "train-server") in made
    assert ("jobs", "train-worker") in made
    assert ("secrets", "train") in made
