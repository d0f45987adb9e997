"""``flota launch --on kubernetes``: renders a job, and prints it or starts it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from flota.errors import InvalidArgument, SystemFailure
from flota.launch.arguments import Arguments
from flota.launch.kubernetes.cluster import JOBSETS, RUNNING, JobFound, look, remove
from flota.launch.kubernetes.credentials import make_contents
from flota.launch.kubernetes.following import Following
from flota.launch.kubernetes.kubectl import Kubectl
from flota.launch.kubernetes.manifest import to_yaml
from flota.launch.kubernetes.objects import JOB_ANNOTATION, job_described, objects_of
from flota.launch.kubernetes.scaling import number_kept
from flota.launch.kubernetes.settings import Settings, settings_of
from flota.launch.saying import say, show
from flota.launch.scaling import workers_text
from flota.launch.signals import Signals


def launch(arguments: Arguments) -> int:
    settings = settings_of(arguments)
    if settings.dry_run:
        return _print(settings)
    kubectl = Kubectl(settings.context, settings.namespace)
    signals = Signals()
    settings = _prepare(settings, kubectl)
    say(f"{'going on with' if settings.resume else 'starting'} the job {settings.name}: {_in_words(settings)}")
    _create(settings, kubectl)
    if settings.detach:
        name = settings.name
        say(f"started; flota status {name}, flota logs {name} worker-0, and in the end flota stop {name}")
        return 0
    return Following(settings, kubectl, signals).run()


def _print(settings: Settings) -> int:
    """What would be applied. The Secret's contents only if asked for: terminals and CI keep what they are shown."""
    shown = make_contents(settings) if settings.with_secret else None
    show(to_yaml(objects_of(settings, shown)).rstrip("\n"))
    if shown is None and not settings.secret:
        keys = "the key secret" if settings.insecure else "the keys secret and, as flota certs names them, certificates"
        show(
            f"flota launch: the Secret {settings.secret_name} is left out: without it no pod starts. It has {keys}; "
            "--with_secret prints it, too, --secret names one that is there",
            error=True,
        )
    return 0


def _in_words(settings: Settings) -> str:
    protection = "in the clear" if settings.insecure else "TLS"
    return f"{settings.server_num} servers, {settings.worker_num} workers, image {settings.image}, {protection}"


def _prepare(settings: Settings, kubectl: Kubectl) -> Settings:
    """Refuses a job that would meet another of its name; what is left of one that has ended is taken away. Returns what
    is to be made: of a job that goes on, with as many workers as it was left with."""
    known = kubectl.has(JOBSETS)
    if settings.jobset and not known:
        raise InvalidArgument(
            "--form=jobset: the cluster knows no JobSets; install them (jobset.sigs.k8s.io), or leave --form out"
        )
    found = look(kubectl, settings.name, jobsets=known)
    if found.state == RUNNING:
        raise InvalidArgument(
            f"a job {settings.name} runs there already: flota status {settings.name}; stop it, or take another --name"
        )
    if settings.resume:
        _check_same(settings, found)
    elif found.volumes:
        raise InvalidArgument(
            f"what servers of a job {settings.name} kept is there still: go on with it (--resume), remove it (flota "
            f"stop {settings.name} --volumes), or take another --name"
        )
    if found.exists:
        # Of a launch that was killed while it made the job, parts.
        say(f"taking away what is left of the job {settings.name} before, which {found.state or 'was not whole'}")
        remove(kubectl, settings.name, jobsets=known, volumes=False)
    return replace(settings, worker_num=_workers(settings, found))


def _workers(settings: Settings, found: JobFound) -> int:
    kept = number_kept(found) if settings.resume else None
    if kept is None or kept == settings.worker_num:
        return settings.worker_num
    say(f"{workers_text(kept)} in place of {settings.worker_num}: so many there were to be (flota scale)")
    return kept


def _check_same(settings: Settings, found: JobFound) -> None:
    if not settings.durable:
        raise InvalidArgument("--no_durable and --resume contradict each other: servers keep something or nothing")
    if not found.volumes:
        raise InvalidArgument(f"there is nothing to resume: no volumes of a job {settings.name} are there")
    if len(found.volumes) != settings.server_num:
        raise InvalidArgument(
            f"--server_num={settings.server_num}: the job {settings.name} has {len(found.volumes)} volumes of servers"
        )
    asked = json.loads(job_described(settings))
    for volume in found.volumes:
        text = volume["metadata"].get("annotations", {}).get(JOB_ANNOTATION, "")
        try:
            was: dict[str, Any] = json.loads(text)
        except ValueError:
            raise InvalidArgument(
                f"the volume {volume['metadata']['name']} does not say whose rows it has ({JOB_ANNOTATION}: {text!r})"
            ) from None
        differs = [name for name in asked if asked[name] != was.get(name)]
        if differs:
            name = differs[0]
            raise InvalidArgument(
                f"--resume: the job {settings.name} was started with {name}={was.get(name)}, and this command has "
                f"{asked[name]}: give what it was started with"
            )


def _create(settings: Settings, kubectl: Kubectl) -> None:
    secret = None if settings.secret else make_contents(settings)
    text = to_yaml(objects_of(settings, secret))
    # Created, not applied: what is there already is somebody else's, and "apply" would keep a copy of the secret in an
    # annotation. By standard input: a file or an argument could be read.
    done = kubectl.tried(["create", "--filename=-", "--output=name"], given=text)
    if done.returncode == 0:
        return
    made = done.stdout.split()
    if made:
        kubectl.tried(["delete", *made, "--ignore-not-found", "--wait=false"])
    reason = "; ".join(line for line in done.stderr.strip().splitlines() if line.strip())
    raise SystemFailure(f"the cluster did not take the job, and what it had taken is removed again: {reason}")
