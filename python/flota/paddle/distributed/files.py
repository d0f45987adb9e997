"""``fleet.utils.fs``: files on this machine, and in HDFS through its own command."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.pool import ThreadPool
from pathlib import Path

from flota import checks
from flota.errors import DeadlineExceeded, InvalidArgument, MissingFile, SystemFailure

__all__ = ["HDFSClient", "LocalFS"]


class _Files(ABC):
    """What both have in common. Folders are listed by the names in them."""

    @abstractmethod
    def ls_dir(self, fs_path: str) -> tuple[list[str], list[str]]:
        """The folders in this one, and the files; none of what is not there."""

    @abstractmethod
    def is_exist(self, fs_path: str) -> bool: ...

    @abstractmethod
    def is_dir(self, fs_path: str) -> bool: ...

    @abstractmethod
    def delete(self, fs_path: str) -> None:
        """A file, or a folder with all that is in it."""

    @abstractmethod
    def rename(self, fs_src_path: str, fs_dst_path: str) -> None: ...

    def is_file(self, fs_path: str) -> bool:
        return self.is_exist(fs_path) and not self.is_dir(fs_path)

    def list_dirs(self, fs_path: str) -> list[str]:
        return self.ls_dir(fs_path)[0]

    def _move(self, source: str, target: str, overwrite: bool, test_exists: bool) -> None:
        if test_exists or overwrite:
            if not self.is_exist(source):
                raise MissingFile(f"there is no {source}")
            if self.is_exist(target):
                if not overwrite:
                    raise FileExistsError(f"{target} is there already: give overwrite=True")
                self.delete(target)
        self.rename(source, target)

    def _check_new(self, path: str, exist_ok: bool) -> bool:
        """Whether there is none yet."""
        if not self.is_exist(path):
            return True
        if not exist_ok:
            raise FileExistsError(f"{path} is there already: give exist_ok=True")
        return False


class LocalFS(_Files):
    """Files on this machine."""

    def ls_dir(self, fs_path: str) -> tuple[list[str], list[str]]:
        if not os.path.isdir(fs_path):
            return [], []
        entries = sorted(os.scandir(fs_path), key=lambda entry: entry.name)
        return [each.name for each in entries if each.is_dir()], [each.name for each in entries if not each.is_dir()]

    def is_exist(self, fs_path: str) -> bool:
        return os.path.exists(fs_path)

    def is_dir(self, fs_path: str) -> bool:
        return os.path.isdir(fs_path)

    def mkdirs(self, fs_path: str) -> None:
        os.makedirs(fs_path, exist_ok=True)

    def touch(self, fs_path: str, exist_ok: bool = True) -> None:
        if self._check_new(fs_path, exist_ok):
            Path(fs_path).touch()

    def delete(self, fs_path: str) -> None:
        if os.path.isdir(fs_path):
            shutil.rmtree(fs_path)
        elif os.path.exists(fs_path):
            os.remove(fs_path)

    def rename(self, fs_src_path: str, fs_dst_path: str) -> None:
        os.rename(fs_src_path, fs_dst_path)

    def mv(self, src_path: str, dst_path: str, overwrite: bool = False, test_exists: bool = False) -> None:
        # Here a look costs nothing, and os.rename would replace a file without a word.
        self._move(src_path, dst_path, overwrite, test_exists=True)

    def cat(self, fs_path: str) -> str:
        return Path(fs_path).read_text().rstrip("\n")

    def upload(self, local_path: str, fs_path: str) -> None:
        """A copy: there is one place only."""
        if os.path.isdir(local_path):
            shutil.copytree(local_path, fs_path, dirs_exist_ok=True)
        else:
            shutil.copy(local_path, fs_path)

    upload_dir = upload

    def download(self, fs_path: str, local_path: str) -> None:
        self.upload(fs_path, local_path)

    def need_upload_download(self) -> bool:
        return False


class HDFSClient(_Files):
    """Files in HDFS, by ``hadoop_home``/bin/hadoop. ``configs``: its properties, such as {"fs.default.name":
    "hdfs://host:9000", "hadoop.job.ugi": "user,password"}. A command that fails is tried again every ``sleep_inter``
    milliseconds, until ``time_out`` milliseconds are over."""

    def __init__(
        self,
        hadoop_home: str,
        configs: Mapping[str, str] | None,
        time_out: int = 5 * 60 * 1000,
        sleep_inter: int = 1000,
    ) -> None:
        program = os.path.join(hadoop_home, "bin", "hadoop")
        if not os.path.isfile(program):
            raise InvalidArgument(f"HDFSClient: hadoop_home has no bin/hadoop: {program}")
        self._command = [program, "fs", *(f"-D{name}={value}" for name, value in (configs or {}).items())]
        self._time_out = checks.number("time_out", time_out, 1, 1e12) / 1000
        self._sleep = checks.number("sleep_inter", sleep_inter, 0, 1e12) / 1000

    def ls_dir(self, fs_path: str) -> tuple[list[str], list[str]]:
        if not self.is_exist(fs_path):
            return [], []
        # Permissions, copies, owner, group, size, day, time, path.
        lines = (line.split(None, 7) for line in self._do("-ls", fs_path).splitlines())
        entries = [(fields[0][0] == "d", os.path.basename(fields[7])) for fields in lines if len(fields) == 8]
        return [name for is_dir, name in entries if is_dir], [name for is_dir, name in entries if not is_dir]

    def is_exist(self, fs_path: str) -> bool:
        return self._test("-e", fs_path)

    def is_dir(self, fs_path: str) -> bool:
        return self._test("-d", fs_path)

    def mkdirs(self, fs_path: str) -> None:
        self._do("-mkdir", "-p", fs_path)

    def touch(self, fs_path: str, exist_ok: bool = True) -> None:
        if self._check_new(fs_path, exist_ok):
            self._do("-touchz", fs_path)

    def delete(self, fs_path: str) -> None:
        if self.is_exist(fs_path):
            self._do("-rm", "-r", fs_path)

    def rename(self, fs_src_path: str, fs_dst_path: str) -> None:
        self._do("-mv", fs_src_path, fs_dst_path)

    def mv(self, fs_src_path: str, fs_dst_path: str, overwrite: bool = False, test_exists: bool = True) -> None:
        self._move(fs_src_path, fs_dst_path, overwrite, test_exists)

    def cat(self, fs_path: str) -> str:
        return self._do("-cat", fs_path).rstrip("\n") if self.is_file(fs_path) else ""

    def upload(self, local_path: str, fs_path: str, multi_processes: int = 5, overwrite: bool = False) -> None:
        """A file; or what is in a folder, ``multi_processes`` at a time."""
        if not os.path.exists(local_path):
            raise MissingFile(f"there is no {local_path}")
        force = ["-f"] if overwrite else []
        if not os.path.isdir(local_path):
            self._do("-put", *force, local_path, fs_path)
            return
        self.mkdirs(fs_path)
        inside = [os.path.join(local_path, name) for name in sorted(os.listdir(local_path))]
        _at_once(multi_processes, lambda each: self._do("-put", *force, each, fs_path), inside)

    def upload_dir(self, local_dir: str, dest_dir: str, overwrite: bool = False) -> None:
        self.upload(local_dir, dest_dir, overwrite=overwrite)

    def download(self, fs_path: str, local_path: str, multi_processes: int = 5, overwrite: bool = False) -> None:
        """A file; or what is in a folder, ``multi_processes`` at a time."""
        if not self.is_exist(fs_path):
            raise MissingFile(f"there is no {fs_path}")
        force = ["-f"] if overwrite else []
        if not self.is_dir(fs_path):
            self._do("-get", *force, fs_path, local_path)
            return
        os.makedirs(local_path, exist_ok=True)
        inside = [f"{fs_path.rstrip('/')}/{name}" for names in self.ls_dir(fs_path) for name in names]
        _at_once(multi_processes, lambda each: self._do("-get", *force, each, local_path), inside)

    def need_upload_download(self) -> bool:
        return True

    def _test(self, *arguments: str) -> bool:
        """Its answer is the status, so that it is not tried again."""
        return self._run(["-test", *arguments], self._time_out).returncode == 0

    def _do(self, *arguments: str) -> str:
        end = time.monotonic() + self._time_out
        while (done := self._run(arguments, end - time.monotonic())).returncode != 0:
            if time.monotonic() + self._sleep >= end:
                said = done.stderr.strip().splitlines()
                raise SystemFailure(f"hadoop fs {' '.join(arguments)}: {said[-1] if said else done.returncode}")
            time.sleep(self._sleep)
        return done.stdout

    def _run(self, arguments: Sequence[str], seconds: float) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run([*self._command, *arguments], capture_output=True, text=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            raise DeadlineExceeded(f"hadoop fs {' '.join(arguments)} took more than {self._time_out:g} s") from None


def _at_once(many: int, do: Callable[[str], object], paths: Sequence[str]) -> None:
    with ThreadPool(checks.whole("multi_processes", many, 1, 1024)) as pool:
        pool.map(do, paths)
