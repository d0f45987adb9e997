"""What `flota launch --on kubernetes` renders: valid, whole, the same each time, and without a word of the secret."""

import base64
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from flota import config
from flota.errors import InvalidArgument
from flota.launch import main
from flota.launch.arguments import parse
from flota.launch.kubernetes.credentials import make_contents
from flota.launch.kubernetes.manifest import to_yaml
from flota.launch.kubernetes.objects import objects_of
from flota.launch.kubernetes.settings import settings_of
from flota.roles import PaddleCloudRoleMaker, Role

GOLDEN = Path(__file__).parent / "golden"
FORMS = ["statefulset", "jobset"]
JOB = ["--image=registry.example.com/ads:1", "--server_num=2", "--worker_num=3"]
# Every flag that shows in the objects.
ALL = [
    "--namespace=ml", "--name=ads", "--server_cpu=2", "--server_memory=4Gi", "--worker_cpu=1500m",
    "--worker_memory=8Gi", "--worker_gpus=1", "--storage_class=ssd", "--volume_size=20Gi", "--mount=data:/data:ro",
    "--mount=models:/models", "--env=TZ=UTC", "--env=GREETING=a $(b)=c",
    "--node_selector=pool=train", "--image_pull_policy=Always",
    "--image_pull_secret=registry", "--run_as=1234", "--max_restarts=5", "--timeout=45", "--durable_sync",
    "--snapshot_seconds=60", "--snapshot_mb=512", "--paddle", "--send_script",
]  # fmt: skip


@pytest.fixture(autouse=True)
def nothing_set(tmp_path, monkeypatch):
    for name in (config.SECRET, config.SECRET_FILE, *config.PROTECTION):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print('training')\n")


def settings(*flags, script=("train.py", "--epochs", "3")):
    return settings_of(parse(["--on=kubernetes", *JOB, *flags, *script], "flota launch"))


def rendered(*flags, secret=None, **more):
    """As kubectl would read it."""
    return list(yaml.safe_load_all(to_yaml(objects_of(settings(*flags, **more), secret))))


def of_kind(objects, kind):
    return [thing for thing in objects if thing["kind"] == kind]


def pod_templates(objects):
    """The templates of a server's pod and a worker's, in either form."""
    if sets := of_kind(objects, "JobSet"):
        jobs = {job["name"]: job["template"]["spec"]["template"] for job in sets[0]["spec"]["replicatedJobs"]}
        return [jobs[name] for name in sorted(jobs) if name != "worker"], jobs["worker"]
    server = of_kind(objects, "StatefulSet")[0]["spec"]["template"]
    return [server, server], of_kind(objects, "Job")[0]["spec"]["template"]


def newest_releases(count):
    schemas = pytest.importorskip("kubernetes_validate")
    folder = Path(schemas.__file__).parent / "kubernetes-json-schema"
    found = {re.match(r"v(\d+)\.(\d+)\.", path.name).groups() for path in folder.iterdir()}
    return [".".join(release) for release in sorted(found, key=lambda release: tuple(map(int, release)))[-count:]]


def check(thing):
    """Against the schemas of the three newest releases: of an object that they know, or of the Jobs in a JobSet."""
    import kubernetes_validate

    things = [thing]
    if thing["kind"] == "JobSet":
        jobs = [job["template"] for job in thing["spec"]["replicatedJobs"]]
        things = [{"apiVersion": "batch/v1", "kind": "Job", **job} for job in jobs]
    for release in newest_releases(3):
        for one in things:
            kubernetes_validate.validate(one, release, strict=True)


@pytest.mark.parametrize(
    ("form", "flags"),
    [
        ("statefulset", []),
        ("statefulset", ALL),
        ("statefulset", ["--insecure"]),
        ("statefulset", ["--secret=ads-secret"]),
        ("jobset", ALL),
    ],
    ids=["few", "all", "insecure", "own", "jobset"],
)
def test_three_releases_of_kubernetes_take_every_object(form, flags):
    objects = rendered(f"--form={form}", *flags, secret={"secret": "x" * 32})
    assert len(objects) >= 6
    for thing in objects:
        check(thing)


