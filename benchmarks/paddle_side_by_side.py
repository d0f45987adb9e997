"""The documents' listings run by the reference (paddlepaddle 2.6.2) and by flota: same files, same data, taking turns.

Both run ``paddle_listings/``: the click-through listing over files, with its Python pipe command ("pipe") and with
``pipe_command="cat"`` on the same samples as slot text ("slots"); and wide-and-deep fed by a Python generator
("generator"). Of each cell the table has samples/s (the better epoch of all rounds), test AUC, seconds from the start
of the command to the end of the first batches, and peak memory of all its processes together.

    python benchmarks/paddle_side_by_side.py                    # all cells
    python benchmarks/paddle_side_by_side.py --cells "slots async 1x1 512" --rows 200000

The reference has its own environment, which this makes if ``--reference`` names none. Bars: flota ahead in every cell;
pipe 1.5x at 1x1 and 1.2x at 2x2; slots 3x at 1x1, 2x at 2x2, 3x at batch 100; test AUC no lower.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

LISTINGS = Path(__file__).parent / "paddle_listings"
PACKAGES = ["paddlepaddle==2.6.2", "protobuf<5", "numpy<2"]
SIZES = ["local", "async 1x1", "async 1x2", "async 2x2", "geo 2x2"]
CELLS = [
    *(f"{way} {size} {batch}" for way in ("pipe", "slots") for size in SIZES for batch in (512, 100)),
    *(f"generator {size} 512" for size in ("local", "async 1x1")),
]
BARS = {
    "pipe async 1x1": 1.5,
    "pipe async 2x2": 1.2,
    "slots async 1x1": 3.0,
    "slots async 2x2": 2.0,
}
FILES, FIRST = 8, 2048


@dataclass
class Result:
    speeds: list[float] = field(default_factory=list)
    areas: list[float] = field(default_factory=list)
    firsts: list[float] = field(default_factory=list)
    peaks: list[float] = field(default_factory=list)
    failed: str = ""

    def speed(self) -> float:
        return max(self.speeds, default=0.0)


def bar_of(cell: str) -> float:
    way, size, batch = cell.split(" ", 1)[0], cell.rsplit(" ", 1)[0], cell.rsplit(" ", 1)[1]
    if way == "slots" and batch == "100" and "async" in size:
        return 3.0
    return BARS.get(size, 1.0)


# --- the reference's environment, and the data ---


def make_reference(folder: Path) -> str:
    python = folder / "bin" / "python"
    done = folder / "installed"  # an environment that was not made to its end has none
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        print(f"making an environment with {', '.join(PACKAGES)}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *PACKAGES], check=True)
        done.touch()
    return str(python)


def make_data(folder: Path, rows: int, test_rows: int) -> None:
    from flota.data.synthetic import Clicks

    whole = folder / "whole"
    for part in ("train", "test", "first"):
        (folder / part).mkdir(parents=True)
        (folder / f"{part}_slots").mkdir()
    whole.mkdir()
    Clicks(rows + test_rows, vocabulary=1_000_000).write(whole, files=1)
    (path,) = whole.iterdir()
    lines = path.read_text().splitlines(keepends=True)
    shutil.rmtree(whole)
    share = -(-rows // FILES)
    for number in range(FILES):
        mine = lines[number * share : min((number + 1) * share, rows)]
        (folder / "train" / f"part-{number}").write_text("".join(mine))
    (folder / "test" / "part-0").write_text("".join(lines[rows:]))
    (folder / "first" / "part-0").write_text("".join(lines[:FIRST]))
    reader = [sys.executable, "-m", "flota.paddle", str(LISTINGS / "criteo_reader.py"), "1000001"]
    for part in ("train", "test", "first"):
        for raw in (folder / part).iterdir():
            with raw.open() as source, (folder / f"{part}_slots" / raw.name).open("w") as target:
                subprocess.run(reader, stdin=source, stdout=target, check=True)


# --- one run ---


class Peak(threading.Thread):
    """The most memory that a command's processes have had, each at its own time, added up."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pids = {pid}
        self._most: dict[int, int] = {}
        self._done = threading.Event()

    def run(self) -> None:
        while not self._done.wait(0.2):
            for path in Path("/proc").glob("[0-9]*/status"):
                try:
                    status = dict(line.split(":\t", 1) for line in path.read_text().splitlines() if ":\t" in line)
                except OSError:
                    continue  # it has ended
                pid = int(status["Pid"])
                if pid in self.pids or int(status["PPid"]) in self.pids:
                    self.pids.add(pid)
                    self._most[pid] = max(self._most.get(pid, 0), int(status.get("VmHWM", "0").split()[0]))

    def stop(self) -> float:
        self._done.set()
        self.join()
        return sum(self._most.values()) / 1024.0


