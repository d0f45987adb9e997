"""What tests of data sets share: files, and data sets of slot text whose samples are numbered."""

from collections.abc import Callable
from pathlib import Path

import pytest

from flota.data import QueueDataset, Slot, shards

NUMBERED = (Slot("number", (1,)), Slot("label", (1,), "float32"))


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    """Writes a file."""

    def write(name: str, content: str | bytes) -> str:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return write


@pytest.fixture
def dataset() -> Callable[..., QueueDataset]:
    """Makes a data set that streams files, of numbered samples unless said otherwise."""

    def make(files: list[str], batch_size: int = 100, thread_num: int = 1, **settings: object) -> QueueDataset:
        if not {"use_var", "schema", "format"} & settings.keys():
            settings["use_var"] = NUMBERED
        made = QueueDataset()
        made.init(batch_size, thread_num, **settings)
        made.set_filelist(files)
        return made

    return make


@pytest.fixture
def lines() -> Callable[..., str]:
    """The slot text of numbered samples."""

    def lines(*numbers: int) -> str:
        return "".join(f"1 {number} 1 {number % 2}\n" for number in numbers)

    return lines


@pytest.fixture
def numbers() -> Callable[..., list[int]]:
    """The numbers of the samples of batches."""

    def numbers(batches: object) -> list[int]:
        return [number for batch in batches for number in batch["number"].reshape(-1).tolist()]

    return numbers


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are cut every few lines."""
    monkeypatch.setattr(shards, "_LEAST_BYTES", 40)
    monkeypatch.setattr(shards, "_MOST_BYTES", 40)
