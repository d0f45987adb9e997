"""Data generators, and the commands that print slot text for a file."""

import gzip
import io
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from flota.data import MultiSlotDataGenerator, MultiSlotStringDataGenerator
from flota.data.formats.pipes import _how
from flota.errors import DataError, InvalidArgument
from waiting import wait_until

# --- generators ---


class Words(MultiSlotDataGenerator):
    """A sample of the numbers of each line; none of an empty one."""

    def generate_sample(self, line):
        def samples():
            if not line.strip():
                yield None
                return
            label, *words = line.split()
            yield [("words", [int(word) for word in words]), ("label", [float(label)])]

        return samples


def printed(generator, text, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    generator.run_from_stdin()
    return capsys.readouterr().out


def one(generator, sample):
    generator.generate_sample = lambda line: lambda: [sample]
    generator.run_from_memory()


def test_a_generator_prints_slot_text(monkeypatch, capsys):
    assert printed(Words(), "1 5 6\n\n0 7\n", monkeypatch, capsys) == "2 5 6 1 1.0\n1 7 1 0.0\n"


def test_generate_batch_gets_as_many_samples_as_set_batch_says(monkeypatch, capsys):
    class Padded(Words):
        def generate_batch(self, samples):
            longest = max(len(sample[0][1]) for sample in samples)

            def batch():
                for (name, words), label in samples:
                    yield [(name, words + [0] * (longest - len(words))), label]

            return batch

    generator = Padded()
    generator.set_batch(2)
    text = printed(generator, "1 5 6 7\n1 8\n0 7\n", monkeypatch, capsys)
    assert text == "3 5 6 7 1 1.0\n3 8 0 0 1 1.0\n1 7 1 0.0\n"


def test_texts_are_printed_as_they_are(capsys):
    one(MultiSlotStringDataGenerator(), [("words", ["1926", "08"]), ("label", ("1",))])
    assert capsys.readouterr().out == "2 1926 08 1 1\n"


def test_numbers_of_numpy_are_numbers(capsys):
    one(MultiSlotDataGenerator(), [["words", [np.int64(5), np.float32(0.5)]], ("none", [])])
    assert capsys.readouterr().out == "2 5 0.5 0\n"


REFUSED = {
    "no list": (MultiSlotDataGenerator, 5, "a sample must be a list of"),
    "no slot": (MultiSlotDataGenerator, [5], "a sample must be a list of"),
    "no name": (MultiSlotDataGenerator, [(5, [1])], "its name a text"),
    "no values": (MultiSlotDataGenerator, [("a", 1)], "slot 'a': its values must be a list, not 1"),
    "no number": (MultiSlotDataGenerator, [("a", ["1"])], "slot 'a': values must be numbers, not '1'"),
    "a flag": (MultiSlotDataGenerator, [("a", [True])], "slot 'a': values must be numbers, not True"),
    "no text": (MultiSlotStringDataGenerator, [("a", [1])], r"slot 'a': its values must be texts, not \[1\]"),
    "two texts": (MultiSlotStringDataGenerator, [("a", ["1 2"])], "slot 'a': a value is empty or has a space in it"),
    "two lines": (MultiSlotStringDataGenerator, [("a", ["1\n2"])], "slot 'a': a value is empty or has a space in it"),
    "an empty text": (MultiSlotStringDataGenerator, [("a", [""])], "slot 'a': a value is empty or has a space in it"),
}


@pytest.mark.parametrize(("kind", "sample", "says"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_sample_is_refused(kind, sample, says):
    with pytest.raises(InvalidArgument, match=says):
        one(kind(), sample)


@pytest.mark.parametrize("other", [[("a", [1])], [("b", [1]), ("a", [2])], [("a", [1]), ("b", [2]), ("c", [3])]])
def test_samples_have_the_same_slots(other):
    generator = MultiSlotDataGenerator()
    generator.generate_sample = lambda line: lambda: [[("a", [1]), ("b", [2])], other]
    with pytest.raises(DataError, match="the samples before had"):
        generator.run_from_memory()


def test_generate_sample_returns_a_function():
    with pytest.raises(NotImplementedError, match="write generate_sample"):
        MultiSlotDataGenerator().run_from_memory()

    class Yields(MultiSlotDataGenerator):
        def generate_sample(self, line):
            yield [("a", [1])]

    with pytest.raises(InvalidArgument, match="generate_sample must return a function that yields samples"):
        Yields().run_from_memory()


# --- commands ---

READER = """
import sys
from flota.data import MultiSlotDataGenerator

class Reader(MultiSlotDataGenerator):
    def generate_sample(self, line):
        def samples():
            yield [("number", [int(line)]), ("label", [int(line) % 2])]
        return samples

Reader().run_from_stdin()
"""

# As much as a generator prints, in a shell: a process of Python's takes a while to begin.
SHELL = "while read n; do echo 1 $n 1 $((n % 2)); done"


@pytest.fixture
def raw(write):
    """Files of a number a line."""
    cuts = [(0, 40), (40, 40), (40, 70)]
    return [write(f"raw-{name}", "".join(f"{n}\n" for n in range(*cut))) for name, cut in enumerate(cuts)]


def error_of(made, numbers):
    """What was read before an error, and the error."""
    read, batches = [], iter(made)
    with pytest.raises(DataError) as caught:
        read.extend(iter(lambda: numbers([next(batches)]), None))
    return [number for batch in read for number in batch], str(caught.value)


def no_thread_is_left():
    return not any(thread.name.startswith("flota") for thread in threading.enumerate())


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_generators_program_reads_the_files(write, raw, dataset, numbers):
    script = write("reader.py", READER)
    assert numbers(dataset(raw[:1], 16, pipe_command=f"python {script}")) == [*range(40)]


@pytest.mark.parametrize("thread_num", [1, 2, 5])
def test_each_file_has_a_command_of_its_own(raw, dataset, numbers, thread_num):
    made = dataset(raw, 16, thread_num, pipe_command=SHELL)
    assert sorted(numbers(made)) == sorted(numbers(made)) == [*range(70)]
    assert no_thread_is_left()


@pytest.mark.parametrize("thread_num", [1, 3])
def test_packed_and_remote_files_are_fed_to_the_command(write, dataset, numbers, thread_num):
    packed = write("raw.gz", gzip.compress(b"1\n2\n"))
    made = dataset([packed, packed], 16, thread_num, pipe_command=SHELL)
    assert numbers(made) == [1, 2, 1, 2]


def test_an_option_of_the_shell_reaches_the_command(raw, dataset, numbers):
    made = dataset(raw, 100, pipe_command=f"grep -v 5 | tail -n 3 | ({SHELL})")
    assert numbers(made) == [37, 38, 39, 67, 68, 69]


@pytest.mark.parametrize("packed", [False, True])
def test_a_command_may_stop_reading_early(write, dataset, numbers, packed):
    """Enough input that it does not fit into a pipe."""
    text = b"1 7 1 1\n" * 100_000
    path = write("raw", gzip.compress(text) if packed else text)
    assert numbers(dataset([path], pipe_command="head -n 2")) == [7, 7]


# --- commands that go wrong ---


def test_a_command_that_fails_is_reported_after_what_it_printed(raw, dataset, numbers):
    command = "head -n 3 | sed 's/.*/1 & 1 0/'; echo oh no >&2; exit 7"
    read, error = error_of(dataset(raw, 2, pipe_command=command), numbers)
    assert read == [0, 1, 2]
    assert (
        error == f"pipe_command {command!r} on {raw[0]} ended with exit status 7; the end of its standard error:\noh no"
    )


def test_a_command_that_is_killed_is_reported(raw, dataset, numbers):
    read, error = error_of(dataset(raw, 2, pipe_command="echo 1 7 1 0; kill -KILL $$"), numbers)
    assert read == [7]
    assert f"on {raw[0]} was ended by SIGKILL" in error


def test_signals_without_a_name_are_told_by_number():
    assert _how(-40) == "was ended by signal 40"


def test_half_a_line_of_a_command_that_dies_is_no_sample(raw, dataset, numbers, capfd):
    command = "printf '1 7 1 1\\n1 8 1 1'; exit 1"
    read, _ = error_of(dataset(raw[:1], pipe_command=command), numbers)
    assert read == [7]
    made = dataset(raw[:2], pipe_command=command, on_error="skip")
    assert numbers(made) == [7, 7]
    assert (made.skipped.lines, made.skipped.files) == (0, 2)
    assert "skipped the rest of it: pipe_command" in capfd.readouterr().err


def test_the_last_line_of_a_command_that_ends_well_may_lack_its_newline(raw, dataset, numbers):
    assert numbers(dataset(raw[:1], pipe_command="printf '1 7 1 1\\n1 8 1 1'")) == [7, 8]


def test_a_missing_command_is_reported(raw, dataset, numbers):
    _, error = error_of(dataset(raw, pipe_command="no-such-command --at-all"), numbers)
    assert "pipe_command 'no-such-command --at-all'" in error
    assert "exit status 127" in error
    assert "not found" in error


def test_a_malformed_line_is_reported_with_what_the_command_said(raw, dataset, numbers):
    command = "echo 1 7 1 0; echo strange input >&2; echo 1 x 1 0; cat"
    read, error = error_of(dataset(raw, pipe_command=command), numbers)
    assert read == [7]
    assert error == (
        f"pipe_command {command!r} on {raw[0]}, its output, line 2: slot 'number': 'x' is no whole number; "
        "the end of its standard error:\nstrange input"
    )


def test_only_the_end_of_what_a_command_says_is_told(raw, dataset, numbers):
    _, error = error_of(dataset(raw, pipe_command="seq 200000 >&2; exit 1"), numbers)
    assert error.endswith("\n199999\n200000")
    assert len(error) < 3000


def test_malformed_lines_are_skipped_and_counted(raw, dataset, numbers, capfd):
    made = dataset(raw[:1], pipe_command=f"({SHELL}) | sed 's/^1 1. .*/bad/'", on_error="skip")
    assert numbers(made) == [*range(10), *range(20, 40)]
    assert (made.skipped.lines, made.skipped.files) == (10, 0)
    told = capfd.readouterr().err
    assert "its output, line 11: slot 'number' must begin with the number of its values, not with 'bad'" in told
    assert "line 20" not in told, "the first few are enough"


def test_a_command_that_fails_is_skipped_and_counted(raw, dataset, numbers, capfd):
    made = dataset(raw, pipe_command=f"({SHELL}); exit 3", on_error="skip")
    assert numbers(made) == [*range(70)]
    assert (made.skipped.lines, made.skipped.files) == (0, 3)
    assert capfd.readouterr().err.count("ended with exit status 3") == 3


def test_what_a_command_says_is_told_although_it_ends_well(raw, dataset, numbers, capfd):
    assert numbers(dataset(raw[:1], pipe_command=f"echo deprecated >&2; {SHELL}")) == [*range(40)]
    told = capfd.readouterr().err
    assert f"on {raw[0]} has ended well; the end of its standard error:\nflota: deprecated" in told


def test_a_packed_file_that_is_cut_short_is_an_error_however_well_the_command_ends(write, dataset, numbers, capfd):
    whole = gzip.compress("".join(f"{n * n}\n" for n in range(5000)).encode())
    path = write("raw.gz", whole[: len(whole) // 2])
    read, error = error_of(dataset([path], pipe_command=SHELL), numbers)
    assert read[:3] == [0, 1, 4]
    assert f"{path} is damaged or cut short" in error
    assert "read for pipe_command" in error
    made = dataset([path], pipe_command=SHELL, on_error="skip")
    list(made)
    assert made.skipped.files == 1


# --- nothing is left behind ---


@pytest.mark.parametrize("prints", ["yes '1 7 1 0'", "yes '1 7 1 0' | head -n 300000; sleep 1000"])
def test_a_command_ends_when_nobody_wants_more(raw, dataset, tmp_path, prints):
    """Whether it prints without end, or has nothing to say for a long time."""
    pid = tmp_path / "pid"
    made = dataset(raw, 8, pipe_command=f"echo $$ > {pid}; {prints}")
    for batch in made:
        assert len(batch["number"]) == 8
        break
    wait_until(lambda: not is_running(int(pid.read_text())))
    wait_until(no_thread_is_left)


def test_a_silent_command_does_not_keep_a_pass_from_being_closed(raw, dataset, tmp_path):
    os.mkfifo(tmp_path / "started")
    batches = iter(dataset(raw, pipe_command=f"echo $$ > {tmp_path / 'started'}; sleep 1000"))
    pid = int((tmp_path / "started").read_text())
    batches.close()
    assert not is_running(pid)
    assert no_thread_is_left()


def test_no_file_stays_open(raw, dataset):
    made = dataset(raw, 8, 3, pipe_command=SHELL)
    list(made)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        list(made)
        next(iter(made))
    wait_until(no_thread_is_left)
    assert len(os.listdir("/proc/self/fd")) <= before


def test_a_program_that_ends_early_leaves_no_command(write, tmp_path):
    path, pid = write("raw", ""), tmp_path / "pid"
    program = f"""
from flota.data import QueueDataset
data = QueueDataset()
data.init(8, 1, ["number"], pipe_command="echo $$ > {pid}; echo 1 7; yes 1 8 | head -n 1500000; sleep 1000")
data.set_filelist([{path!r}])
batches = iter(data)
next(batches)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    wait_until(lambda: not is_running(int(pid.read_text())))


# --- downloads ---


def test_a_download_command_prints_the_files(tmp_path, write, dataset, numbers):
    """Nobody but the command has to know where they are."""
    write("a b", "1\n2\n")
    write("c", "3\n")
    made = dataset(["a b", "c"], pipe_command=SHELL, download_cmd=f"cd {tmp_path} && cat")
    assert numbers(made) == [1, 2, 3]
    assert numbers(dataset(["there"], download_cmd="echo 1 8 1 0 '#' | cut -d '#' -f 1 &&:")) == [8]


def test_a_download_that_fails_is_reported(dataset, numbers):
    made = dataset(["hdfs://host/part"], pipe_command=SHELL, download_cmd="echo 5; echo no such host >&2; false")
    read, error = error_of(made, numbers)
    assert read == [5]
    assert error == (
        "download_cmd 'echo 5; echo no such host >&2; false hdfs://host/part' ended with exit status 1; "
        "the end of its standard error:\nno such host"
    )


def test_a_download_may_give_more_than_the_command_wants(dataset, numbers):
    made = dataset(["part"], pipe_command="head -n 2", download_cmd="yes '1 7 1 0' #")
    assert numbers(made) == [7, 7]
