"""What a package consists of, and how it arrives."""

import os

import pytest

from flota.errors import InvalidArgument, SystemFailure
from flota.launch.ssh.agent.receiving import Receiver
from flota.launch.ssh.package import Entry, entries


@pytest.fixture
def package(tmp_path):
    folder = tmp_path / "package"
    folder.mkdir()
    return folder


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


def send(package, workspace, *, until=None):
    """Brings a package into a workspace, as a launch does; ``until``: it breaks off after so many files."""
    receiver = Receiver(workspace)
    try:
        found = entries(package)
        lacking = [found[i] for i in receiver.lacking(found)]
        receiver.begin()
        for number, entry in enumerate(lacking):
            data = (package / entry.path).read_bytes()
            half = len(data) // 2
            receiver.write(entry, data[:half], last=False)
            if number == until:
                raise ConnectionError
            receiver.write(entry, data[half:], last=True)
        return [entry.path for entry in lacking], receiver.finish()
    finally:
        receiver.close()


def test_a_package_is_all_but_what_no_job_needs(package):
    for path in (".git/config", "__pycache__/a.pyc", "log/workerlog.0", "a.py", "data/b.txt", "data/big.bin", "tmp/x"):
        (package / path).parent.mkdir(exist_ok=True)
        (package / path).write_text(path)
    (package / ".flotaignore").write_text("# not these\n*.bin\ntmp/\n")
    (package / "empty").mkdir()
    assert [entry.path for entry in entries(package, ["log"])] == ["a.py", "data", "data/b.txt", "empty"]


@pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "sub/../../outside"])
def test_a_link_out_of_the_package_is_refused(package, target):
    (package / "link").symlink_to(target)
    with pytest.raises(InvalidArgument, match="leads out of the package"):
        entries(package)


def test_what_is_neither_file_nor_folder_is_refused(package):
    os.mkfifo(package / "pipe")
    with pytest.raises(InvalidArgument, match="neither file, folder nor link"):
        entries(package)


@pytest.mark.parametrize(
    "values",
    [
        ["../a", "file", 1, 0o644, ""],
        ["/a", "file", 1, 0o644, ""],
        ["a//b", "file", 1, 0o644, ""],
        ["a\0b", "file", 1, 0o644, ""],
        [".flota-package.json", "file", 1, 0o644, ""],
        ["a", "device", 1, 0o644, ""],
        ["a", "file", -1, 0o644, ""],
        ["a", "link", 0, 0, "../../etc"],
        ["a", "file", "1", 0o644, ""],
        ["a", "file", True, 0o644, ""],
        "a",
    ],
)
def test_entries_that_lead_elsewhere_are_refused_by_the_node(values):
    with pytest.raises(InvalidArgument):
        Entry.from_list(values)


def test_files_arrive_with_their_modes_and_only_those_that_are_lacking(package, workspace):
    (package / "run.sh").write_text("#!/bin/sh\n")
    (package / "run.sh").chmod(0o755)
    (package / "data").mkdir()
    (package / "data/a").write_text("a")
    assert send(package, workspace) == (["data/a", "run.sh"], (2, 0))
    assert (workspace / "run.sh").stat().st_mode & 0o777 == 0o755
    assert send(package, workspace) == ([], (0, 0))
    (package / "run.sh").chmod(0o700)
    assert send(package, workspace) == ([], (0, 0))
    assert (workspace / "run.sh").stat().st_mode & 0o777 == 0o700
    (workspace / "data/a").write_text("b")
    assert send(package, workspace) == (["data/a"], (1, 0))
    assert (workspace / "data/a").read_text() == "a"


def test_only_what_was_brought_and_not_changed_since_is_removed(package, workspace):
    for name in ("kept", "gone", "changed"):
        (package / name).write_text(name)
    (package / "folder").mkdir()
    (package / "folder/file").write_text("file")
    (workspace / "mine").write_text("mine")
    send(package, workspace)
    (workspace / "changed").write_text("changed by the job")
    (workspace / "folder/made").write_text("by the job")
    for name in ("gone", "changed", "folder/file"):
        (package / name).unlink()
    (package / "folder").rmdir()
    assert send(package, workspace) == ([], (0, 2))
    left = sorted(str(path.relative_to(workspace)) for path in workspace.rglob("*") if ".flota-" not in path.name)
    assert left == ["changed", "folder", "folder/made", "kept", "mine"]


def test_a_copy_that_breaks_off_leaves_no_half_file_and_can_be_repeated(package, workspace):
    (package / "a").write_text("first")
    (package / "b").write_text("second")
    (workspace / "b").write_text("was here before")
    with pytest.raises(ConnectionError):
        send(package, workspace, until=1)
    assert (workspace / "a").read_text() == "first"
    assert (workspace / "b").read_text() == "was here before"
    (package / "a").unlink()  # brought by what broke off: known, and removed
    (package / "b").unlink()  # never brought: stays
    assert send(package, workspace) == ([], (0, 1))
    assert not (workspace / "a").exists()
    assert (workspace / "b").read_text() == "was here before"


def test_a_file_that_changes_while_it_is_copied_is_refused(package, workspace):
    (package / "a").write_text("first")
    receiver = Receiver(workspace)
    found = entries(package)
    receiver.lacking(found)
    receiver.begin()
    with pytest.raises(SystemFailure, match="a changed while it was copied"):
        receiver.write(found[0], b"other", last=True)
    receiver.close()
    assert [path.name for path in workspace.iterdir() if not path.name.startswith(".flota-")] == []


def test_nothing_is_written_through_a_link_of_the_workspace(package, workspace, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (package / "data").mkdir()
    (package / "data/a").write_text("a")
    (workspace / "data").symlink_to(elsewhere)
    with pytest.raises(InvalidArgument, match="take it away"):
        send(package, workspace)
    assert not list(elsewhere.iterdir())


def test_a_workspace_in_which_a_job_runs_takes_no_other_package(package, workspace):
    running = Receiver(workspace)
    with pytest.raises(SystemFailure, match="another launch's job runs in"):
        Receiver(workspace)
    running.close()
    Receiver(workspace).close()


def test_a_damaged_record_costs_reading_and_nothing_else(package, workspace):
    (package / "a").write_text("a")
    send(package, workspace)
    for text in ("{", "[]", '{"brought": {"../x": [1, 2], "a": 3}}'):
        (workspace / ".flota-package.json").write_text(text)
        assert send(package, workspace) == ([], (0, 0))
