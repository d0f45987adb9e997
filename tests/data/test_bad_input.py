"""Bad input: a clear error that names file and line, and nothing before it is lost; or skipped and counted."""

import gzip
import os
import subprocess
import sys

import pytest

from flota.data import read_criteo
from flota.data.formats import lines as lines_of
from flota.errors import DataError, MissingFile


def criteo_line(number, label="1", counts=()):
    counts = [str(number), *counts, *[""] * (12 - len(counts))]
    return "\t".join([label, *counts, *[""] * 26]) + "\n"


class Criteo:
    """Numbered lines in Criteo's format."""

    @staticmethod
    def line(number):
        return criteo_line(number)

    @staticmethod
    def dataset(files, batch_size=100, thread_num=1, **settings):
        return read_criteo(files, batch_size, thread_num, counts="log1p", **settings)

    @staticmethod
    def numbers(batch):
        return batch.dense[:, 0].expm1().round().long().tolist()


@pytest.fixture(params=["criteo", "slots"])
def kind(request, dataset, lines, numbers):
    """A format of lines: how a good one is written, and how they are read."""
    if request.param == "criteo":
        return Criteo

    class Slots:
        line = staticmethod(lines)

        @staticmethod
        def numbers(batch):
            return numbers([batch])

    Slots.dataset = staticmethod(dataset)
    return Slots


def read_until_error(kind, made):
    """The numbers that were read before an error, and the error."""
    read = []
    with pytest.raises(DataError) as caught:
        read.extend(kind.numbers(batch) for batch in made)
    return [number for batch in read for number in batch], str(caught.value)


def read_all(kind, made):
    return [number for batch in made for number in kind.numbers(batch)]


# --- bad lines ---

CRITEO_LINES = {
    "few columns": ("1\t2\n", "2 columns by tabs, not 40"),
    "many columns": (criteo_line(1)[:-1] + "\tx\n", "41 columns by tabs, not 40"),
    "empty": ("\n", "1 columns by tabs, not 40"),
    "no number": (criteo_line(1, counts=["many"]), "column 'I2': 'many' is no number"),
    "not finite": (criteo_line(1, counts=["-inf"]), "column 'I2': '-inf' is no number"),
    "label": (criteo_line(1, "2"), "the label '2' of column 'label' is neither 0 nor 1"),
    "no label": (criteo_line(1, ""), "the label '' of column 'label' is neither 0 nor 1"),
}
SLOT_LINES = {
    "few slots": ("1 2\n", "the line ends before slot 'label'"),
    "many slots": ("1 2 1 0 1 7\n", "'1' follows the last slot, 'label'"),
    "empty": ("\n", "the line ends before slot 'number'"),
    "few values": ("1 2 1\n", "slot 'label' says 1 values, and the line ends after 0"),
    "other values": ("2 5 6 1 0\n", "slot 'number' has 2 values, not 1"),
    "no count": ("x 5 1 0\n", "slot 'number' must begin with the number of its values, not with 'x'"),
    "no number": ("1 5 1 high\n", "slot 'label': 'high' is no number"),
    "no whole number": ("1 5.5 1 0\n", "slot 'number': '5.5' is no whole number"),
    "too large": ("1 5 1 1e300\n", "slot 'label': '1e300' is too large a number"),
    "an id too large": (f"1 {1 << 64} 1 0\n", "slot 'number': '18446744073709551616' is no whole number"),
}


@pytest.mark.parametrize("kind", ["criteo"], indirect=True)
@pytest.mark.parametrize(("bad", "says"), CRITEO_LINES.values(), ids=CRITEO_LINES)
def test_a_bad_line_of_criteos_is_named_or_skipped(kind, write, capfd, bad, says):
    check_a_bad_line(kind, write, capfd, bad, says)


@pytest.mark.parametrize("kind", ["slots"], indirect=True)
@pytest.mark.parametrize(("bad", "says"), SLOT_LINES.values(), ids=SLOT_LINES)
def test_a_bad_line_of_slot_text_is_named_or_skipped(kind, write, capfd, bad, says):
    check_a_bad_line(kind, write, capfd, bad, says)


def check_a_bad_line(kind, write, capfd, bad, says):
    good = [kind.line(number) for number in range(6)]
    path = write("part", "".join([*good[:3], bad, *good[3:], bad]))
    read, error = read_until_error(kind, kind.dataset([path], 2))
    assert read == [0, 1, 2]
    assert error == f"{path}, line 4: {says}"
    made = kind.dataset([path], 2, on_error="skip")
    assert read_all(kind, made) == [*range(6)]
    assert (made.skipped.lines, made.skipped.files) == (2, 0)
    told = capfd.readouterr().err
    assert f"flota: skipped: {path}, line 4: {says}" in told
    assert f"flota: skipped: {path}, line 8: {says}" in told


@pytest.mark.parametrize("place", [0, 1, 17, 49])
@pytest.mark.parametrize("thread_num", [1, 2, 5])
def test_lines_have_their_numbers_in_the_file_wherever_it_is_cut(kind, write, small_pieces, capfd, place, thread_num):
    good = [kind.line(number) for number in range(50)]
    path = write("part", "".join([*good[:place], "bad\n", *good[place:]]))
    made = kind.dataset([path], 4, thread_num)
    _, error = read_until_error(kind, made)
    assert len(made._plan) > 5
    assert f"part, line {place + 1}: " in error
    made = kind.dataset([path], 4, thread_num, on_error="skip")
    assert sorted(read_all(kind, made)) == [*range(50)]
    assert made.skipped.lines == 1
    assert f"part, line {place + 1}: " in capfd.readouterr().err