@pytest.mark.parametrize("change", [lambda spec: spec.update(replica=3), lambda spec: spec.update(replicas="three")])
def test_the_schemas_would_notice(change):
    invalid = pytest.importorskip("kubernetes_validate").ValidationError
    servers = of_kind(rendered(), "StatefulSet")[0]
    change(servers["spec"])
    with pytest.raises(invalid):
        check(servers)


@pytest.mark.parametrize("flags", [[], ALL, ["--no_durable"]], ids=["few", "all", "no_durable"])
def test_a_job_set_has_the_fields_of_its_kind_and_no_others(flags):
    models = pytest.importorskip("kubeflow_trainer_api.models")
    flags = [flag for flag in flags if flag not in ("--storage_class=ssd", "--volume_size=20Gi")]
    thing = of_kind(rendered("--form=jobset", *flags), "JobSet")[0]
    # The models leave out what they do not know, and add what holds where nothing is said.
    known = models.JobsetV1alpha2JobSet.from_dict(thing).to_dict()
    assert lost(thing, known) == []
    thing["spec"]["network"]["subDomain"] = "x"
    assert lost(thing, models.JobsetV1alpha2JobSet.from_dict(thing).to_dict()) == ["/spec/network/subDomain"]


def lost(given, known, path=""):
    """Where something that was given is not known, or is another."""
    if isinstance(given, dict) and isinstance(known, dict):
        return [found for name in given for found in lost(given[name], known.get(name), f"{path}/{name}")]
    if isinstance(given, list) and isinstance(known, list) and len(given) == len(known):
        return [
            found
            for i, (one, other) in enumerate(zip(given, known, strict=True))
            for found in lost(one, other, f"{path}[{i}]")
        ]
    return [] if given == known else [path]


@pytest.mark.parametrize("form", FORMS)
def test_a_job_is_rendered_as_it_was(form):
    text = to_yaml(objects_of(settings(f"--form={form}"), {"secret": "the secret"}))
    golden = GOLDEN / f"kubernetes-{form}.yaml"
    assert text == golden.read_text(), f"if this is meant: write it anew to {golden.name}"


@pytest.mark.parametrize("form", FORMS)
def test_each_pod_finds_its_place_by_what_it_is_told(form, monkeypatch):
    servers, worker = pod_templates(rendered(f"--form={form}"))
    hosts = settings(f"--form={form}").server_hosts
    assert len(set(hosts)) == 2
    for index, template in enumerate(servers):
        place = placement(monkeypatch, template, {"metadata.name": f"train-server-{index}"})
        assert (place.role, place.index, place.worker_num) == (Role.SERVER, index, 3)
        assert list(place.server_endpoints) == [f"{host}:6170" for host in hosts]
    for index in range(3):
        path = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
        place = placement(monkeypatch, worker, {path: str(index)})
        assert (place.role, place.index, place.server_num) == (Role.WORKER, index, 2)


def placement(monkeypatch, template, fields):
    for name, value in environment_of(template, fields).items():
        monkeypatch.setenv(name, value)
    place = PaddleCloudRoleMaker().placement()
    assert config.default_timeout() == 600
    return place


def environment_of(template, fields):
    """As the kubelet makes it: in order, with $(NAME) of what came before, and $$ for $."""
    found = {}
    for entry in template["spec"]["containers"][0]["env"]:
        if "valueFrom" in entry:
            found[entry["name"]] = fields.get(entry["valueFrom"]["fieldRef"]["fieldPath"], "")
        else:
            found[entry["name"]] = re.sub(
                r"\$\$|\$\((\w+)\)", lambda match: found.get(match[1], match[0]) if match[1] else "$", entry["value"]
            )
    return found


