"""What runs the pages notices what is wrong with them, and says where."""

import contextlib
import os
import textwrap
from pathlib import Path

import pytest
from blocks import read_blocks
from patching import patched
from running import alone, compare, run_page


def page(text):
    return list(read_blocks("page.md", textwrap.dedent(text)))


def test_blocks_run_in_their_order_and_share_a_folder_and_variables(tmp_path):
    run_page(
        page(
            """
            <!-- test: file=hello.py -->
            ```python
            print("hello from a file")
            ```

            ```sh
            export GREETING=$(python hello.py)
            ```

            ```python
            answer = 42
            ```

            ```sh
            echo "$GREETING" > said
            ```

            ```python
            print(open("said").read(), answer)
            ```

            <!-- test: output -->
            ```
            hello from a file
            17
            ```
            """
        ),
        tmp_path,
    )


def test_an_error_is_told_with_the_line_of_the_page(tmp_path):
    with pytest.raises(AssertionError, match=r'File "page.md", line 4.*\n.*\n*ZeroDivisionError'):
        run_page(page("\n```python\nnumber = 0\n1 / number\n```\n"), tmp_path)


def test_a_command_that_fails_in_the_middle_of_a_block_fails(tmp_path):
    with pytest.raises(AssertionError, match="exit status 3, not 0"):
        run_page(page("```sh\n(exit 3)\necho reached\n```\n"), tmp_path)


def test_commands_end_as_their_marks_say(tmp_path):
    run_page(page('<!-- test: status=3,0 -->\n```sh\n(exit 3)\n[ "$HOME" != / ]\n```\n'), tmp_path)


@pytest.mark.skipif(not alone(), reason="this machine lets nobody make namespaces")
def test_nothing_that_a_page_starts_outlives_it(tmp_path):
    mark = f"left-by-{tmp_path.name}-{os.getpid()}"
    run_page(
        page(f'```sh\nsetsid nohup sh -c "touch up; sleep 300" {mark} &\nwhile ! test -e up; do :; done\n```\n'),
        tmp_path,
    )
    left = [file.parent.name for file in Path("/proc").glob("[0-9]*/cmdline") if mark in command_of(file)]
    assert not left


def command_of(file):
    with contextlib.suppress(OSError):  # it has ended meanwhile
        return file.read_bytes().decode(errors="replace")
    return ""


def test_what_serves_is_ended_in_order(tmp_path):
    served = """
        <!-- test: serves=1 retry -->
        ```sh
        python -c "import signal, sys; signal.signal(15, lambda *_: sys.exit()); open('up', 'w'); signal.pause()"
        test -e up
        ```
        """
    run_page(page(served), tmp_path)
    (tmp_path / "second").mkdir()
    with pytest.raises(AssertionError, match="what was to serve had ended, with status 4"):
        run_page(page('<!-- test: while="exit 4" -->\n```sh\nsleep 1\n```\n'), tmp_path / "second")


@pytest.mark.parametrize(
    ("shown", "marks", "right"),
    [
        ("loss 0.5", "output", True),
        ("loss 0.7", "output", True),
        ("loss 0.51", "output near", True),
        ("loss 0.7", "output near", False),
        ("INFO 2026-01-02 03:04:05,678 launch] loss 1", "output", True),
        ("lost 0.5", "output", False),
        ("done\nloss 0.5", "output", False),
        ("loss 0.5\n…\ndone", "output", True),
        ("data of 3 files\ndone", "output=data", True),
    ],
)
def test_outputs_are_compared_by_lines_in_their_order(shown, marks, right):
    (block,) = page(f"<!-- test: {marks} -->\n```\n{shown}\n```\n")
    printed = "loss 0.5\nsomething else\ndone\n"
    if right:
        compare(block, printed)
    else:
        with pytest.raises(AssertionError, match=r"page\.md, line 3 shows a line that was not printed"):
            compare(block, printed)


def test_a_diff_has_to_fit_at_one_place():
    assert patched("a\nb\nc\nd\n", " a\n+new\n b\n…\n-d", "here") == "a\nnew\nb\nc\n"
    with pytest.raises(AssertionError, match="here: these lines are at 2 places"):
        patched("a\na\n", "-a", "here")
    with pytest.raises(AssertionError, match="here: these lines are at 0 places"):
        patched("a\n", "-b", "here")
