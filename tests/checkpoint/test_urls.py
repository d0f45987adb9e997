"""Checkpoints behind URLs, where no folder can be renamed: memory:// stands for every object store."""

import subprocess
import sys
import uuid
from pathlib import Path

import fsspec
import pytest
import torch
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from small import command, page_of, save, spec_of
from tables import SECRET, servers
from test_kept import keep_one, names, train, worker

import flota
from flota.checkpoint import kept
from flota.checkpoint.commands.check import problems
from flota.checkpoint.places import Remote, place_of
from flota.checkpoint.reader import Checkpoint
from flota.checkpoint.writer import CheckpointWriter
from flota.errors import CheckpointError, InvalidArgument, SystemFailure
from flota.pages import ShardPage


@pytest.fixture
def url():
    """A place in a store of this process that is empty again after."""
    system = fsspec.filesystem("memory")
    url = f"memory://{uuid.uuid4().hex}"
    yield url
    path = url.removeprefix("memory:/")
    if system.exists(path):
        system.rm(path, recursive=True)


def value_at(url):
    (page,) = Checkpoint(url).rows("users")
    return float(page.weights[0, 0])


def files(url):
    """Names of all files under it."""
    system, path = fsspec.core.url_to_fs(url)
    return sorted(name.removeprefix(path).lstrip("/") for name in system.find(path))


def test_a_save_replaces_the_one_before_and_leaves_nothing_else(url):
    for value in (1.0, 2.0, 3.0):
        save(f"{url}/saved", value=value)
        assert value_at(f"{url}/saved") == value
        assert len(files(url)) == 3
    folder = Checkpoint(f"{url}/saved").manifest.folder
    assert files(url) == [
        f"saved/{folder}/dense-00000.safetensors",
        f"saved/{folder}/sparse-00000.safetensors",
        "saved/manifest.json",
    ]
    assert command("verify", f"{url}/saved") == 0


def test_a_url_of_this_machine_is_a_path(tmp_path):
    save(f"file://{tmp_path}/saved", value=4.0)
    assert value_at(tmp_path / "saved") == value_at(f"local://{tmp_path}/saved") == 4.0
    assert names(tmp_path / "saved") == ["dense-00000.safetensors", "manifest.json", "sparse-00000.safetensors"]


class Crash(BaseException):
    """The process is gone: nothing after it runs."""


@pytest.mark.parametrize("keep", [None, 2])
def test_a_crash_at_any_moment_leaves_the_old_or_the_new_one(url, monkeypatch, keep):
    def save_to(place, step):
        if keep is None:
            save(place, step=step)
        else:
            keep_one(place, step, keep)

    outcomes = set()
    for crash_at in range(100):
        place = f"{url}/{crash_at}"
        for step in (1, 2):
            save_to(place, step)
        calls = 0

        def counted(call):
            def made(*arguments, **options):
                nonlocal calls
                calls += 1
                if calls > crash_at:  # noqa: B023
                    raise Crash
                return call(*arguments, **options)

            return made

        with monkeypatch.context() as patched:
            for name in ("pipe_file", "_rm", "rm"):
                if hasattr(MemoryFileSystem, name):
                    patched.setattr(MemoryFileSystem, name, counted(getattr(MemoryFileSystem, name)))
            try:
                save_to(place, 3)
            except Crash:
                outcomes.add(Checkpoint(place).step)
            else:
                break
        assert not list(problems(kept.find(place_of(place))))
        if keep is not None:
            good = [child for child in kept.children(place_of(place)) if not list(problems(child))]
            assert len(good) >= keep
        save_to(place, 4)
        assert Checkpoint(place).step == 4
        assert len(files(place)) == 3 * (keep or 1), "nothing else is left"
    assert outcomes == {2, 3}


def test_two_saves_to_one_place_do_not_publish_a_half(url):
    with CheckpointWriter(f"{url}/saved") as writer:
        writer.add_rows(spec_of("users"), [ShardPage((0, 1023), page_of(range(5)))])
        writer._writing[0][2].result()
        save(f"{url}/saved", value=2.0)  # takes the other for a crashed one
        with pytest.raises(CheckpointError, match="does another job save to the same place"):
            writer.publish()
    assert value_at(f"{url}/saved") == 2.0
    assert len(files(url)) == 3


def test_a_reader_that_is_overtaken_says_so(url):
    save(f"{url}/saved", value=1.0)
    reader = Checkpoint(f"{url}/saved")
    save(f"{url}/saved", value=2.0)
    with pytest.raises(CheckpointError, match="is missing: another save may have replaced the checkpoint meanwhile"):
        list(reader.rows("users"))


def test_what_is_no_checkpoint_is_not_replaced(url):
    fsspec.filesystem("memory").pipe_file(f"{url}/mine/thesis.txt", b"years of work")
    with pytest.raises(InvalidArgument, match="mine is no checkpoint"):
        save(f"{url}/mine")
    with pytest.raises(CheckpointError, match=r"manifest\.json is missing"):
        Checkpoint(f"{url}/mine")
    with pytest.raises(CheckpointError, match=r"there is no checkpoint at .*nowhere: nothing is there"):
        Checkpoint(f"{url}/nowhere")
    with pytest.raises(InvalidArgument, match="cannot be reached: Protocol not known"):
        save("nosuch://bucket/saved")
    assert files(url) == ["mine/thesis.txt"]