def test_what_the_user_writes_comes_to_the_process_as_written():
    _, worker = pod_templates(rendered("--env=A=x$(HOME)y=z", script=("train.py", "$(HOME)", "", "- a: {b}", "yes")))
    assert environment_of(worker, {})["A"] == "x$(HOME)y=z"
    assert worker["spec"]["containers"][0]["args"] == ["train.py", "$$(HOME)", "", "- a: {b}", "yes"]


@pytest.mark.parametrize("form", FORMS)
def test_pods_may_do_no_more_than_they_need(form):
    servers, worker = pod_templates(rendered(f"--form={form}"))
    for template in [*servers, worker]:
        spec, container = template["spec"], template["spec"]["containers"][0]
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
        }  # fmt: skip
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}


def test_servers_are_alive_while_they_recover_and_ready_when_they_serve():
    container = pod_templates(rendered())[0][0]["spec"]["containers"][0]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert set(ports) == {"server", "health"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "health"}
    for probe in ("startupProbe", "livenessProbe"):
        assert container[probe]["httpGet"] == {"path": "/healthz", "port": "health"}


def test_workers_are_made_anew_as_they_are_started_again_elsewhere():
    job = of_kind(rendered("--max_restarts=5"), "Job")[0]["spec"]
    assert (job["completionMode"], job["completions"], job["parallelism"]) == ("Indexed", 3, 3)
    assert job["template"]["spec"]["restartPolicy"] == "Never"
    assert (job["backoffLimitPerIndex"], job["maxFailedIndexes"]) == (5, 0)
    evicted, wrong = job["podFailurePolicy"]["rules"]
    assert (evicted["action"], evicted["onPodConditions"][0]["type"]) == ("Ignore", "DisruptionTarget")
    assert (wrong["action"], wrong["onExitCodes"]["values"]) == ("FailJob", [2, 70])


def test_only_the_job_s_workers_reach_its_servers():
    objects = rendered()
    server, _ = of_kind(objects, "NetworkPolicy")
    traffic, health = server["spec"]["ingress"]
    assert [port["port"] for port in traffic["ports"]] == [6170]
    chosen = traffic["from"][0]["podSelector"]["matchLabels"]
    _, worker = pod_templates(objects)
    assert chosen.items() <= worker["metadata"]["labels"].items()
    assert ("from" in health, [port["port"] for port in health["ports"]]) == (False, [6171])


def test_without_durable_a_dead_server_ends_the_job():
    objects = rendered("--form=jobset", "--no_durable")
    assert of_kind(objects, "PersistentVolumeClaim") == []
    server = of_kind(objects, "JobSet")[0]["spec"]["replicatedJobs"][0]["template"]["spec"]
    assert server["backoffLimit"] == 0
    assert server["podFailurePolicy"]["rules"][0]["action"] == "FailJob"


# --- the secret ---


def dry_run(*flags, script="train.py"):
    command = [sys.executable, "-m", "flota.launch", "--on=kubernetes", *JOB, "--dry-run", *flags, script]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_a_dry_run_shows_no_secret(monkeypatch):
    monkeypatch.setenv(config.SECRET, "this is the job's secret")
    done = dry_run()
    assert done.returncode == 0
    assert "Secret" not in {thing["kind"] for thing in yaml.safe_load_all(done.stdout)}
    assert "the Secret train is left out" in done.stderr
    for text in (done.stdout, done.stderr):
        assert "this is the job's secret" not in text
        assert base64.b64encode(b"this is the job's secret").decode()[:20] not in text


def test_a_dry_run_shows_it_where_it_is_asked_for(monkeypatch):
    monkeypatch.setenv(config.SECRET, "this is the job's secret")
    secret = of_kind(yaml.safe_load_all(dry_run("--with_secret").stdout), "Secret")[0]["data"]
    assert base64.b64decode(secret["secret"]) == b"this is the job's secret"
    assert set(secret) == {
        "secret", "authority.pem", "server.pem", "server.key", "client.pem", "client.key", "client_authority.pem",
    }  # fmt: skip


