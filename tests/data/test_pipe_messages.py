"""What a pipe command says although it ends well is told once for a data set."""

from flota.data.formats.trouble import Trouble


def test_what_a_command_says_of_each_file_is_told_once(write, dataset, numbers, capfd):
    files = [write(f"raw{i}", "1 5 1 0\n") for i in range(4)]
    made = dataset(files, pipe_command="echo deprecated >&2; cat")
    for _ in range(2):
        assert numbers(made) == [5] * 4
    assert capfd.readouterr().err.count("deprecated\n") == 1


def test_what_is_told_of_one_command_does_not_hide_what_is_bad(capfd):
    trouble = Trouble("skip")
    for command in ("a", "b", "a"):
        for number in range(20):
            trouble.warn(command, f"{command} says {number}")
    trouble.bad_lines(["line 3"], 1)
    told = capfd.readouterr().err.splitlines()
    assert told == ["flota: a says 0", "flota: b says 0", "flota: skipped: line 3"]
