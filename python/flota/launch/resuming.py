"""A launch that goes on with an earlier one's job: what the command line leaves out is as it was."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from flota import config
from flota.errors import InvalidArgument
from flota.launch.arguments import Arguments
from flota.launch.engines import ENGINES, LOCAL
from flota.launch.hosts import split
from flota.launch.plan import Plan, make_plan
from flota.launch.record import RUNNING, Record
from flota.launch.turns import with_workers

# Where processes run, how servers keep what they have and how long. Not part of it: what is this launch's alone, as its
# view.
_TAKEN_OVER = {
    "gpus": str, "ips": str, "servers": str, "workers": str, "paddle": bool, "durable_sync": bool,
    "snapshot_seconds": float, "snapshot_mb": float, "keep_durable": bool,
}  # fmt: skip
_PLACES = ("ips", "servers", "workers")


def _folder(arguments: Arguments) -> Path:
    folder = Path(arguments.durable or config.durable_folder() or Path(arguments.log_dir) / "durable")
    if folder.name in ("", ".."):  # others beside it are named after it
        folder = Path(os.path.abspath(folder))
    if not folder.name:
        raise InvalidArgument(f"--durable={folder}: name a folder for this alone")
    return folder


def durable_place(plan: Plan, suffix: str = "") -> Path:
    """The folder that this host's part of the job can be resumed from.

    Hosts of one job may see one file system: each has a folder of its own, named after it.
    """
    folder = _folder(plan.arguments)
    return folder.with_name(folder.name + suffix + ("" if plan.alone else f"-{plan.members[0].endpoint.address}"))


def new_record(asked: Arguments, plan: Plan) -> Record:
    """``asked``: the arguments as they were given; those of the plan have places filled in that may be others next
    time."""
    return Record(
        script=asked.training_script,
        script_args=asked.training_script_args,
        server_num=len(plan.servers),
        worker_num=len(plan.workers),
        began_with=len(plan.workers),
        flags={name: getattr(asked, name) for name in _TAKEN_OVER if getattr(asked, name)},
        folder=str(Path.cwd()),
        started=datetime.now().astimezone().isoformat(timespec="seconds"),
    )


def resumed_record(record: Record, asked: Arguments, plan: Plan) -> Record:
    """Every process of this host is started once more. What is said now holds from now on."""
    again = {member.name: record.restarts.get(member.name, 0) + 1 for member in plan.members}
    flags = _flags_in_effect(asked, record)
    began_with = len(plan.first_workers) or record.first_workers
    return replace(record, state=RUNNING, restarts={**record.restarts, **again}, flags=flags, began_with=began_with)


def _flags_in_effect(asked: Arguments, record: Record) -> dict[str, Any]:
    """Those of the job, where nothing else is said now; of places, one says all."""
    now = {name: getattr(asked, name) for name in _TAKEN_OVER if getattr(asked, name)}
    elsewhere = any(name in now for name in _PLACES)
    before = {name: value for name, value in record.flags.items() if not (elsewhere and name in _PLACES)}
    return {**before, **now}


def resumed_plan(arguments: Arguments, record: Record, where: Path) -> Plan:
    """The plan of the job on this host, or these hosts, which go on with it: with as many workers as there were to be,
    where they would have been."""
    resumed = resumed_arguments(arguments, record, where)
    began = make_plan(replace(resumed, worker_num=len(split(resumed.workers)) or record.first_workers))
    return began if len(began.workers) == record.worker_num else with_workers(began, record.worker_num)


def resumed_arguments(arguments: Arguments, record: Record, where: Path) -> Arguments:
    """What is said now, and else what was; refused where the two contradict."""
    _refuse_contradictions(arguments, record, where)
    if ENGINES[arguments.on].has_script and not Path(record.script).is_file():
        raise InvalidArgument(f"the job's script {record.script} is not there (in {record.folder})")
    for name, value in record.flags.items():
        if name not in _TAKEN_OVER or not isinstance(value, _TAKEN_OVER[name]):
            raise InvalidArgument(f"job.json in {where} is damaged: a flag {name} with the value {value!r}")
    return replace(
        arguments,
        training_script=record.script,
        training_script_args=record.script_args,
        server_num=record.server_num,
        worker_num=record.worker_num,
        **_flags_in_effect(arguments, record),
    )


def _refuse_contradictions(arguments: Arguments, record: Record, where: Path) -> None:
    job = f"the job in {where}"
    # A script of that name, or data that its arguments name, may lie here as well, and would be another job's.
    if Path.cwd().resolve() != Path(record.folder).resolve():
        raise InvalidArgument(f"--resume: {job} was started in {record.folder}: give --resume there")
    # Several hosts are told as before who the workers are: those that the job began with.
    began_with = record.first_workers if arguments.workers or arguments.ips else record.worker_num
    for noun, asked, has, began in (
        ("servers", arguments.server_num or len(split(arguments.servers)), record.server_num, record.server_num),
        ("workers", arguments.worker_num or len(split(arguments.workers)), record.worker_num, began_with),
    ):
        if asked and asked not in (has, began):
            raise InvalidArgument(f"--resume: {job} has {has} {noun}, and this command asks for {asked}: leave it out")
    if not arguments.training_script:
        return
    if Path(arguments.training_script).resolve() != Path(record.folder, record.script).resolve():
        raise InvalidArgument(
            f"--resume: {job} runs {record.script}, and this command {arguments.training_script}: leave the script out"
        )
    if arguments.training_script_args != record.script_args:
        raise InvalidArgument(
            f"--resume: {job} runs {record.script} with {' '.join(record.script_args) or 'no arguments'}, and this "
            f"command with {' '.join(arguments.training_script_args) or 'none'}: leave the script and its arguments out"
        )


def how_to_resume(plan: Plan, suffix: str = "") -> str:
    """The command that goes on with this job, or with the one whose folder has a suffix to its name."""
    arguments = plan.arguments
    words = ["flota launch --resume"]
    if arguments.on != LOCAL:
        words.append(f"--on={arguments.on}")
    if suffix or arguments.durable or config.durable_folder():
        folder = _folder(arguments)
        words.append(shlex.quote(f"--durable={folder.with_name(folder.name + suffix)}"))
    if arguments.log_dir != "log":
        words.append(shlex.quote(f"--log_dir={arguments.log_dir}"))
    return " ".join(words) + ("" if plan.alone else " and the flags of before, on each host")