def test_servers_and_workers_are_given_their_own_keys_alone():
    servers, worker = pod_templates(rendered())
    files = [
        {item["path"] for item in template["spec"]["volumes"][0]["secret"]["items"]}
        for template in (servers[0], worker)
    ]
    assert files[0] == {"secret", "server.pem", "server.key", "client_authority.pem"}
    assert files[1] == {"secret", "authority.pem", "client.pem", "client.key"}


def test_the_secret_is_new_for_each_job():
    made = [make_contents(settings())["secret"] for _ in range(2)]
    assert made[0] != made[1]
    assert min(map(len, made)) >= 32


def test_a_launch_imports_no_torch():
    """It starts at once."""
    code = (
        "import sys; from flota.launch import main; status = main(sys.argv[1:]); "
        "sys.exit(status or ('torch' in sys.modules))"
    )
    command = [sys.executable, "-c", code, "--on=kubernetes", *JOB, "--dry-run", "--with_secret", "train.py"]
    assert subprocess.run(command, capture_output=True, timeout=60).returncode == 0


# --- refusals ---


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--image="], "--image: say which image has the script, its packages and flota (deploy/Dockerfile)"),
        (["--form=jobsets"], "--form=jobsets: did you mean jobset?"),
        (["--image_pull_policy=always"], "--image_pull_policy=always: did you mean Always?"),
        (["--name=Ads"], "--name=Ads: at most 40 small letters, digits and dashes"),
        (["--name=" + "a" * 41], "at most 40 small letters"),
        (["--namespace=a_b"], "--namespace=a_b: at most 40 small letters"),
        (["--server_num=0"], "--server_num=0: from 1 to 1000"),
        (["--worker_num="], "--worker_num: say how many"),
        (["--server_memory=4"], "--server_memory=4 would be 4 bytes: write 4Gi or 4Mi"),
        (["--server_memory=4GB"], "--server_memory=4GB: bytes such as 512Mi or 4Gi"),
        (["--worker_cpu=0"], "--worker_cpu=0: cores such as 2, 0.5 or 500m"),
        (["--worker_cpu=0.5m"], "--worker_cpu=0.5m: cores such as"),
        (["--env=FLOTA_SECRET=0123456789abcdef"], "--env=FLOTA_SECRET: say it by --secret, or set it where you launch"),
        (["--env=POD_IP=1.2.3.4"], "--env=POD_IP: every pod of the job is told its own"),
        (["--env=A"], "--env=A: write --env NAME=VALUE, once for each"),
        (["--env=A=1", "--env=A=2"], "--env: A is given twice"),
        (["--mount=data"], "--mount=data: write CLAIM:/path, or CLAIM:/path:ro"),
        (["--mount=data:/run/flota/x"], "--mount=data:/run/flota/x: /run/flota/x is the job's own in every pod"),
        (["--mount=data:/d", "--mount=b:/d"], "--mount=b:/d: /d is taken already"),
        (["--run_as=0"], "--run_as=0: the number of a user that is not root"),
        (["--no_durable"], "--no_durable needs --form jobset"),
        (["--form=jobset", "--no_durable", "--volume_size=1Gi"], "--no_durable has none"),
        (["--with_secret"], "--with_secret says what --dry_run prints"),
        (["--dry_run", "--detach"], "--detach is about a job that runs, and --dry_run starts none"),
        (["--detach", "--keep_durable"], "after --detach, nothing removes the volumes"),
        (["--secret=s", "--certs=c"], "--certs and --secret contradict each other"),
        (["--insecure", "--certs=c"], "--certs and --insecure contradict each other"),
        (["--dry_run", "--with_secret", "--certs=nowhere"], "nowhere has no server.pem"),
        (["--log_dir=x"], "--log_dir=x does nothing under --on kubernetes"),
        (["--gpus=0"], "--gpus=0 does nothing under --on kubernetes"),
    ],
)
def test_what_cannot_be_rendered_is_refused(flags, said, capsys):
    # The last of a flag that is given twice would be refused, too: only what is not given comes from JOB.
    names = {flag.partition("=")[0] for flag in flags}
    job = [flag for flag in JOB if flag.partition("=")[0] not in names]
    assert main(["--on=kubernetes", *job, *flags, "train.py"]) == 2
    assert said in capsys.readouterr().err


