"""Blocks that are not run as they stand by test_pages.py: each by its page and its first line.

Nothing is passed over: ``CHECKED`` says what is done with a block instead and why; where a test elsewhere runs what the
block shows, it is named, and has to be there. ``ON_HOSTS`` and ``ON_CLUSTER`` are run, by tests of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from blocks import Block
from checks import (
    bash_reads_it,
    flags_are_taken,
    hosts_are_read,
    kubectl_creates_it,
    python_reads_it,
    renders,
    scripts_take_their_flags,
)


@dataclass(frozen=True)
class Checked:
    why: str
    how: tuple[Callable[[Block], None], ...]
    tested_by: str = ""  # file::test


_MPI = "mpirun between hosts takes half a minute, and tests/engines does it"
_SLURM = "Slurm's daemons on three hosts take their time, and tests/engines does it"
_RAY = "a Ray cluster takes a minute to start, and tests/engines does it"
_FOR_EVER = "it serves until it is stopped, on hosts that a test of its own has"

CHECKED: dict[tuple[str, str], Checked] = {
    ("CONTRIBUTING.md", "apt-get install g++ make python3-dev python3-venv libssl-dev"): Checked(
        "it would change the machine", (bash_reads_it,)
    ),
    (
        "CONTRIBUTING.md",
        ".venv/bin/cmake -S . -B build/fuzz -G Ninja -DCMAKE_MAKE_PROGRAM=$PWD/.venv/bin/ninja \\",
    ): Checked("it compiles the core for minutes; the native tests have the corpus", (bash_reads_it,)),
    ("docs/elastic.md", "flota launch --server_num=2 --worker_num=1 train.py"): Checked(
        "the transcript below it, which is run, has the same commands", (flags_are_taken,)
    ),
    ("docs/launching.md", "flota scale --workers 3"): Checked(
        "docs/elastic.md is run", (flags_are_taken,), "tests/launch/test_scaling.py::test_of_two_scales_at_once_the_later_holds"
    ),
    ("docs/observing/top.md", "flota top"): Checked(
        "it shows a job until it is ended; the next block, which is run, ends by itself",
        (flags_are_taken,),
        "tests/launch/test_top.py::test_it_attaches_from_anywhere_with_the_secret",
    ),
    ("docs/scale.md", "python benchmarks/scale_model.py --costs costs.json"): Checked(
        "it measures for minutes", (scripts_take_their_flags,)
    ),
    (
        "docs/scale.md",
        "python benchmarks/scale_model.py --costs costs.json --dim 16 --batch 4096 --workers 10 100 1000 --rows 1e9 1e10 1e11 1e12",
    ): Checked("it simulates 1,000 workers for minutes", (scripts_take_their_flags,)),
    ("docs/clusters/ssh.md", "pip install 'flota[ssh]'"): Checked(
        "the tutorial's last step, which is run, is such a job; this one takes a minute",
        (bash_reads_it, flags_are_taken),
        "tests/engines/test_ssh.py::test_the_example_learns_on_three_hosts_what_it_learns_on_one",
    ),
    ("docs/elastic.md", "$ flota scale --workers 5"): Checked(
        "it shows a job on three hosts",
        (flags_are_taken,),
        "tests/engines/test_ssh.py::test_workers_come_and_go_by_the_head_and_every_sample_is_trained_once",
    ),
    ("docs/elastic.md", "$ flota scale ads --workers 3"): Checked(
        "it shows a job on Kubernetes",
        (flags_are_taken,),
        "tests/engines/test_kubernetes_job.py::test_workers_come_to_a_job_and_leave_it",
    ),
    ("docs/clusters/ray.md", "$ flota scale --workers 3"): Checked(
        _RAY,
        (flags_are_taken,),
        "tests/engines/test_ray_scale.py::test_a_job_grows_over_the_nodes_as_there_is_room_and_shrinks_and_trains_every_sample_once",
    ),
    ("docs/clusters/ssh.md", "defaults: {user: trainer, key: ~/.ssh/cluster}"): Checked(
        "these hosts are nowhere: the reader of hosts.yaml reads it", (hosts_are_read,)
    ),
    ("docs/clusters/mpi.md", "flota launch --on mpi --hostfile machines examples/wide_and_deep.py --mode sync"): Checked(
        _MPI,
        (flags_are_taken, scripts_take_their_flags),
        "tests/engines/test_mpi.py::test_a_launch_trains_on_three_hosts_and_starts_again_what_dies",
    ),
    ("docs/clusters/mpi.md", "mpirun -n 3 --hostfile machines --bind-to none python examples/wide_and_deep.py --mode sync"): Checked(
        _MPI,
        (bash_reads_it, scripts_take_their_flags),
        "tests/engines/test_mpi.py::test_a_script_trains_on_three_hosts_and_goes_on_after_ten_seconds_without_a_cable",
    ),
    ("docs/clusters/mpi.md", "python examples/word2vec/prepare.py --shards 3"): Checked(
        _MPI,
        (bash_reads_it, scripts_take_their_flags),
        "tests/engines/test_mpi.py::test_the_example_of_shards_that_lie_on_the_hosts",
    ),
    ("docs/clusters/slurm.md", "sbatch --nodes=3 examples/slurm/train.sbatch --mode sync"): Checked(
        _SLURM,
        (bash_reads_it, scripts_take_their_flags),
        "tests/engines/test_slurm.py::test_a_batch_job_trains_on_three_nodes_and_goes_on_when_it_is_requeued",
    ),
    (
        "docs/clusters/slurm.md",
        'flota launch --on slurm --slurm_flags "--nodes=3 --time=2:00:00 --partition=cpu" --worker_num 6 train.py',
    ): Checked(_SLURM, (flags_are_taken,), "tests/engines/test_slurm.py::test_nothing_is_left_of_a_launch_that_is_ended"),
    ("docs/clusters/slurm.md", "export FLOTA_SECRET=$(od -An -tx1 -N32 /dev/urandom | tr -d ' \\n')"): Checked(
        _SLURM,
        (bash_reads_it, scripts_take_their_flags),
        "tests/engines/test_slurm.py::test_tasks_of_one_allocation_are_servers_and_workers_by_the_stated_rule",
    ),
    ("docs/clusters/ray.md", "pip install 'flota[ray]'"): Checked(
        _RAY, (bash_reads_it, flags_are_taken), "tests/engines/test_ray.py::test_a_killed_node_costs_a_sync_job_nothing"
    ),
    ("docs/clusters/ray.md", "h1$ ray start --head --port=6379 --node-ip-address=10.77.1.1 --num-cpus=4"): Checked(
        _RAY,
        (flags_are_taken, scripts_take_their_flags),
        "tests/engines/test_ray.py::test_the_example_trains_on_three_hosts_past_a_cut_cable",
    ),
    (
        "docs/clusters/kubernetes.md",
        "flota launch --on kubernetes --image registry.example.com/ads:1 --server_num 2 --worker_num 4 train.py --epochs 3",
    ): Checked(
        "there is no cluster: what it would create is rendered, and checked against the schemas",
        (flags_are_taken, renders),
        "tests/engines/test_kubernetes_job.py::test_a_job_trains_over_tls_while_a_server_moves_and_a_worker_dies",
    ),
    (
        "docs/clusters/kubernetes.md",
        "$ flota launch --on kubernetes --image none --name ads --send_script --server_num 2 --worker_num 3 \\",
    ): Checked(
        "it takes a minute, and tests/engines does it",
        (flags_are_taken, scripts_take_their_flags),
        "tests/engines/test_kubernetes_job.py::test_a_job_trains_over_tls_while_a_server_moves_and_a_worker_dies",
    ),
    (
        "docs/clusters/kubernetes.md",
        "flota certs secret --client --host ads-server-0.ads-server --host ads-server-1.ads-server",
    ): Checked("kubectl sends it in a form that the API server of the tests does not read", (kubectl_creates_it,)),
    ("docs/clusters/kubernetes.md", "$ flota status ads"): Checked(
        "it shows a job in its middle",
        (flags_are_taken,),
        "tests/launch/test_kubernetes_cluster.py::test_status_tells_of_every_pod",
    ),
    ("docs/clusters/kubernetes.md", "$ flota scale ads --workers 3"): Checked(
        "it shows a job in its middle",
        (flags_are_taken,),
        "tests/engines/test_kubernetes_job.py::test_workers_come_to_a_job_and_leave_it",
    ),
    (
        "docs/clusters/by_hand.md",
        "flota pserver --port=7164 --ports_num=1 --ports_num_for_sparse=1 --num_gradient_servers=2",
    ): Checked(
        _FOR_EVER,
        (flags_are_taken,),
        "tests/engines/test_by_hand.py::test_pservers_and_trainers_of_0_10_on_three_hosts_with_tls",
    ),
    (
        "docs/clusters/by_hand.md",
        "nohup flota pserver --port=7164 --ports_num=1 --ports_num_for_sparse=1 --num_gradient_servers=2 &> pserver.log &",
    ): Checked(
        _FOR_EVER,
        (bash_reads_it, flags_are_taken),
        "tests/engines/test_by_hand.py::test_pservers_and_trainers_of_0_10_on_three_hosts_with_tls",
    ),
    (
        "docs/clusters/by_hand.md",
        "export PADDLE_INIT_TRAINER_COUNT=2 PADDLE_INIT_NUM_GRADIENT_SERVERS=2 PADDLE_INIT_PSERVERS=h1,h2 PADDLE_INIT_PORT=7164",
    ): Checked(
        "its pservers are on other hosts",
        (bash_reads_it,),
        "tests/engines/test_by_hand.py::test_pservers_and_trainers_of_0_10_on_three_hosts_with_tls",
    ),
    (
        "docs/clusters/by_hand.md",
        'paddle.init(trainer_count=2, trainer_id=0, num_gradient_servers=2, pservers="h1,h2", port=7164)',
    ): Checked(
        "its pservers are on other hosts",
        (python_reads_it,),
        "tests/engines/test_by_hand.py::test_pservers_and_trainers_of_0_10_on_three_hosts_with_tls",
    ),
}  # fmt: skip

# Run by test_on_hosts.py.
ON_HOSTS: dict[tuple[str, str], str] = {
    (
        "docs/clusters/by_hand.md",
        "umask 077; python -c 'import secrets; print(secrets.token_hex(32))' > secret",
    ): "the files of a job by hand",
    (
        "docs/clusters/by_hand.md",
        "flota launch --servers=h1:6170,h2:6170 --workers=h1:6171,h2:6171,h3:6171 train.py",
    ): "the same command on each host",
    ("docs/tutorial.md", "mkdir -p clicks && cp train.py clicks/"): "the tutorial's last step, by SSH",
    (
        "docs/security.md",
        "python -c 'import secrets; print(secrets.token_hex(32))' > secret",
    ): "the files and the command",
}

# Run by test_on_a_cluster.py, with kubectl and the API server of the tests.
ON_CLUSTER: dict[tuple[str, str], str] = {
    (
        "docs/clusters/kubernetes.md",
        "flota launch --on kubernetes --image registry.example.com/ads:1 --server_num 2 --worker_num 2 --dry-run --with_secret train.py \\",
    ): "what a dry run prints is applied",
    (
        "docs/clusters/kubernetes.md",
        "$ kubectl apply -k deploy/kustomize/overlays/example --dry-run=client",
    ): "what the tree has for kustomize",
}