def test_damage_is_named(url, capsys):
    keep_one(f"{url}/run", 1)
    keep_one(f"{url}/run", 2)
    folder = Checkpoint(f"{url}/run").manifest.folder
    name = f"{url}/run/step-0000000002/{folder}/sparse-00000.safetensors"
    system = fsspec.filesystem("memory")
    data = system.cat_file(name)
    system.pipe_file(name, data[:-1] + b"!")
    with pytest.raises(CheckpointError, match=r"sparse-00000\.safetensors is damaged: .*there is .*step-0000000001"):
        list(Checkpoint(f"{url}/run").rows("users"))
    assert command("verify", f"{url}/run") == 1
    assert f"the newest other good checkpoint: {url}/run/step-0000000001" in capsys.readouterr().out


def test_what_a_store_refuses_is_told(url, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "no such right")

    monkeypatch.setattr(MemoryFileSystem, "pipe_file", refuse)
    with pytest.raises(SystemFailure, match=r"cannot write memory://.*: no such right"):
        save(f"{url}/saved")


def test_the_newest_are_kept(url):
    for step in (1, 2, 3):
        keep_one(f"{url}/run", step, keep=2)
    assert [child.name for child in kept.children(Remote(f"{url}/run"))] == ["step-0000000002", "step-0000000003"]
    assert Checkpoint(f"{url}/run").step == 3


def test_listings_that_a_store_keeps_are_asked_for_anew(url, monkeypatch):
    listings = {}
    ls = MemoryFileSystem.ls

    def kept_ls(self, path, detail=True, **options):
        if (path, detail) not in listings:
            listings[path, detail] = ls(self, path, detail, **options)
        return listings[path, detail]

    monkeypatch.setattr(MemoryFileSystem, "ls", kept_ls)
    monkeypatch.setattr(MemoryFileSystem, "invalidate_cache", lambda *_: listings.clear())
    for step in (1, 2, 3):
        keep_one(f"{url}/run", step, keep=2)
        save(f"{url}/saved", step=step)
        assert Checkpoint(f"{url}/run").step == Checkpoint(f"{url}/saved").step == step
    listings.clear()
    assert len(files(url)) == 9


def test_a_copy_on_a_disk_loads_and_goes_up_again(url, tmp_path):
    save(f"{url}/saved", value=5.0)
    fsspec.filesystem("memory").get(f"{url}/saved", str(tmp_path / "copy"), recursive=True)
    assert value_at(tmp_path / "copy") == 5.0
    assert command("diff", tmp_path / "copy", f"{url}/saved") == 0
    save(tmp_path / "copy", value=6.0)
    fsspec.filesystem("memory").put(str(tmp_path / "copy"), f"{url}/again", recursive=True)
    assert value_at(f"{url}/again") == 6.0
    save(f"{url}/again", value=7.0)
    assert value_at(f"{url}/again") == 7.0
    assert len([name for name in files(url) if name.startswith("again/")]) == 3, "the old files are gone"


def test_a_job_saves_loads_and_serves_from_a_url(url, monkeypatch):
    monkeypatch.setenv("FLOTA_SECRET", SECRET)
    fleet, model, optimizer = worker()
    train(model, optimizer, 3)
    fleet.save_persistables(f"{url}/saved")
    fleet.save_inference_model(f"{url}/served", model, (torch.arange(4),))
    rows = model.pull(torch.arange(5)).clone()
    fleet, model, optimizer = worker()
    fleet.load_model(f"{url}/saved")
    assert torch.equal(model.pull(torch.arange(5)), rows)
    assert torch.equal(flota.load_inference_model(f"{url}/served")(torch.arange(5)), rows)
    with servers(2, f"{url}/saved") as client:
        fleet, model, optimizer = worker(client)
        assert optimizer.steps == 3
        assert torch.equal(model.pull(torch.arange(5)), rows)
        fleet.save_persistables(f"{url}/run", keep=2)
        fleet.stop_worker()
    assert Checkpoint(f"{url}/run").step == 3


def test_conversions_go_to_and_from_urls(url):
    save(f"{url}/saved")
    for form in ("out.pt", "out.safetensors", "out.parquet", "out"):
        assert command("convert", f"{url}/saved", f"{url}/{form}") == 0
    assert "out/users.parquet" in files(url)
    for form, table in (("out.pt", ()), ("out.safetensors", ()), ("out.parquet", ("--table", "users"))):
        assert command("convert", "--from", f"{url}/{form}", *table, f"{url}/back") == 0
        assert value_at(f"{url}/back") == 1.0
    fsspec.filesystem("memory").pipe_file(f"{url}/vectors.txt", b"a 1 2\nb 3 4\n")
    assert command("convert", "--from", f"{url}/vectors.txt", "--table", "users", f"{url}/back") == 0
    assert Checkpoint(f"{url}/back").manifest.tables["users"].rows == 2


class PlainStore(LocalFileSystem):
    """A store that another process sees, too: files of this machine, reached as objects are."""

    protocol = "plainstore"

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(str(path).removeprefix("plainstore://"))


def register():
    fsspec.register_implementation("plainstore", PlainStore, clobber=True)


READER = """
import sys
sys.path[:0] = [sys.argv[2], sys.argv[3]]
import test_urls
from tables import servers
test_urls.register()
print(test_urls.value_at(sys.argv[1]))
with servers(2, sys.argv[1]) as client:
    print(float(client.table("users").pull([0])[0, 0]))
"""


def test_another_process_loads_what_this_one_uploads(tmp_path):
    register()
    place = f"plainstore://{tmp_path}/store/saved"
    for value in (1.0, 2.0):
        save(place, value=value)
        folders = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
        done = subprocess.run(
            [sys.executable, "-c", READER, place, *folders], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == [str(value), str(value)]
    (folder,) = (tmp_path / "store" / "saved").glob("files-*")
    assert names(tmp_path / "store" / "saved") == [folder.name, "manifest.json"]
