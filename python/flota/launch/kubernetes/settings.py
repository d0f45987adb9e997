"""What a job on Kubernetes is, from the command line: whole and checked, so that rendering it cannot fail."""

from __future__ import annotations

import math
from dataclasses import dataclass

from flota import config
from flota.errors import InvalidArgument
from flota.launch.arguments import Arguments
from flota.launch.kubernetes import values
from flota.launch.kubernetes.values import Mount, Resources

FORMS = ("statefulset", "jobset")
PULL_POLICIES = ("Always", "IfNotPresent", "Never")

MOST_SERVERS = 1000
MOST_WORKERS = 10_000  # of an Indexed Job that counts failures by index
SERVER_PORT = 6170
HEALTH_PORT = 6171
# Peers may be away for so long: pods are scheduled, images pulled, and a node that fails is noticed after minutes.
TIMEOUT = 600


@dataclass(frozen=True)
class Settings:
    """A job, whole and checked."""

    name: str
    namespace: str  # "": that of the kubectl context
    context: str  # "": kubectl's current one
    form: str
    image: str
    pull_policy: str  # "": the cluster's default
    pull_secret: str
    server_num: int
    worker_num: int
    server: Resources
    worker: Resources
    script: str
    script_args: tuple[str, ...]
    script_text: str | None  # sent with the job, if it is not the image's
    paddle: bool
    env: tuple[tuple[str, str], ...]
    mounts: tuple[Mount, ...]
    node_selector: tuple[tuple[str, str], ...]
    user: int
    secret: str  # one that is there already
    insecure: bool
    certs: str
    durable: bool
    durable_sync: bool
    keep_durable: bool
    snapshot_seconds: float | None
    snapshot_mb: float | None
    storage_class: str
    volume_size: str
    max_restarts: int
    metrics_port: int | None  # of every pod
    grace: int
    resume: bool
    detach: bool
    dry_run: bool
    with_secret: bool

    @property
    def jobset(self) -> bool:
        return self.form == "jobset"

    @property
    def secret_name(self) -> str:
        return self.secret or self.name

    def server_host(self, index: int) -> str:
        """A server's name on the network. Without the namespace, since all of the job is in one, and without the
        cluster's domain, which differs: the pods' search list adds both."""
        if self.jobset:
            return f"{self.name}-server-{index}-0-0.{self.name}"
        return f"{self.name}-server-{index}.{self.name}-server"

    @property
    def server_hosts(self) -> list[str]:
        return [self.server_host(index) for index in range(self.server_num)]


def settings_of(arguments: Arguments) -> Settings:
    """Requires: ``arguments`` are those of ``--on kubernetes``. Raises InvalidArgument for what cannot be rendered."""
    own = arguments.own
    form = values.one_of("--form", own["form"] or FORMS[0], FORMS)
    insecure, certs = _protection(arguments)
    _check_flags_together(arguments, form)
    name = values.job_name("--name", own["name"]) if own["name"] else values.name_of(arguments.training_script)
    return Settings(
        name=name,
        namespace=values.optional(values.job_name, "--namespace", own["namespace"]),
        context=own["context"] or "",
        form=form,
        image=values.image(own["image"]),
        pull_policy=values.one_of("--image_pull_policy", own["image_pull_policy"] or "", ("", *PULL_POLICIES)),
        pull_secret=values.optional(values.object_name, "--image_pull_secret", own["image_pull_secret"]),
        server_num=values.number("--server_num", arguments.server_num, MOST_SERVERS),
        worker_num=values.number("--worker_num", arguments.worker_num, MOST_WORKERS),
        server=values.resources("server", own),
        worker=values.resources("worker", own),
        script=arguments.training_script,
        script_args=tuple(arguments.training_script_args),
        script_text=values.script_text(arguments.training_script) if own["send_script"] else None,
        paddle=arguments.paddle,
        env=values.variables(own["env"] or ()),
        mounts=values.mounts(own["mount"] or ()),
        node_selector=values.pairs("--node_selector", own["node_selector"] or (), values.LABEL),
        user=values.DEFAULT_USER if own["run_as"] is None else values.user(own["run_as"]),
        secret=values.optional(values.object_name, "--secret", own["secret"]),
        insecure=insecure,
        certs=certs,
        durable=not arguments.no_durable,
        durable_sync=arguments.durable_sync,
        keep_durable=arguments.keep_durable,
        snapshot_seconds=arguments.snapshot_seconds,
        snapshot_mb=arguments.snapshot_mb,
        storage_class=values.optional(values.object_name, "--storage_class", own["storage_class"]),
        volume_size=values.amount("--volume_size", own["volume_size"] or values.DEFAULT_VOLUME),
        max_restarts=arguments.max_restarts,
        metrics_port=_metrics_port(arguments),
        grace=math.ceil(arguments.timeout),
        resume=arguments.resume,
        detach=own["detach"],
        dry_run=own["dry_run"],
        with_secret=own["with_secret"],
    )


def _check_flags_together(arguments: Arguments, form: str) -> None:
    own = arguments.own
    if not arguments.training_script:
        raise InvalidArgument("--resume needs the script and its arguments here: they are rendered anew, and compared")
    if arguments.no_durable and form != "jobset":
        raise InvalidArgument(
            "--no_durable needs --form jobset: a StatefulSet would start a dead server again, empty, and the job would "
            "go on without its rows"
        )
    if arguments.no_durable and (own["storage_class"] or own["volume_size"]):
        raise InvalidArgument("--storage_class and --volume_size are of the servers' volumes: --no_durable has none")
    if own["with_secret"] and not own["dry_run"]:
        raise InvalidArgument("--with_secret says what --dry_run prints: give both, or neither")
    if own["with_secret"] and own["secret"]:
        raise InvalidArgument("--with_secret prints a Secret that is made here, and --secret names one that is there")
    for name, given in (("detach", own["detach"]), ("keep_durable", arguments.keep_durable)):
        if own["dry_run"] and given:
            raise InvalidArgument(f"--{name} is about a job that runs, and --dry_run starts none")
    if own["detach"] and arguments.keep_durable:
        raise InvalidArgument("--keep_durable: after --detach, nothing removes the volumes but `flota stop --volumes`")


def _metrics_port(arguments: Arguments) -> int | None:
    """Every pod has an address of its own, so that all of them tell their metrics at the same port."""
    if arguments.metrics_port in (SERVER_PORT, HEALTH_PORT):
        raise InvalidArgument(f"--metrics_port={arguments.metrics_port} is a port of the pods already; take another")
    return arguments.metrics_port


def _protection(arguments: Arguments) -> tuple[bool, str]:
    """Whether traffic is in the clear, and the folder of certificates that the user has; flags win."""
    if arguments.certs and arguments.insecure:
        raise InvalidArgument("--certs and --insecure contradict each other: with certificates there is TLS")
    if arguments.own["secret"] and arguments.certs:
        raise InvalidArgument("--certs and --secret contradict each other: the Secret has the certificates, too")
    if arguments.insecure or arguments.certs or arguments.own["secret"]:
        return arguments.insecure, arguments.certs
    if files := config.tls_files():
        raise InvalidArgument(f"{next(iter(files))} names a single file; a job on Kubernetes takes a set: --certs DIR")
    return config.insecure(), config.certs_folder()
