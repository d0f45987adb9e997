"""Jobs whose workers come and go, as the tests of engines start them."""

import sys
from pathlib import Path

LAUNCH = Path(__file__).parents[1] / "launch"
sys.path.append(str(LAUNCH))

from launched import PRELUDE  # noqa: E402
from test_scaling import FILES, LIGHT, LINES  # noqa: E402

FLOTA = [sys.executable, "-m", "flota.cli"]
COUNTING = (LAUNCH / "scaled_job.py").read_text()

# Workers of other hosts are other numbers there: a server looks for what they leave behind.
LIGHT_JOB = f"""{PRELUDE}{LIGHT}
def needed():
    return any(not Path(f"gone.{{file.name}}").exists() for file in Path("pids").glob("worker.?"))

if is_server:
    serve()
else:
    work(join())
"""


def write_data(folder):
    """Each sample a key of its own."""
    (folder / "data").mkdir()
    for number in range(FILES):
        lines = [f"1 {key} 1 0.5\n" for key in range(number * LINES, (number + 1) * LINES)]
        (folder / "data" / f"part-{number:02}").write_text("".join(lines))


def scale(host, folder, workers, *flags, env=None):
    """The lines that `flota scale` prints on a host, in this folder."""
    words = [*FLOTA, "scale", "--workers", str(workers), *flags]
    return host.run(words, cwd=folder, timeout=110, check=False, env=env).splitlines()