def test_few_of_many_bad_lines_are_told_and_all_are_counted(kind, write, capfd):
    path = write("part", kind.line(1) + "bad\n" * 100_000 + kind.line(2))
    made = kind.dataset([path], on_error="skip")
    assert read_all(kind, made) == [1, 2]
    assert made.skipped.lines == 100_000
    assert len(capfd.readouterr().err.splitlines()) <= 10


# --- lines that are too long ---


@pytest.mark.parametrize("thread_num", [1, 3])
def test_a_line_that_is_too_long_is_named_or_skipped(kind, write, monkeypatch, capfd, thread_num):
    monkeypatch.setattr(lines_of, "CHUNK", 1 << 12)
    monkeypatch.setattr(lines_of, "LONGEST", 1 << 20)
    path = write("part", kind.line(1) + "x" * (3 << 20) + "\n" + kind.line(2))
    read, error = read_until_error(kind, kind.dataset([path], 1, thread_num))
    assert read[:1] == [1]
    assert "part, line 2: it is longer than 16 MiB: is this text at all?" in error
    made = kind.dataset([path], 1, thread_num, on_error="skip")
    assert read_all(kind, made) == [1, 2]
    assert made.skipped.lines == 1


def test_a_line_of_100_megabytes_costs_little_memory(tmp_path):
    """Its file is a hole: it costs no disk either."""
    path = tmp_path / "long"
    path.write_text("1 7 1 0\n")
    os.truncate(path, 100 << 20)
    with path.open("a") as file:
        file.write("\n1 8 1 0\n")
    program = f"""
import resource
from flota.data import QueueDataset
def most():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
data = QueueDataset()
data.init(1, 1, ["number", "label"], on_error="skip")
data.set_filelist([{str(path)!r}])
before = most()
print([batch["number"][0].tolist() for batch in data], data.skipped.lines, most() - before < 80)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.stdout == "[[7], [8]] 1 True\n", done.stderr
    assert "long, line 2: it is longer than 16 MiB" in done.stderr


# --- bad files ---


@pytest.mark.parametrize("policy", ["stop", "skip"])
def test_a_missing_file_is_an_error_not_an_end(kind, write, policy):
    """All workers must have the same files to share, so it is not skipped either."""
    files = [write("part", kind.line(1)), "/nowhere/part"]
    with pytest.raises(MissingFile, match="/nowhere/part: there is no such file"):
        iter(kind.dataset(files, on_error=policy))
    assert issubclass(MissingFile, FileNotFoundError)


def test_a_file_that_goes_away_is_an_error_or_skipped(kind, write, capfd):
    files = [write("one", kind.line(1)), write("other", kind.line(2))]
    for policy in ("stop", "skip"):
        made = kind.dataset(files, on_error=policy)
        made._pieces()
        os.rename(files[1], files[1] + ".away")
        if policy == "stop":
            read, error = read_until_error(kind, made)
            assert (read, error) == ([1], f"{files[1]}: there is no such file")
        else:
            assert read_all(kind, made) == [1]
            assert made.skipped.files == 1
        os.rename(files[1] + ".away", files[1])


def test_an_empty_file_has_no_samples(kind, write):
    assert read_all(kind, kind.dataset([write("empty", ""), write("part", kind.line(1)), write("more", "")])) == [1]
    assert list(kind.dataset([write("empty", "")])) == []
    assert list(kind.dataset([write("empty.gz", gzip.compress(b""))])) == []


@pytest.mark.parametrize("packed", [False, True])
def test_a_last_line_without_its_newline_is_a_line(kind, write, packed):
    text = "".join(kind.line(number) for number in range(5))[:-1].encode()
    path = write("part", gzip.compress(text) if packed else text)
    assert read_all(kind, kind.dataset([path, path], 3)) == [*range(5)] * 2


def test_a_gzip_file_that_is_cut_short_gives_what_it_holds_and_an_error(kind, write, capfd):
    text = "".join(kind.line(number * number % 7919) for number in range(3000))
    whole = gzip.compress(text.encode())
    path = write("cut.gz", whole[: len(whole) // 2])
    read, error = read_until_error(kind, kind.dataset([path], 100))
    assert len(read) > 1000
    assert read == [number * number % 7919 for number in range(len(read))]
    assert f"{path} is damaged or cut short: Truncated compressed stream" in error
    made = kind.dataset([path, write("part", kind.line(1))], 100, on_error="skip")
    assert read_all(kind, made) == [*read, 1]
    assert (made.skipped.lines, made.skipped.files) == (0, 1)
    assert "skipped the rest of it" in capfd.readouterr().err


def test_a_gzip_file_with_something_behind_it_is_an_error(kind, write):
    path = write("part.gz", gzip.compress(kind.line(1).encode()) + b"garbage")
    read, error = read_until_error(kind, kind.dataset([path]))
    assert read == [1]
    assert "part.gz is damaged or cut short" in error


def test_what_is_no_text_is_told_line_by_line(kind, write, rng):
    path = write("binary", b"\x00\xff" + rng.bytes(1000) + b"\n")
    _, error = read_until_error(kind, kind.dataset([path]))
    assert "binary, line 1: " in error
    assert error.isprintable()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_named(kind, write):
    path = write("secret", kind.line(1))
    os.chmod(path, 0)
    with pytest.raises(DataError, match=r"secret cannot be read: .*Permission denied"):
        iter(kind.dataset([path]))
