"""The documents' roads from files to training: 004's pipe command and file list, 002's split files."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from flota.data import QueueDataset, Slot
from flota.data.synthetic import Clicks

HERE = Path(__file__).parent
ROWS = 6000


def test_document_004_trains_from_raw_data_by_a_pipe_command(tmp_path):
    Clicks(ROWS).write(tmp_path / "raw_data", files=4)
    for script in ("train_004.py", "criteo_reader.py"):
        shutil.copy(HERE / script, tmp_path)
    command = [sys.executable, "-m", "flota.launch", "--server_num=2", "--worker_num=2", "train_004.py"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    logs = [(tmp_path / "log" / f"workerlog.{rank}").read_text() for rank in range(2)]
    ends = [re.search(r"(\d+) samples, AUC (0\.\d+)", log) for log in logs]
    assert sum(int(end[1]) for end in ends) == 2 * ROWS, "two epochs, each sample with one worker"
    assert len({end[2] for end in ends}) == 1
    assert float(ends[0][2]) > 0.7
    assert re.search(r"time: \[[-\d]+ [:\d]+\], batch: \[10\], auc: \[0\.\d+\]", logs[0] + logs[1])


def test_document_002_gives_each_trainer_the_files_of_its_number(tmp_path):
    """The modulo of the document, as written, over the files that prepare.py splits."""
    (tmp_path / "train_data").mkdir()
    for number in range(7):
        (tmp_path / "train_data" / f"train.txt-{number:05d}").write_text(f"1 {number}\n1 {number + 100}\n")
    TRAINER_COUNT = 3  # noqa: N806
    seen = []
    for TRAINER_ID in range(TRAINER_COUNT):  # noqa: N806
        train_list = []
        flist = os.listdir(tmp_path / "train_data")
        for f in flist:
            suffix = int(f.split("-")[1])
            if suffix % TRAINER_COUNT == TRAINER_ID:
                train_list.append(f)
        dataset = QueueDataset()
        dataset.init(batch_size=2, use_var=[Slot("word", (1,))])
        dataset.set_filelist([tmp_path / "train_data" / f for f in train_list])
        words = [word for batch in dataset for word in batch["word"].flatten().tolist()]
        assert {word % 100 % TRAINER_COUNT for word in words} == {TRAINER_ID}
        seen += words
    assert sorted(seen) == sorted([*range(7), *range(100, 107)])