def test_a_flag_of_another_engine_is_refused(capsys):
    assert main(["--image=x", "train.py"]) == 2
    assert "--image=x: it is for --on kubernetes, not --on local" in capsys.readouterr().err


def test_a_value_of_the_environment_is_in_no_error(capsys):
    assert main(["--on=kubernetes", *JOB, "--env=TOKEN-X=hunter2", "train.py"]) == 2
    said = capsys.readouterr().err
    assert "--env=TOKEN-X: write --env NAME=VALUE" in said
    assert "hunter2" not in said


@pytest.mark.parametrize(
    ("script", "name"), [("wide_and_deep.py", "wide-and-deep"), ("src/Train.PY", "train"), ("a" * 60 + ".py", "a" * 40)]
)
def test_a_job_is_named_after_its_script(script, name):
    assert settings(script=(script,)).name == name


def test_a_script_that_gives_no_name_needs_one(capsys):
    assert main(["--on=kubernetes", *JOB, "2024.py"]) == 2
    assert "--name: 2024.py gives the job no name that Kubernetes takes; say one" in capsys.readouterr().err


# --- metrics ---


@pytest.mark.parametrize("form", FORMS)
def test_metrics_are_told_at_one_port_of_every_pod(form):
    objects = rendered("--metrics_port=9300", f"--form={form}")
    for thing in objects:
        check(thing)
    servers, worker = pod_templates(objects)
    for pod in [*servers, worker]:
        assert pod["metadata"]["annotations"] == {
            "prometheus.io/scrape": "true", "prometheus.io/port": "9300", "prometheus.io/path": "/metrics"
        }  # fmt: skip
        (container,) = pod["spec"]["containers"]
        assert {"name": "metrics", "containerPort": 9300} in container["ports"]
        told = {entry["name"]: entry for entry in container["env"]}
        assert told["FLOTA_METRICS_PORT"]["value"] == "9300"
        assert told["FLOTA_METRICS_HOST"]["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP"
    for policy in of_kind(objects, "NetworkPolicy"):
        assert {"ports": [{"protocol": "TCP", "port": 9300}]} in policy["spec"]["ingress"]


@pytest.mark.parametrize("form", FORMS)
def test_nobody_is_let_in_to_metrics_that_nobody_asked_for(form):
    text = to_yaml(objects_of(settings(f"--form={form}"), None))
    assert "METRICS" not in text
    assert "prometheus.io" not in text


@pytest.mark.parametrize("port", [6170, 6171])
def test_a_port_of_the_pods_is_none_for_metrics(port):
    with pytest.raises(InvalidArgument, match=f"--metrics_port={port} is a port of the pods already"):
        settings(f"--metrics_port={port}")


def test_lines_of_pods_are_as_they_are_here(monkeypatch):
    monkeypatch.setenv("FLOTA_LOG_FORMAT", "json")
    monkeypatch.setenv("FLOTA_LOG_LEVEL", "warning")
    for pod in pod_templates(rendered())[0]:
        told = {entry["name"]: entry.get("value") for entry in pod["spec"]["containers"][0]["env"]}
        assert (told["FLOTA_LOG_FORMAT"], told["FLOTA_LOG_LEVEL"]) == ("json", "warning")