def run(cell: str, flota: bool, data: Path, settings: argparse.Namespace, result: Result) -> None:
    way, mode, *size, batch = cell.split()
    servers, workers = map(int, size[0].split("x")) if size else (0, 1)
    with tempfile.TemporaryDirectory() as folder:
        script = LISTINGS / ("wide_and_deep.py" if way == "generator" else "click_through.py")
        arguments = [
            str(script), f"--mode={mode}", f"--batch={batch}", "--threads=1",
            f"--pipe={'cat' if way == 'slots' else 'python'}", f"--epochs={settings.epochs}",
            f"--optimizer={settings.optimizer}",
            f"--data={data}", f"--out={folder}", f"--started={time.time()}",
        ]  # fmt: skip
        python = [sys.executable, "-m", "flota.paddle"] if flota else [settings.reference]
        launch = ["-m", "paddle.distributed.launch", f"--server_num={servers}", f"--worker_num={workers}"]
        command = [*python, *(launch if servers else []), *arguments]
        # The same cores for both: one thread a worker where there are two.
        threads = str(2 if workers == 1 else 1)
        environment = {**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "GLOG_minloglevel": "3"}
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        peak = Peak(process.pid)
        peak.start()
        # The reference sometimes hangs: a run that is slower than this has.
        limit = 60.0 + settings.epochs * settings.rows / 2000
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            output = f"not done after {limit:.0f} s"
        finally:
            result.peaks.append(peak.stop())
            end(peak.pids, process)
        parts = [json.loads(path.read_text()) for path in sorted(Path(folder).glob("worker-*.json"))]
        if len(parts) != workers:
            logs = "".join(path.read_text()[-2000:] for path in sorted(Path(folder).glob("log/*log.*")))
            result.failed = (output[-2000:] + logs).strip() or "no worker has finished"
            return
        slowest = [max(part["seconds"][epoch] for part in parts) for epoch in range(settings.epochs)]
        result.speeds += [settings.rows / seconds for seconds in slowest]
        result.firsts.append(max(part["first"] for part in parts))
        result.areas += [part["auc"] for part in parts if "auc" in part]


def end(pids: set[int], process: subprocess.Popen[str]) -> None:
    """Ends what the command has left behind."""
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


# --- the table ---


def reaches_bar(cell: str, theirs: Result, ours: Result) -> bool:
    """Where the reference failed, flota need only not fail."""
    return bool(ours.speeds) and not ours.failed and ours.speed() >= bar_of(cell) * theirs.speed()


def show(cell: str, theirs: Result, ours: Result) -> str:
    ratio = f"{ours.speed() / theirs.speed():.2f}x" if theirs.speed() else "-"
    note = "" if reaches_bar(cell, theirs, ours) else f"  below its bar of {bar_of(cell):g}"
    if theirs.failed:
        note += f"  reference failed: {theirs.failed.splitlines()[-1][:100]}"
    if ours.failed:
        note += f"  flota failed: {ours.failed.splitlines()[-1][:200]}"
    return f"| {cell} | {columns(theirs)} | {columns(ours)} | {ratio} |{note}"


def columns(result: Result) -> str:
    if not result.speeds:
        return "failed | | | "
    area = f"{max(result.areas):.4f}" if result.areas else "-"
    return f"{result.speed():,.0f} | {area} | {min(result.firsts):.1f} | {max(result.peaks):,.0f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reference", help="a Python that has the reference; made beside the data unless given")
    parser.add_argument("--rows", type=int, default=100_000, help="samples of an epoch, all workers together")
    parser.add_argument("--test_rows", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument(
        "--optimizer",
        choices=["sgd", "adam"],
        default="sgd",
        help="of the click-through listing, but for Geo; the reference's servers train rows by Adam in any case",
    )
    parser.add_argument("--rounds", type=int, default=1, help="how often both run each cell")
    parser.add_argument("--cells", nargs="*", default=CELLS, help=f"some of: {', '.join(CELLS)}")
    parser.add_argument("--work", help="a folder for the data and the environment, kept; a temporary one unless given")
    arguments = parser.parse_args()
    if strange := [cell for cell in arguments.cells if cell not in CELLS]:
        parser.error(f"there is no cell {strange[0]!r}; there are {', '.join(CELLS)}")
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(arguments.work or temporary).resolve()
        below = 0
        arguments.reference = arguments.reference or make_reference(work / "reference")
        data = work / f"data-{arguments.rows}-{arguments.test_rows}"
        if not data.exists():
            make_data(data, arguments.rows, arguments.test_rows)
        print("| cell | reference samples/s | AUC | first s | MiB | flota samples/s | AUC | first s | MiB | ratio |")
        print("|---|---|---|---|---|---|---|---|---|---|", flush=True)
        for cell in arguments.cells:
            theirs, ours = Result(), Result()
            for _ in range(arguments.rounds):
                for flota, result in ((False, theirs), (True, ours)):
                    run(cell, flota, data, arguments, result)
            print(show(cell, theirs, ours), flush=True)
            below += not reaches_bar(cell, theirs, ours)
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())
