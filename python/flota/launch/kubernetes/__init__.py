"""Jobs on Kubernetes: ``flota launch --on kubernetes --image … --server_num 2 --worker_num 4 train.py``.

``settings`` and ``values`` are what was asked for; ``pods``, ``work``, ``objects`` and ``jobset`` render it;
``credentials`` are its secret and certificates, ``manifest`` is the text. ``kubectl`` brings it to a cluster,
``cluster`` reads what is there, ``following`` stays with a job until its end, and ``commands`` are ``flota status``,
``logs`` and ``stop``. ``attend`` is what runs first in each pod.
"""

from flota.launch.kubernetes.launching import launch

__all__ = ["launch"]
