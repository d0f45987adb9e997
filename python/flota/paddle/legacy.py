"""``paddle.init`` of 0.10: who this process is, in the words of that release."""

from __future__ import annotations

from typing import Any

from flota import roles
from flota.paddle import device
from flota.roles.pservers import settings_given


def init(**settings: Any) -> None:
    """Takes the job's settings from the arguments, then from ``PADDLE_INIT_*``, then the documents' defaults.

    After it ``fleet.init()`` without a role maker makes this process trainer ``trainer_id`` of ``trainer_count``. With
    none of the job's settings, the process trains alone.
    """
    given, job = settings_given(settings)
    if given.use_gpu:
        device.set_device("gpu:0")
    roles.tell_role_maker(roles.PserverRoleMaker(given) if job else None)
