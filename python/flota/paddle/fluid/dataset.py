"""``fluid.DatasetFactory``: the data sets as 1.x sets them up, one setting a call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flota.data.dataset import Schema
from flota.errors import InvalidArgument
from flota.paddle.distributed import datasets

__all__ = ["DatasetFactory", "InMemoryDataset", "QueueDataset"]


class _OneByOne:
    """Settings are collected, and in effect as soon as the variables are known. Later ones change them."""

    def __init__(self) -> None:
        super().__init__()
        self._collected: dict[str, Any] = {}

    def _collect(self, **settings: Any) -> None:
        self._collected.update(settings)
        if "use_var" in self._collected:
            self.init(**self._collected)  # type: ignore[attr-defined]

    def _check_ready(self) -> Schema:
        if "use_var" not in self._collected:
            raise InvalidArgument("call set_use_var() of the data set first: the variables that a line fills")
        schema: Schema = super()._check_ready()  # type: ignore[misc]
        return schema

    def set_use_var(self, var_list: Sequence[Any]) -> None:
        """The variables that a line fills, in its order."""
        if not var_list:
            raise InvalidArgument("set_use_var: there are no variables")
        self._collect(use_var=list(var_list))

    def set_pipe_command(self, pipe_command: str) -> None:
        """The command that prints a file's samples."""
        self._collect(pipe_command=pipe_command)

    def set_batch_size(self, batch_size: int) -> None:
        self._collect(batch_size=batch_size)

    def set_thread(self, thread_num: int) -> None:
        """How many threads read."""
        self._collect(thread_num=thread_num)

    def set_hdfs_config(self, fs_name: str, fs_ugi: str) -> None:
        """Where the files are, and who reads there."""
        self._collect(fs_name=fs_name, fs_ugi=fs_ugi)

    def set_download_cmd(self, download_cmd: str) -> None:
        """The command that prints a file, given its name."""
        self._collect(download_cmd=download_cmd)

    def set_input_type(self, input_type: int) -> None:
        self._collect(input_type=input_type)


class QueueDataset(_OneByOne, datasets.QueueDataset):
    """Streams batches from files."""

    def local_shuffle(self) -> None:
        raise InvalidArgument('samples that are streamed cannot be shuffled: create_dataset("InMemoryDataset")')

    def global_shuffle(self, fleet: Any = None) -> None:
        self.local_shuffle()


class InMemoryDataset(_OneByOne, datasets.InMemoryDataset):
    """Loads all samples, and may shuffle them."""

    def set_queue_num(self, queue_num: int) -> None:
        datasets.refuse_settings(queue_num=queue_num)

    def set_feed_type(self, data_feed_type: str) -> None:
        datasets.refuse_settings(data_feed_type=data_feed_type)

    def set_parse_ins_id(self, parse_ins_id: bool) -> None:
        datasets.refuse_settings(parse_ins_id=parse_ins_id)

    def set_parse_content(self, parse_content: bool) -> None:
        datasets.refuse_settings(parse_content=parse_content)

    def set_merge_by_lineid(self, merge_size: int = 2) -> None:
        datasets.refuse_settings(merge_size=merge_size)

    def set_fleet_send_batch_size(self, fleet_send_batch_size: int = 1024) -> None:
        datasets.refuse_settings(fleet_send_batch_size=fleet_send_batch_size)

    def set_fleet_send_sleep_seconds(self, fleet_send_sleep_seconds: int = 0) -> None:
        datasets.refuse_settings(fleet_send_sleep_seconds=fleet_send_sleep_seconds)

    def set_fea_eval(self, record_candidate_size: int, fea_eval: bool = True) -> None:
        """Allows ``slots_shuffle``, which is allowed in any case."""
        datasets.refuse_settings(candidate_size=record_candidate_size)


_KINDS = {"InMemoryDataset": InMemoryDataset, "QueueDataset": QueueDataset}


class DatasetFactory:
    """Makes data sets by name."""

    def create_dataset(self, datafeed_class: str = "QueueDataset") -> Any:
        if datafeed_class not in _KINDS:
            raise InvalidArgument(f"create_dataset makes {' and '.join(_KINDS)}, not {datafeed_class!r}")
        return _KINDS[datafeed_class]()
