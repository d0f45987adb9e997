"""``fleet.DistributedStrategy``: flota's own, with all that scripts read and set on the reference's.

What concerns training with servers acts. The rest of the reference's settings have its defaults, and three kinds:

- those that ask for what is not done here are refused, with the reason (``_SWITCHES``, ``_FIXED``);
- those that change no result and tune something that is not here are taken and given back (``_FREE``, and the
  ``…_configs`` of a switch that is off);
- ``trainer_desc_configs`` acts as ``program._fleet_opt`` does: ``apply_trainer_settings``.

A setting of ``a_sync_configs`` that the mode does not carry is a warning here, not an error: the reference says
nothing, and scripts set all of them in every mode.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import flota.strategy
from flota import checks
from flota.errors import InvalidArgument
from flota.paddle.graph.program import Program
from flota.paddle.static.strategies import BuildStrategy, ExecutionStrategy
from flota.strategy import Mode

__all__ = ["DistributedStrategy", "apply_trainer_settings"]

# Takes a name, what it is set to and what it was; gives what it is from then on.
Take = Callable[[str, Any, Any], Any]

_COLLECTIVE = "flota trains with parameter servers, not by collectives between GPUs"
_ONE_MODEL = "every worker has the whole model, and the tables are spread over the servers"
_FEDERATED = "there is no federated training"
_GEO = "a_sync = True with a_sync_configs = {'k_steps': n} lets workers train n steps on their own"
_RULE = (
    "rows are trained by the optimizer's own rule, with its numbers, and begin as the embedding's initializer says: "
    "give these to them and leave this out"
)

# Off, and why they stay so.
_SWITCHES = {
    "adaptive_localsgd": _GEO,
    "amp": "programs compute in float32; dense_dtype = 'bfloat16' makes what travels smaller",
    "asp": "weights are not pruned",
    "auto": _COLLECTIVE,
    "auto_search": _COLLECTIVE,
    "dgc": "gradients are not compressed; dense_dtype = 'bfloat16' makes what travels smaller",
    "elastic": "a job keeps the number of workers that it began with",
    "fp16_allreduce": "dense_dtype = 'bfloat16' makes what travels smaller",
    "gradient_merge": "every step's gradients are sent: make batches larger",
    "heter_ccl_mode": _COLLECTIVE,
    "is_fl_ps_mode": _FEDERATED,
    "is_with_coordinator": _FEDERATED,
    "lamb": "train with paddle.optimizer.Lamb",
    "lars": "there is no LARS: train with one of paddle.optimizer",
    "localsgd": _GEO,
    "pipeline": _ONE_MODEL,
    "qat": "there is no quantisation",
    "recompute": "what a step computes is kept for its gradients: make batches smaller",
    "semi_auto": _COLLECTIVE,
    "sharding": _ONE_MODEL,
    "sync_batch_norm": "statistics are each worker's own",
    "tensor_parallel": _ONE_MODEL,
}

# Settings of a switch. While it is off, they ask for nothing, and it stays off.
_SWITCH_CONFIGS: dict[str, dict[str, Any]] = {
    "adaptive_localsgd_configs": {"init_k_steps": 1, "begin_step": 1},
    "amp_configs": {
        "init_loss_scaling": 32768.0, "incr_every_n_steps": 1000, "decr_every_n_nan_or_inf": 2, "incr_ratio": 2.0,
        "decr_ratio": 0.8, "use_dynamic_loss_scaling": True, "custom_white_list": [], "custom_black_list": [],
        "custom_black_varnames": [], "use_pure_fp16": False, "use_fp16_guard": True, "use_optimizer_fp16": False,
        "use_pure_bf16": False,
    },
    "dgc_configs": {"rampup_begin_step": 0, "rampup_step": 1, "sparsity": []},
    "gradient_merge_configs": {"k_steps": 1, "avg": True},
    "lamb_configs": {"lamb_weight_decay": 0.01, "exclude_from_weight_decay": []},
    "lars_configs": {"lars_coeff": 0.001, "lars_weight_decay": 0.0005, "epsilon": 0.0, "exclude_from_weight_decay": []},
    "localsgd_configs": {"k_steps": 1, "begin_step": 1},
    "pipeline_configs": {
        "micro_batch_size": 1, "accumulate_steps": 1, "schedule_mode": "1F1B", "p2p_cache_shape": True,
        "enable_partial_send_recv": True,
    },
    "qat_configs": {
        "channel_wise_abs_max": True, "weight_bits": 8, "activation_bits": 8, "not_quant_pattern": [], "algo": "",
    },
    "recompute_configs": {
        "checkpoints": [], "enable_offload": False, "checkpoint_shape": [], "enable_tuning": False,
        "refined_ops_patterns": [],
    },
    "sharding_configs": {
        "sharding_segment_strategy": "segment_broadcast_MB", "segment_broadcast_MB": 32.0, "segment_anchors": [],
        "sharding_degree": 8, "mp_degree": 1, "dp_degree": 1, "hybrid_dp": False, "gradient_merge_acc_step": 1,
        "optimize_offload": False, "pp_allreduce_in_optimize": False, "pp_degree": 1, "optimize_cast": False,
        "_dp_as_optimizer_sharding": False, "stage": 1, "enable_tuning": False, "use_calc_stream": False,
    },
    "tensor_parallel_configs": {"tensor_parallel_degree": 1, "tensor_init_seed": -1},
}  # fmt: skip

# Settings that no switch turns on: each has its default, for this reason.
_FIXED: dict[str, tuple[dict[str, Any], str]] = {
    "gradient_scale_configs": ({"scale_strategy": "avg", "scale_gradient": False}, "scale the loss"),
    "hybrid_configs": (
        {
            "dp_degree": -1, "mp_degree": 1, "pp_degree": 1, "sharding_degree": 1, "sep_degree": 1, "mp_configs": {},
            "pp_configs": {}, "sharding_configs": {},
        },
        _ONE_MODEL,
    ),
}  # fmt: skip

# They change no result. The first is the reference's rule for Adam on its servers, which scripts turn on whatever they
# train with: here servers have the optimizer's own rule. The others tune GPUs, collectives and the reference's passes.
_FREE: dict[str, bool | int | float | list[str]] = {
    "adam_d2sum": False,
    "conv_workspace_size_limit": 512,
    "cudnn_batchnorm_spatial_persistent": False,
    "cudnn_exhaustive_search": False,
    "find_unused_parameters": False,
    "fuse_all_reduce_ops": True,
    "fuse_grad_merge": False,
    "fuse_grad_size_in_MB": 32,
    "fuse_grad_size_in_num": 8,
    "hierarchical_allreduce_inter_nranks": 1,
    "hybrid_parallel_order": ["dp", "pp", "sharding", "sep", "mp"],
    "last_comm_group_size_MB": 1.0,
    "nccl_comm_num": 1,
    "split_data": True,
    "sync_nccl_allreduce": True,
    "sync_param_name": ["embedding", "layer_norm", ".b_"],
    "use_hierarchical_allreduce": False,
    "without_graph_optimization": True,
}

_TRAINER: dict[str, Any] = {
    "dump_fields_path": "", "dump_fields": [], "dump_param": [], "stat_var_names": [], "trainer": "",
    "device_worker": "", "local_sparse": [], "remote_sparse": [],
}  # fmt: skip
_FILES = {"uri": "", "user": "", "passwd": "", "hadoop_bin": ""}

# What sparse_table_configs says of how the reference keeps a table, and how wide its rows are, which follows from the
# embedding. Whatever else it can say is how rows begin, learn and die.
_STORAGE = frozenset(
    """
    accessor.accessor_class accessor.embedx_dim accessor.fea_dim compress_in_save enable_revert
    enable_sparse_table_cache shard_merge_rate shard_num sparse_table_cache_file_num sparse_table_cache_rate table_class
    table_id table_name type
    """.split()  # noqa: SIM905 (one word a setting, in as few lines as they need)
)


def _refused(name: str, value: Any, why: str) -> InvalidArgument:
    return InvalidArgument(f"DistributedStrategy: {name}={value!r} is not done: {why}")


def _like(name: str, value: Any, like: Any) -> Any:
    """The value in the type that the reference has there: scripts write 1 for 1.0, and a tuple for a list."""
    if isinstance(like, bool):
        return checks.flag(name, value)
    if isinstance(like, int):
        return checks.whole(name, value, -(1 << 31), (1 << 31) - 1)
    if isinstance(like, float):
        return checks.number(name, value, -1e30, 1e30)
    if isinstance(like, list) and isinstance(value, (list, tuple)):
        return list(value)
    if not isinstance(value, type(like)):
        raise InvalidArgument(f"{name} must be a {type(like).__name__}, not {value!r}")
    return value


def _mapping(name: str, given: Any) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise InvalidArgument(f"{name} must be a dictionary, not {given!r}")
    return given


def _named(name: str, given: Any, known: Mapping[str, Any]) -> dict[str, Any]:
    """A dictionary whose keys are among the known ones."""
    for key in _mapping(name, given):
        if key not in known:
            raise checks.unknown(name, key, known)
    return {key: _like(f"{name}: {key}", value, known[key]) for key, value in given.items()}


# --- how each kind is taken ---


def _switch(why: str) -> Take:
    def take(name: str, value: Any, before: Any) -> Any:
        if checks.flag(name, value):
            raise _refused(name, value, why)
        return value

    return take


def _merged(name: str, given: Any, before: Any) -> Any:
    return {**before, **_named(name, given, before)}


def _fixed(why: str) -> Take:
    def take(name: str, given: Any, before: Any) -> Any:
        for key, value in _named(name, given, before).items():
            if value != before[key]:
                raise _refused(f"{name}: {key}", value, why)
        return before

    return take


def _trainer(name: str, given: Any, before: Any) -> Any:
    """Whether what is to be written makes sense together is looked at in ``minimize``: it may be said step by step."""
    after = _merged(name, given, before)
    for key in ("local_sparse", "remote_sparse"):
        if after[key]:
            raise _refused(f"{name}: {key}", after[key], _FEDERATED)
    return after


def _files(name: str, given: Any, before: Any) -> Any:
    after = _merged(name, given, before)
    if after["uri"]:
        why = "models are saved in folders of worker 0's host; fleet.utils.HDFSClient copies them"
        raise _refused(f"{name}: uri", after["uri"], why)
    return after


def _tables(name: str, given: Any, before: Any) -> Any:
    """By table, a dictionary whose keys begin with ``table_parameters.<table>.``."""
    for table, settings in _mapping(name, given or {}).items():
        for key, value in _mapping(f"{name}: {table}", settings or {}).items():
            if key.removeprefix(f"table_parameters.{table}.") not in _STORAGE:
                raise _refused(f"{name}: {key}", value, _RULE)
    return given


def _described(name: str, given: Any, before: Any) -> Any:
    if given:
        raise _refused(name, given, _RULE)
    return given


# By name: the default, and how it is set.
SETTINGS: dict[str, tuple[Any, Take]] = {
    **{name: (default, _like) for name, default in _FREE.items()},
    **{name: (False, _switch(why)) for name, why in _SWITCHES.items()},
    **{name: (default, _merged) for name, default in _SWITCH_CONFIGS.items()},
    **{name: (default, _fixed(why)) for name, (default, why) in _FIXED.items()},
    "build_strategy": (BuildStrategy(), _like),
    "execution_strategy": (ExecutionStrategy(), _like),
    "fleet_desc_configs": ([], _described),
    "fs_client_param": (_FILES, _files),
    "sparse_table_configs": ([], _tables),
    "trainer_desc_configs": (_TRAINER, _trainer),
}


class DistributedStrategy(flota.strategy.DistributedStrategy):
    """How a job trains, by the reference's names; ``mode`` and the like of flota's own are there too.

    What is read is a copy, as in the reference: changes count when it is assigned again.
    """

    def __init__(self, mode: Mode | None = None, **settings: Any) -> None:
        self._kept: dict[str, Any] = {}
        self._warned: set[str] = set()
        super().__init__(mode, **settings)

    def save_to_prototxt(self, output: Any) -> None:
        raise InvalidArgument("save_to_prototxt: a strategy is not written to a file: print(strategy) shows it")

    def load_from_prototxt(self, pb_file: Any) -> None:
        raise InvalidArgument("load_from_prototxt: a strategy is not read from a file: set what it says in the script")

    def _shown(self) -> dict[str, int | str]:
        return dict(self._configs)

    def _without_effect(self, name: str, why: str) -> None:
        if name not in flota.strategy.A_SYNC_DEFAULTS:
            super()._without_effect(name, why)  # flota's own: who uses it means it
        if name not in self._warned:
            self._warned.add(name)
            warnings.warn(why, stacklevel=5)  # at the script's assignment


def _setting(name: str, default: Any, take: Take) -> property:
    def read(strategy: DistributedStrategy) -> Any:
        return copy.deepcopy(strategy._kept.get(name, default))

    def write(strategy: DistributedStrategy, value: Any) -> None:
        strategy._kept[name] = copy.deepcopy(take(name, value, read(strategy)))

    return property(read, write)


for _name, (_default, _take) in SETTINGS.items():
    setattr(DistributedStrategy, _name, _setting(_name, _default, _take))


def apply_trainer_settings(program: Program, strategy: Any) -> None:
    """What ``trainer_desc_configs`` asks to be written while the program trains over a data set goes where the program
    keeps such wishes, beside what a script has put there. Settings that ask for nothing leave it as it is."""
    if not isinstance(strategy, DistributedStrategy):
        return
    said = strategy.trainer_desc_configs  # type: ignore[attr-defined]
    names = ["trainer", "device_worker"]
    if said["dump_fields"] or said["dump_param"]:
        names += ["dump_fields", "dump_param", "dump_fields_path"]  # a path alone writes nothing
    settings = {name: said[name] for name in names if said[name]}
    if settings:
        program._fleet_opt = {**(program._fleet_opt or {}), **settings}
