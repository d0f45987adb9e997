"""How a process ends."""

import subprocess
import sys
import textwrap


def run(script, folder):
    command = [sys.executable, "-c", textwrap.dedent(script)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


def test_files_reach_the_disk_though_no_garbage_is_collected_at_the_end(tmp_path):
    done = run(
        """
        import torch
        import flota.fleet

        class Keeper:
            def __init__(self, name):
                self.me = self
                self.file = open(name, "w")
                self.file.write("kept")

        keepers = [Keeper("open"), Keeper("closed")]
        keepers[1].file.close()
        print("said", end="")
        """,
        tmp_path,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "said", "")
    assert [(tmp_path / name).read_text() for name in ("open", "closed")] == ["kept", "kept"]


def test_the_status_of_a_script_that_fails_is_its_own(tmp_path):
    done = run("import torch, sys, flota.fleet\nsys.exit(7)", tmp_path)
    assert (done.returncode, done.stderr) == (7, "")
